//! Starts the examples as a client would.

use std::process::{Command, Output, Stdio};

pub(crate) use keyward_testing::plugin::example;
use serde_json::{Value, json};

/// A command that asks the example this.
pub(crate) fn ask(name: &'static str, request: &Value) -> Command {
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
