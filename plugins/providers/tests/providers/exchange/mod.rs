//! `keyward-exchange`, as the kubelet and kubectl start it, against services that verify the pod's token.

mod agent;
mod kubelet;
mod refusals;
mod registry;
pub(crate) mod stand_in;

use serde_json::{Value, json};
use tempfile::TempDir;

use self::stand_in::StandIn;
use crate::program::{Ended, Run};

/// The image that is pulled, and its registry.
const IMAGE: &str = "registry.example:5000/team/app";
const REGISTRY: &str = "registry.example:5000";

/// The kubelet's request for an image, with the pod's token.
fn request(image: &str, token: &str, annotations: &Value) -> String {
    json!({"kind": "CredentialProviderRequest", "image": image,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "serviceAccountToken": token,
        "serviceAccountAnnotations": annotations})
    .to_string()
}

/// A run as the kubelet's provider.
fn kubelet(args: &[&str], request: &str) -> Ended {
    Run::named("keyward-exchange").args(args).with_input(request.as_bytes())
}

/// The answer to the kubelet.
fn answer(args: &[&str], request: &str) -> Value {
    serde_json::from_str(&kubelet(args, request).printed()).unwrap()
}

/// Whether the kubelet may cache an answer for this many seconds, or up to a minute less on a slow machine.
#[track_caller]
fn assert_cached(answer: &Value, seconds: i64) {
    let nanos = keyward_protocol::duration::parse(answer["cacheDuration"].as_str().unwrap());
    let own = nanos.unwrap() / 1_000_000_000;
    assert!((seconds - 60..=seconds).contains(&own), "{own} and not {seconds}");
}

/// A run as a kubeconfig's plugin, without an agent.
fn plugin(args: &[&str]) -> Ended {
    let info = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}}"#;
    Run::named("keyward-exchange")
        .args(args)
        .env("KUBERNETES_EXEC_INFO", info)
        .env("KEYWARD_AGENT", "off")
        .run()
}

/// The token that a run printed, and for how many seconds it may be used.
fn token(ended: Ended) -> (String, i64) {
    let answer: Value = serde_json::from_str(&ended.printed()).unwrap();
    let end = answer["status"]["expirationTimestamp"].as_str().unwrap();
    let end: jiff::Timestamp = end.parse().unwrap();
    let rest = end.as_second() - jiff::Timestamp::now().as_second();
    (answer["status"]["token"].as_str().unwrap().to_owned(), rest)
}

/// A directory with a file.
fn file(text: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (directory, path)
}

/// A stand-in, and the flag with its token endpoint.
fn service() -> (StandIn, String) {
    let service = StandIn::start();
    let flag = format!("--token-url={}/token", service.url);
    (service, flag)
}
