//! The examples as a client runs them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod common;

use std::{fs, io::Write, process::Command};

use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use common::{answer, ask, example, request, stderr};

fn file(content: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(content.as_bytes()).unwrap();
    file
}

#[test]
fn every_version_is_answered_in_itself() {
    let token = file("s3cr3t\n");
    for version in ["v1alpha1", "v1beta1", "v1"] {
        let request = request(version, &json!({"interactive": false}));
        let answer = answer(ask("token_from_file", &request).arg(token.path()));
        assert_eq!(answer["kind"], "ExecCredential");
        assert_eq!(answer["apiVersion"], request["apiVersion"]);
        assert_eq!(answer["status"]["token"], "s3cr3t");
        let expiry: Timestamp =
            answer["status"]["expirationTimestamp"].as_str().unwrap().parse().unwrap();
        let left = expiry.as_second() - Timestamp::now().as_second();
        assert!((0..=60).contains(&left), "{left} s left of 60");
    }
}

#[test]
fn the_first_proposals_question_gets_its_answer() {
    let token = file("s3cr3t");
    let request = json!({
        "kind": "ExecInfo",
        "apiVersion": "client.authentication.k8s.io/v1alpha1",
        "response": {"code": 401, "header": {"Www-Authenticate": ["Bearer"]}},
        "interactive": true,
    });
    let answer = answer(ask("token_from_file", &request).arg(token.path()));
    assert_eq!(answer["kind"], "ExecCredentials");
    assert_eq!(answer["apiVersion"], "client.authentication.k8s.io/v1alpha1");
    assert_eq!(answer["token"], "s3cr3t");
    assert!(answer["expiry"].as_i64().unwrap() > Timestamp::now().as_second());
}

#[test]
fn a_failure_says_why_on_stderr_and_nothing_on_stdout() {
    let request = request("v1", &json!({"interactive": false}));
    let output = ask("token_from_file", &request).arg("/no/such/file").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).starts_with("error: cannot use file `/no/such/file`: "));

    let output = ask("token_from_file", &request).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn a_credential_nobody_could_use_is_not_printed() {
    let request = request("v1", &json!({"interactive": false}));
    for (content, complaint) in [("\n", "the token is empty"), ("a b", "no header can contain")] {
        let token = file(content);
        let output = ask("token_from_file", &request).arg(token.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).contains(complaint), "{}", stderr(&output));
    }
}

#[test]
fn without_a_question_it_says_how_to_try_it() {
    for setting in [None, Some("")] {
        let mut command = Command::new(example("token_from_file"));
        match setting {
            Some(value) => command.env("KUBERNETES_EXEC_INFO", value),
            None => command.env_remove("KUBERNETES_EXEC_INFO"),
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        let stderr = stderr(&output);
        assert!(stderr.contains("`KUBERNETES_EXEC_INFO` is not set"), "{stderr}");
        assert!(stderr.contains("keyward plugin test -- token_from_file"), "{stderr}");
        // What it tells to export must work.
        let line = stderr.lines().find_map(|l| l.trim().strip_prefix("export ")).unwrap();
        let token = file("by-hand");
        let script = format!("export {line}; exec \"$0\" \"$1\"");
        let tried = Command::new("sh")
            .args(["-c", &script])
            .arg(example("token_from_file"))
            .arg(token.path())
            .output()
            .unwrap();
        assert!(String::from_utf8_lossy(&tried.stdout).contains("by-hand"));
    }
}

#[test]
fn a_question_that_cannot_be_read_is_refused_and_not_repeated() {
    for question in [
        "{\"hush\": ",
        "hush",
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/hush\"}",
    ] {
        let output = Command::new(example("token_from_file"))
            .env("KUBERNETES_EXEC_INFO", question)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{question}");
        assert!(output.stdout.is_empty());
        let stderr = stderr(&output);
        assert!(stderr.contains("`KUBERNETES_EXEC_INFO`"), "{stderr}");
        assert!(!stderr.contains("hush"), "{stderr}");
    }
}

#[test]
fn names_from_early_samples_are_mentioned() {
    let token = file("s3cr3t");
    let cluster = json!({"server": "https://h", "serverName": "bar", "caData": "c29tZQ=="});
    let request = request("v1", &json!({"interactive": false, "cluster": cluster}));
    let output = ask("token_from_file", &request).arg(token.path()).output().unwrap();
    assert!(output.status.success());
    let stderr = stderr(&output);
    for name in ["serverName`", "`tls-server-name`", "caData`", "`certificate-authority-data`"] {
        assert!(stderr.contains(name), "no {name} in: {stderr}");
    }
}

#[test]
fn stdout_stays_clean_whatever_prints() {
    let request = request("v1", &json!({"interactive": false}));
    let output = ask("noisy", &request).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("nothing but the answer");
    assert_eq!(answer["status"]["token"], "clean");
    let stderr = stderr(&output);
    for noise in ["of a library", "without an end", "of a child", "on the descriptor", "after the"]
    {
        assert!(stderr.contains(&format!("noise {noise}")), "no `{noise}` in:\n{stderr}");
    }
}

#[test]
fn the_short_lived_certificate_is_accepted_by_a_server() {
    let authority = authority();
    let key = file(&authority.key().serialize_pem());
    let request = request("v1", &json!({"interactive": false}));
    let answer = answer(ask("short_lived_certificate", &request).arg(key.path()).args([
        "test authority",
        "jane",
        "developers",
    ]));
    let status = &answer["status"];
    let chain = status["clientCertificateData"].as_str().unwrap();
    let key = status["clientKeyData"].as_str().unwrap();
    assert!(status.get("token").is_none());
    assert!(status["expirationTimestamp"].is_string());
    handshake(chain, key, &authority);
}

/// Shakes hands in memory with a server that only lets in whom the authority has signed for.
fn handshake(chain: &str, key: &str, authority: &rcgen::CertifiedIssuer<'_, rcgen::KeyPair>) {
    use rustls::{
        ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::WebPkiClientVerifier,
    };
    use std::sync::Arc;

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let roots = Arc::new(roots);

    let server_key = rcgen::KeyPair::generate().unwrap();
    let server_certificate = rcgen::CertificateParams::new(vec!["server.test".into()])
        .unwrap()
        .signed_by(&server_key, authority)
        .unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .unwrap();
    let server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![server_certificate.der().clone()],
            PrivateKeyDer::from_pem_slice(server_key.serialize_pem().as_bytes()).unwrap(),
        )
        .unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap).collect(),
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();

    let mut client =
        ClientConnection::new(Arc::new(client), "server.test".try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut &*wire).unwrap();
        server.process_new_packets().expect("the server accepts the certificate");
        wire.clear();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut &*wire).unwrap();
        client.process_new_packets().unwrap();
    }
    assert_eq!(server.peer_certificates().map(<[_]>::len), Some(1));
}

