//! Beside `docker-credential-gcr`: the same logins, or an error where it has one.

use serde_json::{Value, json};

use super::stage::{ACCOUNT, Stage, aws, external, judge, request, service_account, with};
use crate::program::{self, Ended, Run};

const NAME: &str = "docker-credential-gcr";

fn ours(stage: &Stage, verb: &str, input: &str) -> Ended {
    stage.named(NAME).args([verb]).with_input(input.as_bytes())
}

fn theirs(stage: &Stage, verb: &str, input: &str) -> Ended {
    let run = Run::of(&program::judge(NAME)).envs(&stage.environment).directory(stage.home.path());
    run.args([verb]).with_input(input.as_bytes())
}

fn secret(what: &str, ended: &Ended) -> String {
    assert_eq!(ended.code, Some(0), "{what}: {ended:?}");
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let user = answer["Username"].as_str().unwrap();
    // Between them is the version.
    assert!(user.starts_with("_dcgcr_") && user.ends_with("_token"), "{what}: {user}");
    answer["Secret"].as_str().unwrap().to_owned()
}

#[test]
fn docker_gets_the_logins_of_the_old_helper() {
    let file = external(&json!({"file": "{home}/subject"}));
    let cases = [
        // Not of people: it sends their refresh tokens to Google, whatever the file says.
        ("external_account", file.clone()),
        (
            "external_account with a client",
            with(with(file, "client_id", "c"), "client_secret", "s"),
        ),
    ];
    for (what, info) in cases {
        let mut stage = Stage::new();
        stage.file("subject", "the.subject.token").adc(&info);
        let (ours, theirs) = (ours(&stage, "get", "gcr.io"), theirs(&stage, "get", "gcr.io"));
        let (ours, theirs) = (secret(what, &ours), secret(what, &theirs));
        assert_eq!(ours, theirs, "{what}: ours {}, theirs {}", request(&ours), request(&theirs));
    }
    let mut stage = Stage::new();
    stage.metadata();
    let (ours, theirs) = (ours(&stage, "get", "gcr.io"), theirs(&stage, "get", "gcr.io"));
    assert_eq!(secret("metadata", &ours), secret("metadata", &theirs));
}

#[test]
fn a_key_signs_the_token_of_the_old_helper() {
    let mut stage = Stage::new();
    stage.adc(&service_account());
    let said = |ended: &Ended| {
        let token = secret("service_account", ended);
        let mut said = judge().ask(&json!({"operation": "checked", "token": token}));
        // An audience that is empty is none.
        said["claims"].as_object_mut().unwrap().retain(|name, value| name != "aud" || value != "");
        said
    };
    assert_eq!(said(&ours(&stage, "get", "gcr.io")), said(&theirs(&stage, "get", "gcr.io")));
}

#[test]
fn what_gcr_login_stored_is_used_by_both() {
    let mut stage = Stage::new();
    let store = r#"{"gcrCreds":{"access_token":"of-the-store","refresh_token":"r","token_expiry":"2099-01-01T00:00:00Z"}}"#;
    stage.file(".config/gcloud/docker_credentials.json", store).file("subject", "token");
    stage.adc(&external(&json!({"file": "{home}/subject"})));
    for ended in [ours(&stage, "get", "gcr.io"), theirs(&stage, "get", "gcr.io")] {
        assert_eq!(secret("store", &ended), "of-the-store");
    }
    stage.file("config.json", r#"{"TokenSources":["env"]}"#);
    stage.env("DOCKER_CREDENTIAL_GCR_CONFIG", "{home}/config.json");
    let found = [ours(&stage, "get", "gcr.io"), theirs(&stage, "get", "gcr.io")];
    assert_eq!(secret("env", &found[0]), secret("env", &found[1]));
}

#[test]
fn both_fail_where_there_is_no_login() {
    let refused = external(&json!({"url": "http://{standIn}/subject"}));
    let refused = with(refused, "token_url", "http://{standIn}/refuse/token");
    let mut nothing = Stage::new();
    nothing.unset("NO_GCE_CHECK").env("GCE_METADATA_HOST", "127.0.0.1:1");
    let mut others = vec![nothing];
    for info in [refused, json!({"type": "other"}), with(aws(), "credential_source", json!({})), {
        with(
            external(&json!({"file": "{home}/none"})),
            "service_account_impersonation_url",
            ACCOUNT,
        )
    }] {
        let mut stage = Stage::new();
        stage.adc(&info);
        others.push(stage);
    }
    for stage in others {
        for ended in [ours(&stage, "get", "gcr.io"), theirs(&stage, "get", "gcr.io")] {
            assert_eq!(ended.code, Some(1), "{ended:?}");
            // Docker shows stdout.
            assert!(!ended.stdout.is_empty(), "{ended:?}");
        }
    }
}
