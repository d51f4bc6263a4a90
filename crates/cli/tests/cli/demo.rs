//! `keyward demo`: as it is, with each promise broken, and with kubectl as the judge of its server.

use std::{
    io::{BufRead, BufReader},
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use keyward_testing::{kubectl, plugin};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::stage::{Run, Stage};

/// The promises of a document, with whether they were kept.
fn lines(document: &Value) -> Vec<(String, bool)> {
    let line = |line: &Value| {
        (line["promise"].as_str().unwrap().to_owned(), line["kept"].as_bool().unwrap())
    };
    document["lines"].as_array().unwrap().iter().map(line).collect()
}

/// The fields of a document and the types of their values; a list is as its first item.
fn schema(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match name.as_str() {
                "figures" if value.is_object() => (name.clone(), "object".into()),
                _ => (name.clone(), schema(value)),
            })
            .collect(),
        Value::Array(items) => items.iter().take(1).map(schema).collect(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Bool(_) => "boolean".into(),
        Value::Null => "nothing".into(),
    }
}

#[test]
fn every_promise_is_kept_and_each_is_noticed_when_it_is_broken() {
    plugin::pkcs11();
    let stage = Stage::new();
    let good = stage.run("demo -o json").json();
    assert_eq!(good["kept"], true, "{good:#}");
    // Twenty are promised; five times that is for a machine that does other things too.
    assert!(good["seconds"].as_f64().unwrap() < 100.0, "{good:#}");
    stage.matches_snapshot("demo.json", &format!("{:#}\n", schema(&good)));
    let shapes: Vec<Value> = good["lines"].as_array().unwrap().iter().map(schema).collect();
    assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:#?}");
    let promises = lines(&good);
    assert!(promises.len() >= 14 && promises.iter().all(|(_, kept)| *kept), "{good:#}");
    thread::scope(|scope| {
        for (promise, _) in &promises {
            scope.spawn(move || {
                let ran = Stage::new().run(&format!("demo --break {promise} -o json"));
                assert_eq!(ran.code, Some(1), "{promise}: {ran:#?}");
                let document: Value = serde_json::from_str(&ran.stdout).unwrap();
                let broken: Vec<_> =
                    lines(&document).into_iter().filter(|(_, kept)| !kept).map(|l| l.0).collect();
                assert_eq!(broken, [promise.as_str()], "{document:#}");
                assert_eq!(document["kept"], false);
                assert!(ran.stderr.contains(&format!("\n  {promise}: ")), "{}", ran.stderr);
            });
        }
    });
}

#[test]
fn the_timeline_has_a_line_for_each_promise_and_the_folder_is_gone_afterwards() {
    plugin::pkcs11();
    let stage = Stage::new();
    let temporary = stage.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let ran = stage.command(["demo"]).env("TMPDIR", &temporary).ran();
    let text = ran.good();
    assert_eq!(text.lines().filter(|line| line.contains(" s  kept  ")).count(), 17, "{text}");
    assert!(text.contains("17 of 17 promises kept in "), "{text}");
    assert_eq!(ran.stderr, "");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

/// The program without any other beside it, as `cargo run` builds it.
fn alone() -> (tempfile::TempDir, PathBuf) {
    // On the file system of the program, so that it can be linked.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = place.path().join("keyward");
    std::fs::hard_link(env!("CARGO_BIN_EXE_keyward"), &program).unwrap();
    (place, program)
}

#[test]
fn the_agent_is_shown_by_this_program_alone_whatever_the_environment_says_and_ends() {
    let stage = Stage::new();
    let (place, program) = alone();
    let temporary = tempfile::Builder::new().prefix("kw").tempdir().unwrap();
    let demo = Command::new(program)
        .args(["demo", "-o", "json"])
        .env("HOME", stage.path("home"))
        .env("TMPDIR", temporary.path())
        .envs([("CI", "true"), ("KEYWARD_AGENT", "off"), ("KEYWARD_AGENT_SOCK", "/nowhere")])
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&demo.stdout).unwrap();
    let lines = document["lines"].as_array().unwrap();
    let agent = lines.iter().find(|line| line["promise"] == "agent").unwrap();
    assert_eq!(agent["kept"], true, "{agent:#}");
    assert_eq!(agent["figures"]["client"], "this program, started as `keyward-exec`");
    assert_eq!(processes(place.path()), [""; 0], "no agent is left");
}

