//! Where a secret can be seen by somebody who should not.

use std::{fs, path::Path, time::Duration};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use keyward_testing::server::{Deed, Fault, User};
use rustix::process::Signal;
use serde_json::json;

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    process::{tool, wait_until},
    stage::{PATIENCE, Stage, cluster, exec, kubeconfig, prints, server},
    untried,
    wire::Card,
};

pub const ALL: &[Line] = &[
    ("M1", "a token of the proxy that its plugin prints when it fails to renew it", handed_out),
    ("L5-memory", "the memory of a proxy, read by the same user", proxy_memory),
    ("L5-gcore", "a dump of a proxy, made by the same user", gcore),
    ("L5-core", "the core of a proxy that was aborted", core),
    ("L5-get", "the memory of `keyward get` while it waits, read by the same user", get_memory),
    (
        "L5-docker",
        "the memory of a docker bridge while it waits, read by the same user",
        bridge_memory,
    ),
    ("L6+", "the PIN in the environment of a signer that just starts", pin_environment),
    ("L7", "a password in a server's address", address),
    ("L8-arguments", "a plugin that prints the secrets of its arguments", arguments),
    ("L8-variables", "a plugin that prints the secrets of its environment", variables),
    ("L8-encoded", "a plugin that prints its token in other encodings", encoded),
    ("L9-plan", "control and bidirectional characters in `plan -o json`", plan_characters),
    ("L9-log", "control and bidirectional characters in the JSON log", log_characters),
    ("L16", "the key and PIN of a demo that was killed", killed_demo),
    ("held-strace", "system calls that show the token outside of the plugin's pipe", strace),
];

const TOKEN: &str = "tkn-Zq7/marked+Lw0-3f9a1c77e2";

/// A proxy that has used the token once.
fn with_token(
    stage: &Stage,
    before: &str,
) -> Result<(crate::stage::Proxy, keyward_testing::server::Server), Failure> {
    let server = server()?;
    server.users().token(TOKEN, User::new("anna"));
    let user = stage.exec(&format!("#!/bin/sh\n{}", prints(TOKEN)))?;
    stage.write("config", server.kubeconfig(&user))?;
    let script = format!("{before}exec \"$KEYWARD\" \"$@\"");
    let mut command = stage.shell(&script);
    command.arg("sh");
    let proxy = stage.proxy_of(command, &[])?;
    if !Card::read(&proxy.kubeconfig, 0)?.is_served("/version") {
        return untried(format!("the proxy serves nothing: {}", proxy.running.stderr()));
    }
    Ok((proxy, server))
}

fn handed_out(stage: &Stage) -> Outcome {
    let server = server()?;
    server.users().token(TOKEN, User::new("anna"));
    let ran = stage.home("ran");
    let plugin = format!(
        "#!/bin/sh\nif [ -e {0} ]; then echo 'cannot renew {TOKEN}' >&2; exit 1; fi\n: >{0}\n{1}",
        ran.display(),
        prints(TOKEN)
    );
    let user = stage.exec(&plugin)?;
    stage.write("config", server.kubeconfig(&user))?;
    let proxy = stage.proxy(&["-v"])?;
    let card = Card::read(&proxy.kubeconfig, 0)?;
    if !card.is_served("/version") {
        return untried(format!("the first request fails: {}", proxy.running.stderr()));
    }
    server.users().revoke_tokens();
    let answers = [card.get("/version", "")?, card.get("/version", "")?].concat();
    let shown = stage.run(&mut stage.keyward(&["proxy", "status"]))?.said();
    let json = stage.run(&mut stage.keyward(&["proxy", "status", "-o", "json"]))?.said();
    if !proxy.running.stderr().contains("cannot renew") && !answers.contains("cannot renew") {
        return untried(format!("the plugin's words are nowhere: {answers}"));
    }
    let places = [
        ("the log", proxy.running.stderr()),
        ("an answer", answers),
        ("`proxy status`", shown + &json),
    ];
    hidden(&places, &[TOKEN])
}

/// Whether none of these words is in any of these texts.
fn hidden(texts: &[(&str, String)], words: &[&str]) -> Outcome {
    for (place, text) in texts {
        for word in words {
            if text.contains(word) {
                return got_through(format!("{place} shows `{word}`"));
            }
        }
    }
    Ok(format!("hidden in {} places", texts.len()))
}

