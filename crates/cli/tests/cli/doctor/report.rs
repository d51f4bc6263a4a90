//! The report itself: what a healthy setup shows, and what `--redact` hides.

use std::{
    fs::File,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use keyward_testing::server::User;
use serde_json::{Value, json};

use super::scene::{MARK, Scene, TOKEN, exec};
use crate::stage::gives;

fn states(report: &Value) -> Vec<(&str, &str)> {
    let steps = report["steps"].as_array().unwrap().iter();
    steps.map(|step| (step["step"].as_str().unwrap(), step["state"].as_str().unwrap())).collect()
}

#[test]
fn a_healthy_setup_has_every_step_and_no_fault() {
    let scene = Scene::healthy();
    let report = scene.doctor("-o json").json();
    let steps = [
        "kubeconfig",
        "entry",
        "policy",
        "program",
        "run",
        "answer",
        "dns",
        "tcp",
        "tls",
        "response",
        "clock",
        "identity",
        "wrap",
        "agent",
        "keyward-proxy",
    ];
    assert_eq!(states(&report), steps.map(|step| (step, "ok")), "{report:#}");
    assert_eq!((&report["ok"], &report["faults"]), (&json!(true), &json!([])));
    let text = scene.doctor("");
    assert!(text.good().contains("ok       identity       you are `anna`\n"), "{text:#?}");
    assert!(text.stdout.ends_with("\nno faults\n"), "{text:#?}");
    assert!(text.stdout.lines().count() < 50, "more than a page: {text:#?}");
}

#[test]
fn a_jwt_is_described_and_not_shown() {
    let scene = Scene::healthy();
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({
        "iss": "https://idp.corp.example",
        "sub": "anna@corp.example",
        "aud": ["kubernetes"],
        "iat": 1_700_000_000,
        "exp": 4_000_000_000_u64,
    });
    let token = format!("{}.{}.MARKEDsignature", part(&json!({ "alg": "RS256" })), part(&claims));
    scene.server.users().token(&token, User::new("anna"));
    scene.stage.plugin("corp-login", &gives(&token));
    let text = scene.doctor("");
    for line in [
        "a token (JWT) in v1",
        "issuer: https://idp.corp.example",
        "subject: anna@corp.example",
        "audience: kubernetes",
        "issued: 2023-11-14T22:13:20Z",
        "token until: 2096-10-02T07:06:40Z",
    ] {
        assert!(text.good().contains(line), "`{line}` is missing: {}", text.stdout);
    }
    assert!(!text.stdout.contains(MARK) && !text.stdout.contains(&token), "{text:#?}");
    let hidden = scene.doctor("--redact");
    assert!(!hidden.good().contains("corp.example"), "{}", hidden.stdout);
}

#[test]
fn a_step_that_needs_a_failed_one_is_skipped_and_the_others_are_made() {
    let scene = Scene::healthy();
    scene.stage.plugin("corp-login", "exit 1");
    let ran = scene.doctor("-o json");
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let states = states(&report);
    for step in [
        ("run", "fault"),
        ("answer", "skipped"),
        ("tls", "ok"),
        ("response", "ok"),
        ("clock", "ok"),
        ("identity", "skipped"),
    ] {
        assert!(states.contains(&step), "{step:?}: {report:#}");
    }
    assert_eq!(report["faults"], json!(["run"]));
}

#[test]
fn the_file_that_loses_is_named() {
    let mut scene = Scene::healthy();
    let first = scene.stage.read("home/.kube/config");
    let second = scene.stage.write("second", &first);
    let both = format!("{}:{}", scene.stage.path("home/.kube/config").display(), second.display());
    scene.set("KUBECONFIG", both);
    let ran = scene.doctor("");
    let note = ran.good().lines().find(|line| line.starts_with("note")).unwrap_or_default();
    assert!(note.contains("another cluster `cl-green` is ignored"), "{ran:#?}");
    assert!(ran.stdout.contains(&format!("at: {}", second.display())), "{ran:#?}");
}

#[test]
fn the_same_name_has_the_same_placeholder() {
    let scene = Scene::healthy();
    let ran = scene.doctor("--redact");
    let text = ran.good();
    for placeholder in ["context-1", "cluster-1", "user-1", "name-1", "group-1", "~/.kube/config"] {
        assert!(text.contains(placeholder), "{placeholder}: {text}");
    }
    for second in ["context-2", "cluster-2", "user-2", "group-2"] {
        assert!(!text.contains(second), "one name has two placeholders: {text}");
    }
}

#[test]
fn a_secret_that_others_can_read_is_noted_and_the_note_says_how_to_hide_it() {
    let scene = Scene::healthy();
    scene.user(&format!("    token: {TOKEN}"));
    let ran = scene.doctor("-o json");
    let report = ran.json();
    let steps = report["steps"].as_array().unwrap();
    let note = steps.iter().find(|step| step["state"] == "note").unwrap();
    assert!(note["message"].as_str().unwrap().contains("other users can read"), "{note}");
    let after = scene.fixed_by(note["fix"].as_str().unwrap(), "");
    assert!(after.good().ends_with("\nno faults\n"), "{after:#?}");
    assert!(!format!("{ran:?} {after:?}").contains(MARK), "{ran:#?} {after:#?}");
}

#[test]
fn a_token_of_before_the_account_was_switched_is_noted() {
    let scene = Scene::healthy();
    scene.stage.plugin("gke-gcloud-auth-plugin", &gives(TOKEN));
    scene.user(&exec("gke-gcloud-auth-plugin", ""));
    let cache = scene.stage.write("home/.kube/gke_gcloud_auth_plugin_cache", "");
    let before = SystemTime::now() - Duration::from_secs(60);
    File::options().write(true).open(cache).unwrap().set_modified(before).unwrap();
    assert!(!scene.doctor("").good().contains("traps"));
    scene.directory("home/.config/gcloud");
    scene.stage.write("home/.config/gcloud/active_config", "other");
    let ran = scene.doctor("");
    let note = ran.good().lines().find(|line| line.starts_with("note")).unwrap_or_default();
    assert!(note.contains("a token of before the account was switched"), "{ran:#?}");
    let fix = "fix: rm ";
    assert!(ran.stdout.contains(fix), "{ran:#?}");
}