/// The command lines of the processes whose program is in this directory.
fn processes(place: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours = entries.filter(|process| {
        std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe.starts_with(place))
    });
    let words = ours.map(|process| std::fs::read(process.join("cmdline")).unwrap_or_default());
    words.map(|words| String::from_utf8_lossy(&words).replace('\0', " ")).collect()
}

#[test]
fn an_interrupted_demo_leaves_no_agent() {
    let stage = Stage::new();
    let (place, program) = alone();
    let temporary = tempfile::Builder::new().prefix("kw").tempdir().unwrap();
    let mut demo = Command::new(program)
        .arg("demo")
        .env("HOME", stage.path("home"))
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // An agent that does not listen yet cannot be stopped.
    let listens = || {
        let mut found = std::fs::read_dir(temporary.path()).unwrap().flatten();
        found.any(|demo| {
            UnixStream::connect(demo.path().join("agent/run/keyward/agent.sock")).is_ok()
        })
    };
    while !listens() {
        assert!(demo.try_wait().unwrap().is_none(), "the demo has started no agent");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(processes(place.path()).iter().any(|words| words.contains("agent --background")));
    kill(Pid::from_raw(demo.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let status = demo.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
    assert_eq!(processes(place.path()), [""; 0], "nothing of it is left");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn without_keyward_pkcs11_the_step_says_how_to_build_it() {
    let stage = Stage::new();
    let (_place, program) = alone();
    let demo = Command::new(program)
        .args(["demo", "--break", "softhsm", "-o", "json"])
        .env("HOME", stage.path("home"))
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&demo.stdout).unwrap();
    let why = document["leftOut"][0]["why"].as_str().unwrap();
    assert!(why.contains("`cargo build --release -p keyward-pkcs11`"), "{why}");
    assert!(demo.status.success(), "{document}");
}

#[test]
fn a_broken_promise_is_said_in_words() {
    let ran = Stage::new().run("demo --break revoked");
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stdout.contains("BROKEN  revoked "), "{}", ran.stdout);
    let words = "promised: a revoked token is replaced before the caller sees a 401";
    assert!(ran.stdout.contains(words), "{}", ran.stdout);
    assert!(ran.stderr.starts_with("error: 1 of 1 promises were not kept\n"), "{}", ran.stderr);
}

#[test]
fn kubectl_is_let_in_by_the_kept_server_with_the_plugin_and_not_without() {
    let stage = Stage::new();
    let demo = Kept::start(&stage);
    let config = demo.document["kubeconfig"].as_str().unwrap().to_owned();
    let folder = std::fs::metadata(Path::new(&config).parent().unwrap()).unwrap();
    assert_eq!(folder.mode() & 0o777, 0o700, "nobody else may look into it");
    let kubectl =
        |context: &str, path: &str| kubectl(&stage, &config, &["--context", context], path);
    for (context, proof) in [("token", "token"), ("certificate", "certificate")] {
        let healthy = kubectl(context, "/healthz");
        assert_eq!(String::from_utf8(healthy.stdout).unwrap(), "ok", "{context}");
        let who: Value = serde_json::from_slice(&kubectl(context, "/whoami").stdout).unwrap();
        assert_eq!((&who["username"], &who["proof"]), (&context.into(), &proof.into()));
    }
    // Without any credential kubectl asks for a password, so it gets a wrong one.
    let wrong = ["--context", "anonymous", "--token", "wrong"];
    let refused = self::kubectl(&stage, &config, &wrong, "/healthz");
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).to_lowercase();
    assert!(said.contains("logged in") || said.contains("unauthorized"), "{said}");
    assert!(!kubectl("failing", "/healthz").status.success());

    // Ours, on the same kubeconfig.
    let ran = stage.run(&format!("get --kubeconfig {config} --raw /healthz"));
    assert_eq!(ran.good(), "ok");
    demo.end();
    assert!(!Path::new(&config).exists(), "the folder is gone");
}

fn kubectl(stage: &Stage, config: &str, flags: &[&str], path: &str) -> Output {
    Command::new(&kubectl::installed().path)
        .args(["--kubeconfig", config, "get", "--raw", path])
        .args(flags)
        .env("HOME", stage.path("home"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// A demo whose server is kept.
struct Kept {
    child: Child,
    document: Value,
}

impl Kept {
    fn start(stage: &Stage) -> Self {
        let mut child =
            stage.command(["demo", "--keep", "-o", "json"]).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        for line in stdout.lines() {
            let line = line.unwrap();
            text += &line;
            if line == "}" {
                break;
            }
        }
        Self { child, document: serde_json::from_str(&text).unwrap() }
    }

    /// As Ctrl-C does.
    fn end(mut self) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGINT).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
