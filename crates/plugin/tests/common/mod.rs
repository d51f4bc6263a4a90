//! Starts the examples as a client would.

use std::{
    env,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

/// The program of an example, which cargo builds along with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut path = env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(name);
    assert!(path.exists(), "build the examples first: `{}` is missing", path.display());
    path
}

/// A command that asks the example this.
pub(crate) fn ask(name: &str, request: &Value) -> Command {
    let mut command = Command::new(example(name));
    command.env("KUBERNETES_EXEC_INFO", request.to_string());
    command.stdin(Stdio::null());
    command
}

/// A request in this version with this `spec`.
pub(crate) fn request(version: &str, spec: &Value) -> Value {
    json!({
        "kind": "ExecCredential",
        "apiVersion": format!("client.authentication.k8s.io/{version}"),
        "spec": spec,
    })
}

/// Runs it and reads the answer, which must be all of stdout.
#[track_caller]
pub(crate) fn answer(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one object on stdout and nothing else")
}

/// What a person would have read.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
