//! A real registry, which accepts the login that the exchange brought and no other.

#[path = "../../../../../crates/cli/tests/registry/server.rs"]
#[allow(
    dead_code,
    clippy::duration_suboptimal_units,
    reason = "shared with the tests of the bridges, which an older Rust builds"
)]
mod server;

use std::{io::Write as _, process::Stdio};

use serde_json::json;

use self::server::{Server, program};
use super::{answer, request, stand_in::StandIn};

#[test]
fn a_registry_accepts_the_login_of_the_exchange() {
    let service = StandIn::start();
    let directory = tempfile::tempdir().unwrap();
    let registry = Server::start(directory.path(), "puller", "s3cr3t-one");
    let host = registry.address();
    let pod = request(&format!("{host}/team/app"), &service.pod_token(600), &json!({}));
    let only = format!("--registry={host}");
    let (jwt, post) =
        (format!("--jwt-login={}", service.url), format!("--post={}/login", service.url));
    let methods: [&[&str]; 2] = [
        &[&jwt, "--role=puller", "--read=secret/data/registry"],
        &[
            &post,
            r#"--body={"oidc_token":"{token}"}"#,
            "--username-at=/result/0/user",
            "--password-at=/result/0/key",
        ],
    ];
    for method in methods {
        let answer = answer(&[method, &[&only]].concat(), &pod);
        let login = |name: &str| answer["auth"][&host][name].as_str().unwrap().to_owned();
        let (user, password) = (login("username"), login("password"));
        assert_eq!(status(directory.path(), &host, &user, &password), "200");
        assert_eq!(status(directory.path(), &host, &user, "s3cr3t-two"), "401");
    }
}

/// The status that the registry answers this login with.
fn status(directory: &std::path::Path, host: &str, user: &str, password: &str) -> String {
    let mut child = program("curl", "curl")
        .args(["--silent", "--config", "-", "--cacert"])
        .arg(directory.join("trust/ca.crt"))
        .args(["--output", "/dev/null", "--write-out", "%{http_code}"])
        .arg(format!("https://{host}/v2/"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let config = format!("user = \"{user}:{password}\"\n");
    child.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}