fn memory_of(stage: &Stage, pid: u32, word: &str) -> Outcome {
    let read =
        stage.run(&mut stage.role(stage.victim(), &["read-memory", &pid.to_string(), word]))?;
    match read.stdout.trim() {
        said if said.starts_with("refused") => Ok(said.to_owned()),
        said if said.starts_with("copies") => got_through(format!("read, {said}")),
        said => untried(format!("no memory was looked at: {said} {}", read.why())),
    }
}

fn unless_root(stage: &Stage) -> Result<(), Failure> {
    if stage.victim() == 0 { untried("it takes a user who is not root") } else { Ok(()) }
}

fn proxy_memory(stage: &Stage) -> Outcome {
    unless_root(stage)?;
    let (proxy, _server) = with_token(stage, "")?;
    memory_of(stage, proxy.running.pid(), TOKEN)
}

fn gcore(stage: &Stage) -> Outcome {
    unless_root(stage)?;
    tool("gdb", "gdb", &["--version"])?;
    let (proxy, _server) = with_token(stage, "")?;
    let dump = stage.home("dump");
    let mut command = stage.command(Path::new("/usr/bin/gcore"), stage.victim());
    command.arg("-o").arg(&dump).arg(proxy.running.pid().to_string());
    let done = stage.run(&mut command)?;
    let file = dump.with_extension(proxy.running.pid().to_string());
    if let Ok(bytes) = fs::read(&file) {
        return got_through(format!("a dump of {} bytes", bytes.len()));
    }
    Ok(format!("refused: {}", done.why()))
}

fn core(stage: &Stage) -> Outcome {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern")?;
    if pattern.starts_with(['|', '/']) {
        return untried("cores go elsewhere: `sysctl kernel.core_pattern=core` first");
    }
    let (proxy, _server) = with_token(stage, "ulimit -c unlimited\n")?;
    proxy.running.signal(Signal::ABORT);
    let done = proxy.running.wait(PATIENCE);
    for entry in fs::read_dir(stage.home(""))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("core") {
            return got_through(format!("a core of {} bytes", entry.metadata()?.len()));
        }
    }
    Ok(format!("no core: {:?}", done.status))
}

fn get_memory(stage: &Stage) -> Outcome {
    unless_root(stage)?;
    let server = server()?;
    server.users().token(TOKEN, User::new("anna"));
    server.faults().add(Fault::on("/slow", Deed::Delay(Duration::from_secs(60))));
    stage.write("config", server.kubeconfig(&json!({ "token": TOKEN })))?;
    let running = stage.start(&mut stage.keyward(&["get", "--raw", "/slow"]))?;
    if !wait_until(PATIENCE, || server.counts().waiting > 0) {
        return untried(format!("it does not come to the server: {}", running.stderr()));
    }
    memory_of(stage, running.pid(), TOKEN)
}

fn bridge_memory(stage: &Stage) -> Outcome {
    unless_root(stage)?;
    let started = stage.home("started");
    let helper = format!("#!/bin/sh\n: >{}\nexec sleep 60\n", started.display());
    stage.script("docker-credential-slow", &helper)?;
    let secret = STANDARD.encode(format!("u:{TOKEN}"));
    let config = json!({
        "credHelpers": { "r.io": "slow" },
        "auths": { "other.io": { "auth": secret } },
    });
    let config = stage.write("docker.json", config.to_string())?;
    let question = r#"{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"r.io/app"}"#;
    let question = stage.write("question", question)?;
    let script = format!(
        "exec \"$BIN/keyward-provider-docker\" --config {} <{}",
        config.display(),
        question.display()
    );
    let mut command = stage.shell(&script);
    command.env("PATH", format!("{}:/usr/bin:/bin", stage.home("bin").display()));
    let running = stage.start(&mut command)?;
    if !wait_until(PATIENCE, || started.exists()) {
        return untried(format!("its helper is not asked: {}", running.stderr()));
    }
    memory_of(stage, running.pid(), &secret)
}

const PIN: &str = "pin-739125-marked";

fn pin_environment(stage: &Stage) -> Outcome {
    unless_root(stage)?;
    let user = json!({ "auth-provider": { "name": "externalSigner", "config": {
        "pathExec": stage.bin.join("keyward-pkcs11"),
        "pathLib": "/usr/lib/none.so",
        "uri": "pkcs11:token=lab;object=jane",
        "pin": PIN,
    } } });
    stage.write("config", kubeconfig(&user))?;
    let watch = stage.start(&mut stage.role(stage.victim(), &["watch-environ", PIN]))?;
    let runs = if stage.short { 150 } else { 500 };
    let mut last = String::new();
    for _ in 0..runs {
        let done = stage.run(&mut stage.keyward(&["sign"]))?;
        last = done.why();
    }
    let seen = watch.stdout().lines().count();
    if seen > 0 {
        return got_through(format!("seen {seen} times in {runs} runs"));
    }
    Ok(format!("not seen in {runs} runs ({last})"))
}

