//! Files that are not what they seem, and places where others can write.

use std::{fs, os::unix::fs::chown, path::Path, process::Command, time::Duration};

use serde_json::{Value, json};

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    process::tool,
    stage::{Stage, cluster, kubeconfig, mode, prints, server},
    untried,
};

pub const ALL: &[Line] = &[
    ("L10-write", "a kubeconfig written into a directory that everybody can write", open_directory),
    ("L10-squat", "another user who makes the proxy's directory in `/tmp` first", squatted),
    ("L12-fifo", "a docker configuration that is a FIFO", docker_fifo),
    ("L12-zero", "a docker configuration that is `/dev/zero`", docker_zero),
    ("held-files", "an authority or token file that never ends", endless_files),
    ("held-full", "a full disk and a full stdout", full),
    ("held-closed", "a start without standard descriptors", closed),
];

/// A program without the defect answers at once; one that hangs has hung by then.
const LIMIT: Duration = Duration::from_secs(15);

/// A FIFO may have a writer that is late: the program waits for it, but not forever.
const FIFO_LIMIT: Duration = Duration::from_secs(45);

fn open_directory(stage: &Stage) -> Outcome {
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let open = stage.directory("open", 0o777)?;
    let file = open.join("kubeconfig");
    let proxy = stage.proxy(&["--write-kubeconfig", &file.display().to_string()]);
    match proxy {
        Ok(_) => got_through("written"),
        Err(Failure::Untried(why)) if !file.exists() => Ok(format!("refused: {why}")),
        Err(other) => Err(other),
    }
}

fn squatted(stage: &Stage) -> Outcome {
    let attacker = stage.attacker()?;
    let server = server()?;
    stage.write("config", server.kubeconfig(&json!({ "token": "good" })))?;
    let shared = stage.dir.join("shared");
    let squat = shared.join(format!("keyward-{}", stage.victim()));
    fs::create_dir(&shared)?;
    fs::create_dir(&squat)?;
    mode(&shared, 0o1777)?;
    chown(&squat, Some(attacker), Some(attacker))?;
    let mut command = stage.keyward(&[]);
    command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", &shared);
    match stage.proxy_of(command, &[]) {
        Ok(proxy) if proxy.kubeconfig.starts_with(&squat) => got_through("it uses that directory"),
        Ok(proxy) => Ok(format!("it starts elsewhere: {}", proxy.kubeconfig.display())),
        Err(Failure::Untried(why)) => got_through(format!("it does not start: {why}")),
        Err(other) => Err(other),
    }
}

/// Asks the docker bridge with this file as its configuration.
fn docker_with(stage: &Stage, config: &Path, limit: Duration) -> Outcome {
    let question = r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"r.io/app"}"#;
    let question = stage.write("question", question)?;
    let script = format!(
        "exec \"$BIN/keyward-provider-docker\" --config {} <{}",
        config.display(),
        question.display()
    );
    let done = stage.run_for(&mut stage.shell(&script), limit)?;
    if done.status.is_none() {
        return got_through(format!("it hangs, with {} MB", done.peak / 1024));
    }
    if done.peak > 200_000 {
        return got_through(format!("it took {} MB", done.peak / 1024));
    }
    Ok(format!("{} in {} MB", done.why(), done.peak / 1024))
}

fn docker_fifo(stage: &Stage) -> Outcome {
    let fifo = stage.home("fifo");
    tool("mkfifo", "coreutils", &[&fifo.display().to_string()])?;
    stage.give(&fifo, 0o600)?;
    docker_with(stage, &fifo, FIFO_LIMIT)
}

fn docker_zero(stage: &Stage) -> Outcome {
    docker_with(stage, Path::new("/dev/zero"), LIMIT)
}

fn endless_files(stage: &Stage) -> Outcome {
    let mut seen = Vec::new();
    for file in ["/dev/zero", "/proc/self/mem", "/dev/random"] {
        let cases: [(Value, Value); 2] = [
            (json!({ "certificate-authority": file }), json!({ "token": "good" })),
            (json!({}), json!({ "tokenFile": file })),
        ];
        for (mut own, user) in cases {
            own["server"] = json!("https://127.0.0.1:1");
            stage.write("config", cluster(&own, &user))?;
            let done = stage.run_for(&mut stage.keyward(&["get", "--raw", "/version"]), LIMIT)?;
            if done.status.is_none() || done.ok() || done.panicked() || done.peak > 200_000 {
                return got_through(format!("{file}: {} in {} MB", done.why(), done.peak / 1024));
            }
            seen.push(done.peak / 1024);
        }
    }
    Ok(format!("errors in at most {} MB", seen.iter().max().unwrap_or(&0)))
}

fn full(stage: &Stage) -> Outcome {
    let user = stage.exec(&format!("#!/bin/sh\n{}", prints("good")))?;
    stage.write("config", kubeconfig(&user))?;
    for words in ["credential", "plan", "plan -o json"] {
        let script = format!("exec \"$KEYWARD\" {words} >/dev/full");
        let done = stage.run(&mut stage.shell(&script))?;
        if done.ok() || done.panicked() {
            return got_through(format!("{words} on a full stdout: {}", done.why()));
        }
    }
    if stage.attacker().is_err() {
        return untried("a full disk takes a mount: run as root");
    }
    // A disk of one page, filled: the proxy has to say so and to leave nothing behind.
    let (small, victim) = (stage.directory("small", 0o700)?, stage.victim());
    let script = format!(
        "mount -t tmpfs -o size=8k,uid={victim},mode=0700 none {small} && \
         dd if=/dev/zero of={small}/fill bs=4k status=none; \
         exec setpriv --reuid {victim} --regid {victim} --clear-groups -- env -i HOME={home} \
         XDG_RUNTIME_DIR={small} KUBECONFIG={home}/config PATH=/usr/bin:/bin {keyward} proxy -- true",
        small = small.display(),
        home = stage.dir.join("home").display(),
        keyward = stage.bin.join("keyward").display(),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--", "sh", "-c", &script]);
    let done = stage.run(&mut command)?;
    if done.ok() || done.panicked() || done.status.is_none() {
        return got_through(format!("a full disk: {}", done.why()));
    }
    Ok(done.why())
}

fn closed(stage: &Stage) -> Outcome {
    let server = server()?;
    let user = stage.exec(&format!("#!/bin/sh\n{}", prints("good")))?;
    stage.write("config", server.kubeconfig(&user))?;
    let mut codes = Vec::new();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"] {
        for words in ["credential", "get --raw /version", "plan"] {
            let done =
                stage.run(&mut stage.shell(&format!("exec \"$KEYWARD\" {words} {closed}")))?;
            let signalled = done.status.is_some() && done.code().is_none();
            if done.panicked() || signalled || done.status.is_none() {
                return got_through(format!("{words} {closed}: {:?} {}", done.status, done.why()));
            }
            codes.extend(done.code());
        }
    }
    codes.sort_unstable();
    codes.dedup();
    Ok(format!("no panic, exit codes {codes:?}"))
}
