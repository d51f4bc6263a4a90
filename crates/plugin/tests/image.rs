//! The example provider as the kubelet runs it.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

#[expect(dead_code, reason = "shared with tests that need the other half of it")]
mod common;

use std::{
    fs,
    io::Write as _,
    process::{Command, Output, Stdio},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use common::{example, stderr};

const LOGINS: &str = "\
# registry, user name, password, end
ends.example:5000  puller  s3cr3t  2130-01-02T03:04:05Z
over.example  puller  s3cr3t  2020-01-02T03:04:05Z
plain.example  puller  s3cr3t
spoilt.example  puller  s3cr3t of two words
odd.example  puller  s3cr3t word
";

struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("logins"), LOGINS).unwrap();
        Self { folder }
    }

    fn ask(&self, request: &str) -> Output {
        feed(
            Command::new(example("registry_login")).arg(self.folder.path().join("logins")),
            request,
        )
    }

    #[track_caller]
    fn answer(&self, request: &Value) -> Value {
        let output = self.ask(&request.to_string());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("one object on stdout and nothing else")
    }
}

fn feed(command: &mut Command, request: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A provider may end without reading.
    let _ = child.stdin.take().unwrap().write_all(request.as_bytes());
    child.wait_with_output().unwrap()
}

fn request(version: &str, image: &str) -> Value {
    json!({
        "kind": "CredentialProviderRequest",
        "apiVersion": format!("credentialprovider.kubelet.k8s.io/{version}"),
        "image": image,
    })
}

#[test]
fn every_version_is_answered_in_itself() {
    let stage = Stage::new();
    for version in ["v1alpha1", "v1beta1", "v1"] {
        let request = request(version, "ends.example:5000/team/app");
        let answer = stage.answer(&request);
        assert_eq!(answer["kind"], "CredentialProviderResponse");
        assert_eq!(answer["apiVersion"], request["apiVersion"]);
        assert_eq!(answer["cacheKeyType"], "Registry");
        let login = json!({"username": "puller", "password": "s3cr3t"});
        assert_eq!(answer["auth"], json!({ "ends.example:5000": login }));
        assert!(answer["cacheDuration"].as_str().unwrap().ends_with('s'), "{answer}");
    }
}

#[test]
fn the_original_proposals_question_gets_its_answer() {
    let stage = Stage::new();
    let output = feed(
        Command::new(example("registry_login"))
            .arg("get-credentials")
            .env("LOGINS", stage.folder.path().join("logins")),
        r#"{"image":"ends.example:5000/team/app"}"#,
    );
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["username"], &answer["password"]), (&json!("puller"), &json!("s3cr3t")));
    let end: Timestamp = "2130-01-02T03:04:05Z".parse().unwrap();
    let told: Timestamp = answer["expirationTimestamp"].as_str().unwrap().parse().unwrap();
    let margin = end.as_second() - told.as_second();
    assert!((300..=302).contains(&margin), "told {margin} s before its end");
    let output = stage.ask(r#"{"image":"plain.example/x"}"#);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer.get("expirationTimestamp").is_none(), "{answer}");
}

#[test]
fn an_image_of_others_is_no_failure() {
    let answer = Stage::new().answer(&request("v1", "other.example/x"));
    assert_eq!((&answer["auth"], &answer["cacheDuration"]), (&json!({}), &json!("0s")));
}

#[test]
fn a_failure_says_why_on_stderr_and_nothing_on_stdout() {
    let stage = Stage::new();
    for (request, code, why) in [
        (request("v1", "over.example/x").to_string(), 1, "expired at 2020-01-02T03:04:05Z"),
        (request("v1", "spoilt.example/x").to_string(), 2, "the line of `spoilt.example`"),
        (request("v1", "odd.example/x").to_string(), 2, "the expiry must be a time"),
        (request("v9", "plain.example/x").to_string(), 2, "`apiVersion`"),
        ("{".to_owned(), 2, "cannot read the request"),
        (" \n".to_owned(), 2, "keyward plugin test --image"),
    ] {
        let output = stage.ask(&request);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(output.stdout.is_empty());
        assert!(said.contains(why), "no `{why}` in: {said}");
        assert!(!said.contains("s3cr3t") && !said.contains("word\n"), "{said}");
    }
}

#[test]
fn what_it_says_to_try_by_hand_works() {
    let stage = Stage::new();
    let said = stderr(&stage.ask(""));
    let line = said.lines().find(|line| line.trim_start().starts_with("echo ")).unwrap();
    let line = line.replace("registry.example/", "plain.example/");
    let script = format!("logins=$1; registry_login() {{ \"$0\" \"$logins\"; }}\n{line}");
    let tried = Command::new("sh")
        .args(["-c", &script])
        .arg(example("registry_login"))
        .arg(stage.folder.path().join("logins"))
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&tried.stdout).contains("s3cr3t"), "{}", stderr(&tried));
}