fn address(stage: &Stage) -> Outcome {
    let mut texts = Vec::new();
    for server in [
        "https://user:hunter2/secret@127.0.0.1:1",
        "https://user:hunter2@127.0.0.1:1/x",
        "https://user:hunter2 @127.0.0.1:1",
        "https://user:hunter2@127.0.0.1:99999",
    ] {
        stage
            .write("config", cluster(&json!({ "server": server }), &json!({ "token": "good" })))?;
        let commands: [&[&str]; 6] = [
            &["get", "--raw", "/version"],
            &["whoami"],
            &["plan"],
            &["plan", "-o", "json"],
            &["doctor"],
            &["doctor", "-o", "json"],
        ];
        for words in commands {
            texts.push((server, stage.run(&mut stage.keyward(words))?.said()));
        }
    }
    hidden(&texts, &["hunter2"])
}

fn arguments(stage: &Stage) -> Outcome {
    let plugin = stage.script("plugin", "#!/bin/sh\necho \"called with $*\" >&2\nexit 1\n")?;
    let cases: [&[&str]; 6] = [
        &["-p", "marked-Secret1"],
        &["--pass", "marked-Secret1"],
        &["--pass=marked-Secret1"],
        &["https://user:marked-Secret1@idp.example/login"],
        &["--url=https://user:marked-Secret1@idp.example/login"],
        &["--password", "marked-Secret1"],
    ];
    let mut texts = Vec::new();
    for args in cases {
        stage.write("config", kubeconfig(&exec(&plugin, args)))?;
        let done = stage.run(&mut stage.keyward(&["get", "--raw", "/version", "-vv"]))?;
        if !done.stderr.contains("called with") {
            return untried(format!("the plugin's words are not shown: {}", done.said()));
        }
        texts.push((args[0], done.said()));
        for words in [&["plan"][..], &["plan", "-o", "json"], &["doctor"]] {
            texts.push((args[0], stage.run(&mut stage.keyward(words))?.said()));
        }
    }
    hidden(&texts, &["marked-Secret1"])
}

fn variables(stage: &Stage) -> Outcome {
    let mut texts = Vec::new();
    for (name, value) in [
        ("GITHUB_PAT", "marked-Secret2"),
        ("MYCRED", "marked-Secret2"),
        ("NPM_AUTH", "marked-Secret2"),
        ("DATABASE_URL", "postgres://u:marked-Secret2@db.example/x"),
        ("AWS_SECRET_ACCESS_KEY", "marked-Secret2"),
    ] {
        let user = stage.exec(&format!("#!/bin/sh\necho \"it is ${name}\" >&2\nexit 1\n"))?;
        stage.write("config", kubeconfig(&user))?;
        let done =
            stage.run(stage.keyward(&["get", "--raw", "/version", "-vv"]).env(name, value))?;
        if !done.stderr.contains("it is") {
            return untried(format!("the plugin's words are not shown: {}", done.said()));
        }
        texts.push((name, done.said()));
    }
    hidden(&texts, &["marked-Secret2"])
}

fn encoded(stage: &Stage) -> Outcome {
    let hex = TOKEN.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let percent = TOKEN.replace('/', "%2F").replace('+', "%2B");
    let forms = [STANDARD.encode(TOKEN), URL_SAFE_NO_PAD.encode(TOKEN), hex, percent];
    let mut texts = Vec::new();
    for form in &forms {
        // The end of a log line, or of an encoding, may be cut: the beginning must not be there.
        let script = format!("#!/bin/sh\n{}\necho 'sent {form} away' >&2\nexit 1\n", prints(TOKEN));
        let user = stage.exec(&script)?;
        stage.write("config", kubeconfig(&user))?;
        // A proxy's answer repeats what a plugin said when its run is over and its token known. Its log has each
        // line as it comes, which SECURITY.md says.
        let proxy = stage.proxy(&[])?;
        let answer = Card::read(&proxy.kubeconfig, 0)?.get("/version", "")?;
        if !answer.contains("sent ") {
            return untried(format!("the plugin's words are not shown: {answer}"));
        }
        texts.push(("answer", answer));
    }
    let words: Vec<&str> = forms.iter().map(String::as_str).collect();
    hidden(&texts, &words)
}