fn authority() -> rcgen::CertifiedIssuer<'static, rcgen::KeyPair> {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "test authority");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap()
}

#[test]
fn a_login_without_a_person_is_refused() {
    let accounts = file("jane:hunter2:s3cr3t\n");
    let request = request("v1", &json!({"interactive": false}));
    let output = ask("interactive_login", &request).arg(accounts.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("a person must log in"), "{}", stderr(&output));
}

#[cfg(target_os = "linux")]
mod terminal {
    use super::*;
    use keyward_testing::pty::Pty;

    /// A login on a terminal of its own, with stdout going to a file as it goes to a client.
    struct Login {
        pty: Pty,
        stdout: NamedTempFile,
        _accounts: NamedTempFile,
    }

    fn login() -> Login {
        let accounts = file("jane:hunter2:s3cr3t\n");
        let stdout = NamedTempFile::new().unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec \"$0\" \"$1\" > \"$2\""])
            .arg(example("interactive_login"))
            .arg(accounts.path())
            .arg(stdout.path())
            .env("KUBERNETES_EXEC_INFO", request("v1", &json!({"interactive": true})).to_string());
        Login { pty: Pty::spawn(&shell).unwrap(), stdout, _accounts: accounts }
    }

    #[test]
    fn a_person_logs_in_and_the_password_is_not_shown() {
        let mut login = login();
        login.pty.wait_for("Name: ");
        login.pty.type_in("jane\n").unwrap();
        login.pty.wait_for("Password: ");
        assert!(!login.pty.echoes().unwrap());
        login.pty.type_in("hunter3\x7f2\n").unwrap();
        assert_eq!(login.pty.finish().code(), Some(0), "{}", login.pty.screen());
        assert!(login.pty.echoes().unwrap());
        assert!(!login.pty.screen().contains("hunter"), "{}", login.pty.screen());
        let answer: Value =
            serde_json::from_slice(&fs::read(login.stdout.path()).unwrap()).unwrap();
        assert_eq!(answer["status"]["token"], "s3cr3t");
    }

    #[test]
    fn ctrl_c_at_the_password_brings_the_echo_back() {
        let mut login = login();
        let before = login.pty.state().unwrap();
        login.pty.wait_for("Name: ");
        login.pty.type_in("jane\n").unwrap();
        login.pty.wait_for("Password: ");
        login.pty.type_in("hunt\x03").unwrap();
        assert_eq!(login.pty.finish().code(), Some(130));
        let after = login.pty.state().unwrap();
        assert_eq!(before.local_modes, after.local_modes);
        assert_eq!(before.input_modes, after.input_modes);
        assert_eq!(fs::read(login.stdout.path()).unwrap(), b"");
    }

    #[test]
    fn a_wrong_password_is_not_allowed() {
        let mut login = login();
        login.pty.wait_for("Name: ");
        login.pty.type_in("jane\n").unwrap();
        login.pty.wait_for("Password: ");
        login.pty.type_in("guess\n").unwrap();
        assert_eq!(login.pty.finish().code(), Some(4));
        assert!(login.pty.screen().contains("error: name or password is wrong"));
    }
}
