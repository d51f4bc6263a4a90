//! Plugins that do not do what they should, and what becomes of them.

use std::{fs, path::Path, time::Duration};

use keyward_testing::{orphans::is_guarded, server::User};
use rustix::process::Signal;
use serde_json::json;

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    process::{below, wait_until},
    stage::{PATIENCE, Stage, exec, kubeconfig, prints, server},
    untried,
    wire::{Card, status},
};

pub const ALL: &[Line] = &[
    ("L18", "children of a plugin in sessions of their own, after its time is up", own_sessions),
    ("D5", "a second revocation right after a healed one", second_revocation),
    ("D6", "a plugin that hangs while its `keyward` is killed", orphan),
    ("D7", "a login prompt on stderr while the plugin waits", prompt),
    ("D9-lint", "a pattern that the kubelet accepts", lint_star),
    ("D9-exam", "a plugin that always answers v1, with a stray line", exam),
    ("D9-kubeconfig", "a second proxy with the same `--write-kubeconfig`", same_kubeconfig),
    ("held-recursion", "a plugin that starts itself again and again", recursion),
    ("held-deaf", "twenty children that ignore SIGTERM", deaf),
    ("held-flood", "gigabytes on a plugin's stdout", flood),
];

/// Processes below us whose command line has this word in it.
fn alive(word: &str) -> Vec<u32> {
    let named = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    below(std::process::id()).into_iter().filter(named).collect()
}

/// Whether all such processes are gone soon.
fn gone(word: &str) -> bool {
    wait_until(Duration::from_secs(2), || alive(word).is_empty())
}

fn budgeted(stage: &Stage) -> Result<(), Failure> {
    let mut command = stage.keyward(&["credential", "--plugin-timeout", "1500ms"]);
    let done = stage.run(&mut command)?;
    if done.ok() || done.status.is_none() {
        return untried(format!("its time does not run out: {}", done.why()));
    }
    Ok(())
}

fn own_sessions(stage: &Stage) -> Outcome {
    let word = "61.7331";
    let script = format!(
        "#!/bin/sh\nfor n in 1 2 3 4 5; do setsid sleep {word} </dev/null >/dev/null 2>&1 & done\n\
         : >{}\nexec sleep 62\n",
        stage.home("started").display()
    );
    let user = stage.exec(&script)?;
    stage.write("config", kubeconfig(&user))?;
    budgeted(stage)?;
    if !stage.home("started").exists() {
        return untried("the plugin did not run");
    }
    if !gone(word) {
        return got_through(format!("{} of 5 are alive", alive(word).len()));
    }
    Ok("all 5 ended".to_owned())
}

fn second_revocation(stage: &Stage) -> Outcome {
    let server = server()?;
    let user = stage.exec(&format!("#!/bin/sh\ncat {}\n", stage.home("answer").display()))?;
    stage.write("config", server.kubeconfig(&user))?;
    let issue = |token: &str| -> Result<(), Failure> {
        let answer = json!({
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1",
            "status": { "token": token },
        });
        let new = stage.write("new", answer.to_string())?;
        fs::rename(new, stage.home("answer"))?;
        server.users().replace_tokens([(token, User::new("anna"))]);
        Ok(())
    };
    issue("t0")?;
    let proxy = stage.proxy(&[])?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    if !card.is_served("/version") {
        return untried(format!("no first answer: {}", proxy.running.stderr()));
    }
    let mut refused = 0;
    for round in 0..10 {
        issue(&format!("t{}", round + 1))?;
        refused += usize::from(status(&card.get("/version", "")?) != 200);
    }
    if refused > 0 {
        return got_through(format!("{refused} of 10 requests were refused"));
    }
    Ok("10 of 10 healed".to_owned())
}

fn orphan(stage: &Stage) -> Outcome {
    let word = "61.7332";
    let user = stage.exec(&format!("#!/bin/sh\nexec sleep {word}\n"))?;
    stage.write("config", kubeconfig(&user))?;
    let signals = [("INT", Signal::INT), ("TERM", Signal::TERM), ("KILL", Signal::KILL)];
    for (name, signal) in signals {
        for words in [&["credential"][..], &["get", "--raw", "/version"]] {
            let running = stage.start(&mut stage.keyward(words))?;
            if !wait_until(PATIENCE, || alive(word).len() == 1) {
                return untried(format!("the plugin does not run: {}", running.stderr()));
            }
            // On a busy machine the plugin may be up before `keyward` has armed the kernel's signal
            // (decision 0023). A build that arms none is judged all the same.
            wait_until(Duration::from_secs(5), || is_guarded(running.pid().cast_signed()));
            running.signal(signal);
            running.wait(PATIENCE);
            if !gone(word) {
                return got_through(format!("it lives on after SIG{name} at {words:?}"));
            }
        }
    }
    Ok("it ends with its `keyward`".to_owned())
}