const ODD: &str = "o\u{9b}31m\u{202e}dd";

/// JSON in ASCII: YAML forbids these characters as they are.
fn ascii(json: &str) -> String {
    let escape = |c: char| match c {
        c if c.is_ascii() => c.to_string(),
        c => format!("\\u{:04x}", u32::from(c)),
    };
    json.chars().map(escape).collect()
}

fn no_odd(text: &str) -> Outcome {
    if !text.contains("31m") {
        return untried(format!("the odd name is not shown at all: {text}"));
    }
    match text.chars().find(|c| matches!(c, '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}')) {
        Some(c) => got_through(format!("U+{:04X} as it is", u32::from(c))),
        None => Ok("escaped".to_owned()),
    }
}

fn plan_characters(stage: &Stage) -> Outcome {
    let text = kubeconfig(&json!({ "token": "good" })).replace("\"test\"", &format!("\"{ODD}\""));
    stage.write("config", ascii(&text))?;
    no_odd(&stage.run(&mut stage.keyward(&["plan", "-o", "json"]))?.stdout)
}

fn log_characters(stage: &Stage) -> Outcome {
    let plugin = stage.script(ODD, &format!("#!/bin/sh\necho '{ODD}' >&2\n{}", prints("good")))?;
    stage.write("config", ascii(&kubeconfig(&exec(&plugin, &[]))))?;
    let words = ["credential", "-vv", "--log-format", "json"];
    no_odd(&stage.run(&mut stage.keyward(&words))?.stderr)
}

fn killed_demo(stage: &Stage) -> Outcome {
    let temporary = stage.directory("tmp", 0o700)?;
    let demo = |words: &[&str]| {
        let mut command = stage.keyward(words);
        command.env("TMPDIR", &temporary).env_remove("KUBECONFIG");
        command
    };
    let first = stage.start(&mut demo(&["demo", "--keep"]))?;
    if !wait_until(PATIENCE, || {
        first.stdout().contains("kubectl") || first.stderr().contains("kubectl")
    }) {
        return untried(format!("the demo does not get ready: {}", first.stderr()));
    }
    // By then it holds its directories for the whole run.
    let secrets = || -> Vec<String> {
        let found = tool("find", "findutils", &[&temporary.display().to_string(), "-type", "f"]);
        found.unwrap_or_default().lines().map(str::to_owned).collect()
    };
    let made = secrets();
    if made.is_empty() {
        return untried("the demo keeps nothing in TMPDIR");
    }
    first.signal(Signal::KILL);
    first.wait(PATIENCE);
    let second = stage.run(&mut demo(&["demo"]))?;
    let left: Vec<String> = secrets().into_iter().filter(|path| made.contains(path)).collect();
    if let Some(path) = left.first() {
        return got_through(format!("{} files are left, {path} among them", left.len()));
    }
    Ok(format!("{} files swept by the next ({:?})", made.len(), second.code()))
}

fn strace(stage: &Stage) -> Outcome {
    tool("strace", "strace", &["--version"])?;
    let server = server()?;
    server.users().token(TOKEN, User::new("anna"));
    let answer = stage.write("answer", prints(TOKEN).split('\'').nth(3).unwrap_or_default())?;
    let user = stage.exec(&format!("#!/bin/sh\nexec cat {}\n", answer.display()))?;
    stage.write("config", server.kubeconfig(&user))?;
    let trace = stage.home("trace");
    let mut command = stage.command(Path::new("/usr/bin/strace"), stage.victim());
    command.args(["-f", "-s", "65536", "-o"]).arg(&trace).arg(stage.bin.join("keyward"));
    let done = stage.run(command.args(["get", "--raw", "/version"]))?;
    if !done.ok() {
        return untried(format!("strace did not get it to work: {}", done.why()));
    }
    let text = String::from_utf8_lossy(&fs::read(&trace)?).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(TOKEN)).collect();
    let innocent = |line: &&str| {
        line.contains("read(") || line.contains("write(1, ") || line.contains("<... read")
    };
    let (good, bad): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| innocent(line));
    if good.is_empty() {
        return untried("the trace does not show the plugin's pipe");
    }
    if let Some(line) = bad.first() {
        return got_through(line.chars().take(100).collect::<String>());
    }
    Ok(format!("{} lines, all of the plugin's pipe", good.len()))
}
