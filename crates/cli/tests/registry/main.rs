//! A real registry, a real puller, and nothing but a bridge and a provider between them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod image;
mod server;
mod stage;

use std::time::Duration;

use serde_json::json;

use stage::Stage;

#[test]
fn an_image_is_pushed_and_pulled_with_nothing_but_a_provider() {
    let stage = Stage::new();
    stage.login("puller", "s3cr3t-one", "2130-01-01T00:00:00Z");
    // Nobody gets in without it.
    let stranger = stage.push_as("{}");
    assert!(!stranger.status.success() && stranger.said.contains("authentication required"));
    stage.push().good();
    stage.pull().good();
    assert_eq!(stage.pulled(), stage.source(), "what came back is what was sent");
    assert_eq!(stage.server.users(), ["puller"], "every request that got in was the puller's");
}

#[test]
fn a_wrong_password_is_refused_by_the_registry_and_by_name() {
    let stage = Stage::new();
    stage.login("puller", "s3cr3t-wrong", "2130-01-01T00:00:00Z");
    let pushed = stage.push();
    pushed.fails_with("unauthorized: authentication required");
    stage.server.says("error authenticating user \\\"puller\\\": authentication failure");
    assert!(!pushed.said.contains("s3cr3t"), "{}", pushed.said);
}

#[test]
fn an_expired_credential_is_called_that_and_a_new_one_works() {
    let stage = Stage::new();
    stage.login("puller", "s3cr3t-one", "2130-01-01T00:00:00Z");
    stage.push().good();
    stage.login("puller", "s3cr3t-one", "2020-01-01T00:00:00Z");
    let pulled = stage.pull();
    pulled.fails_with("the credential expired at 2020-01-01T00:00:00Z");
    pulled.fails_with("plugin `registry_login` failed with exit code 1");
    // Both ends change, and the pull works again without anybody else doing anything.
    stage.server.password("puller", "s3cr3t-two");
    stage.login("puller", "s3cr3t-one", "2130-01-01T00:00:00Z");
    stage.pull().fails_with("unauthorized: authentication required");
    stage.login("puller", "s3cr3t-two", "2130-01-01T00:00:00Z");
    stage.pull().good();
}

#[test]
fn a_missing_provider_is_named() {
    let stage = Stage::new();
    std::fs::remove_file(stage.path("bin/registry_login")).unwrap();
    stage.push().fails_with("plugin `registry_login` was not found");
}

#[test]
fn a_provider_that_hangs_is_ended_and_named() {
    let mut stage = Stage::new();
    stage.timeout = "1s";
    stage.script("bin/registry_login", "exec sleep 600");
    let clock = std::time::Instant::now();
    stage.push().fails_with("plugin `registry_login` did not answer within 1s");
    assert!(clock.elapsed() < Duration::from_secs(60), "skopeo waited for the provider");
}

#[test]
fn a_registry_that_no_provider_knows_is_asked_anonymously() {
    let stage = Stage::new();
    stage.config("registry_login", "other.example", "");
    let pushed = stage.push();
    pushed.fails_with("authentication required");
    assert!(!pushed.said.contains("error getting credentials"), "{}", pushed.said);
}

#[test]
fn dockers_own_logins_work_through_both_bridges() {
    let stage = Stage::new();
    let auth = stage::base64("puller:s3cr3t-one");
    let docker = json!({ "auths": { stage.server.address(): { "auth": auth } } });
    stage.write("docker.json", &docker.to_string());
    let args = format!("  args: [--config, '{}']\n", stage.path("docker.json").display());
    stage.config("keyward-provider-docker", &stage.server.address(), &args);
    stage.push().good();
}

#[test]
fn a_provider_that_needs_a_pod_says_so() {
    let stage = Stage::new();
    stage.config("keyward-provider-token", &stage.server.address(), "");
    stage.push().fails_with("the request has no service account token");
}