fn prompt(stage: &Stage) -> Outcome {
    let go = stage.home("go");
    let script = format!(
        "#!/bin/sh\necho 'open https://login.example and enter CODE-77' >&2\n\
         while [ ! -e {} ]; do sleep 0.05; done\n{}",
        go.display(),
        prints("good")
    );
    let plugin = stage.script("plugin", &script)?;
    for mode in ["Never", "IfAvailable"] {
        let mut user = exec(&plugin, &[]);
        user["exec"]["interactiveMode"] = json!(mode);
        stage.write("config", kubeconfig(&user))?;
        let _ = fs::remove_file(&go);
        let running = stage.start(&mut stage.keyward(&["credential"]))?;
        let shown = wait_until(Duration::from_secs(10), || running.stderr().contains("CODE-77"));
        stage.write("go", "")?;
        let done = running.wait(PATIENCE);
        if !done.ok() {
            return untried(done.why());
        }
        if !shown {
            return got_through(format!("{mode}: nothing is shown while it waits"));
        }
    }
    Ok("shown at once".to_owned())
}

fn lint_star(stage: &Stage) -> Outcome {
    let directory = stage.directory("providers", 0o755)?;
    let program = directory.join("prov");
    fs::write(&program, "#!/bin/sh\n")?;
    stage.give(&program, 0o755)?;
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [{
            "name": "prov",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": ["registry.io/*"],
            "defaultCacheDuration": "1m",
        }],
    });
    let config = stage.write("providers.yaml", config.to_string())?;
    let mut command = stage.keyward(&["image", "lint", "--config"]);
    let done = stage.run(command.arg(config).arg("--bin-dir").arg(directory))?;
    if done.ok() { Ok("a warning".to_owned()) } else { got_through(done.said()) }
}

fn exam(stage: &Stage) -> Outcome {
    let plain = stage.script("plain", &format!("#!/bin/sh\n{}", prints("good")))?;
    let stray = stage.script("stray", &format!("#!/bin/sh\necho stray\n{}", prints("good")))?;
    let complains = |plugin: &Path| -> Result<bool, Failure> {
        let mut command = stage.keyward(&["plugin", "test", "--plugin-timeout", "20s", "--"]);
        let said = stage.run(command.arg(plugin))?.said();
        Ok(said.lines().any(|line| line.contains("FAIL") && line.contains("versions")))
    };
    if !complains(&plain)? {
        return untried("a plugin that always answers v1 passes anyway");
    }
    if !complains(&stray)? {
        return got_through("with a stray line nothing is said of its versions");
    }
    Ok("both faults are named".to_owned())
}

fn same_kubeconfig(stage: &Stage) -> Outcome {
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let file = stage.home("shared.kubeconfig");
    let words = ["--write-kubeconfig", &file.display().to_string()];
    let first = stage.proxy(&words)?;
    let before = fs::read(&file)?;
    let second = stage.proxy(&words);
    if fs::read(&file).ok().as_ref() != Some(&before) {
        return got_through("the second overwrites it");
    }
    if let Ok(second) = second {
        second.running.signal(Signal::TERM);
        second.running.wait(PATIENCE);
    }
    if fs::read(&file).ok() != Some(before) {
        return got_through("the second deletes it");
    }
    let still = Card::read(&first.kubeconfig, 0)?.is_served("/version");
    if still { Ok("the first's stays".to_owned()) } else { got_through("the first serves no more") }
}

fn recursion(stage: &Stage) -> Outcome {
    let word = "61.7333";
    let script = format!(
        "#!/bin/sh\nn=${{1:-0}}\n[ $n -ge 7 ] && exec sleep {word}\n\"$0\" $((n+1)) &\n\"$0\" $((n+1)) &\nwait\n"
    );
    let user = stage.exec(&script)?;
    stage.write("config", kubeconfig(&user))?;
    budgeted(stage)?;
    let name = stage.home("bin/plugin").display().to_string();
    if !gone(word) || !gone(&name) {
        return got_through(format!("{} are alive", alive(word).len() + alive(&name).len()));
    }
    Ok("all gone after the budget".to_owned())
}

fn deaf(stage: &Stage) -> Outcome {
    let script = "#!/bin/sh\ntrap '' TERM\nfor n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do\n\
                  sh -c 'trap \"\" TERM; sleep 61.7334; sleep 61.7334' &\ndone\nwait\n";
    let user = stage.exec(script)?;
    stage.write("config", kubeconfig(&user))?;
    budgeted(stage)?;
    if !gone("61.7334") {
        return got_through(format!("{} are alive", alive("61.7334").len()));
    }
    Ok("all gone after the budget".to_owned())
}

fn flood(stage: &Stage) -> Outcome {
    let amount = if stage.short { "1G" } else { "10G" };
    let user = stage.exec(&format!("#!/bin/sh\nexec head -c {amount} /dev/zero\n"))?;
    stage.write("config", kubeconfig(&user))?;
    let done = stage.run(&mut stage.keyward(&["credential"]))?;
    if done.ok() || done.status.is_none() || done.peak > 100_000 {
        return got_through(format!("{} MB, {}", done.peak / 1024, done.why()));
    }
    Ok(format!("{amount} in {} MB", done.peak / 1024))
}
