//! The example helper as docker runs it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::{
    fs,
    io::Write as _,
    process::{Command, Output, Stdio},
};

use keyward_testing::plugin::example;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Stage(TempDir);

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("logins"), "# all\nr.io:5000  puller  s3cr3t\n").unwrap();
        Self(directory)
    }

    fn run(&self, args: &[&str], stdin: &str) -> Ran {
        run(
            Command::new(example("docker_login"))
                .env("LOGINS", self.0.path().join("logins"))
                .args(args),
            stdin,
        )
    }
}

fn run(command: &mut Command, stdin: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end without reading.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

#[test]
fn docker_gets_a_login_and_a_list() {
    let stage = Stage::new();
    for server in ["r.io:5000", "https://r.io:5000/v2/\n"] {
        let ran = stage.run(&["get"], server);
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        let expected =
            json!({"ServerURL": server.trim(), "Username": "puller", "Secret": "s3cr3t"});
        assert_eq!((ran.code, answer), (Some(0), expected));
    }
    assert_eq!(stage.run(&["list"], "unused").stdout, "{\"r.io:5000\":\"puller\"}\n");
    assert_eq!(stage.run(&["version"], "").stdout, "docker_login\n");
}

#[test]
fn docker_reads_errors_on_stdout_in_its_own_words() {
    let stage = Stage::new();
    for (args, stdin, said) in [
        (&["get"][..], "other.example", "credentials not found in native keychain\n"),
        (&["get"], "", "no credentials server URL\n"),
        (&["store"], "{\"ServerURL\":\"r.io\"}", "no credentials username\n"),
        (&["other"], "", "usage: docker_login get|store|erase|list|version\n"),
        (&["get", "get"], "r.io", "usage: docker_login get|store|erase|list|version\n"),
        (&[], "", "usage: docker_login get|store|erase|list|version\n"),
    ] {
        let ran = stage.run(args, stdin);
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(1), said, ""));
    }
}

#[test]
fn a_hint_is_on_stderr_because_docker_shows_one_line() {
    let ran = run(Command::new(example("docker_login")).env_remove("LOGINS").arg("get"), "r.io");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "`LOGINS` is not set\n"));
    assert_eq!(
        ran.stderr,
        "error: `LOGINS` is not set\n\nhint: set it to the file with the logins\n"
    );
}
