//! The device flow.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;

use super::{judge::Judge, stage::Stage};

/// Confirms the code at the page, as a person would with two clicks.
const PERSON: &str = r#"#!/bin/sh
set -e
here=$(dirname "$0")
code=${1##*user_code=}
page=${1%%\?*}
browse() { curl --silent --show-error --location --cookie-jar "$here/jar" --cookie "$here/jar" "$@"; }
mark() { sed -n 's/.*name="xsrf" value="\([^"]*\)".*/\1/p' | head -n 1; }
first=$(browse "$1" | mark)
second=$(browse --data-urlencode "xsrf=$first" --data-urlencode "user_code=$code" "$page" | mark)
browse --data-urlencode "xsrf=$second" --data-urlencode "user_code=$code" --data confirm=yes "$page" >"$here/page"
"#;

fn person(stage: &Stage) -> String {
    let script = stage.write("person", PERSON);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[test]
fn a_code_is_confirmed_in_a_browser_elsewhere() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let browser = format!("--browser-command={}", person(&stage));
    let outcome =
        stage.run(&[&issuer, "--oidc-client-id=public", "--grant-type=device-code", &browser]);
    assert_eq!(outcome.claims()["sub"], "ann");
    assert!(
        outcome
            .stderr
            .contains(&format!("open this page to log in: {}/device?user_code=", judge.issuer))
    );
    assert!(
        outcome.stderr.contains("the page shows or asks for this code: "),
        "{}",
        outcome.stderr
    );
    assert_eq!(
        judge.events().last().unwrap(),
        "grant urn:ietf:params:oauth:grant-type:device_code"
    );
}

#[test]
fn a_client_with_a_key_polls_with_a_fresh_assertion_each_time() {
    let stage = Stage::new();
    let (key, jwk) = super::client::key(&stage, "EC", "ES256");
    let judge = Judge::start(&json!({ "jwk": jwk }));
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let browser = format!("--browser-command={}", person(&stage));
    let key = format!("--client-key={key}");
    let args = [
        &issuer,
        "--oidc-client-id=key",
        &key,
        "--client-key-id=mine",
        "--grant-type=device-code",
        &browser,
    ];
    assert_eq!(stage.claims(&args)["aud"], "key");
}

#[test]
fn without_a_browser_the_device_flow_is_offered_where_the_provider_has_it() {
    let judge = Judge::start(&json!({}));
    // No screen: `xdg-open` would find nothing to open.
    let stage = Stage::new().interactive();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let args = [&issuer, "--oidc-client-id=public", "--authentication-timeout-sec=1"];
    let outcome = stage.run(&args);
    let why = outcome.refusal(1);
    assert!(
        why.contains("/device?user_code=") && why.contains("nobody confirmed the code"),
        "{why}"
    );
    let args = [
        &issuer,
        "--oidc-client-id=browser-only",
        "--authentication-timeout-sec=1",
        "--listen-address=127.0.0.1:0",
    ];
    let outcome = stage.run(&args);
    let why = outcome.refusal(1);
    assert!(why.contains("/auth?") && why.contains("nobody logged in at"), "{why}");
    let args = [&issuer, "--oidc-client-id=browser-only", "--grant-type=device-code"];
    let outcome = stage.run(&args);
    assert!(
        outcome.refusal(1).contains("the request for a device code was refused by"),
        "{outcome:?}"
    );
}

#[test]
fn where_nobody_could_see_the_page_nothing_is_waited_for() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let outcome = stage.run(&[&issuer, "--oidc-client-id=public"]);
    let why = outcome.refusal(3);
    assert!(why.contains("no browser can be opened: there is no screen"), "{why}");
}
