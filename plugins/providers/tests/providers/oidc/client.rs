//! Clients that log in as themselves.

use std::process::Command;

use keyward_testing::authority::Authority;
use serde_json::{Value, json};

use super::{judge::Judge, stage::Stage};

const OWN: &str = "--grant-type=client-credentials";

#[test]
fn a_secret_goes_where_the_client_is_registered_for() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let secret = stage.write("secret", "a secret & more\n");
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let file = format!("--client-secret-file={secret}");
    let claims = stage.claims(&[
        &issuer,
        "--oidc-client-id=basic",
        &file,
        OWN,
        "--oidc-auth-request-extra-params=resource=urn:cluster",
    ]);
    assert_eq!((&claims["client_id"], &claims["aud"]), (&json!("basic"), &json!("cluster")));
    // In a kubeconfig, `env` keeps it out of the list of processes.
    let args = [
        &issuer,
        "--oidc-client-id=basic",
        OWN,
        "--oidc-auth-request-extra-params=resource=urn:cluster",
    ];
    let by_variable = Stage::new().variable("KEYWARD_OIDC_CLIENT_SECRET", "a secret & more");
    assert_eq!(by_variable.claims(&args)["client_id"], "basic");
    let wrong = stage.run(&[&issuer, "--oidc-client-id=basic", "--oidc-client-secret=no", OWN]);
    let why = wrong.refusal(1);
    assert!(
        why.contains("invalid_client") && why.contains("hint: check `--oidc-client-id`"),
        "{why}"
    );
    assert!(!why.contains("--oidc-client-secret=no"), "{why}");
}

#[test]
fn a_key_signs_a_fresh_assertion_for_each_request() {
    for (kind, algorithm) in [("RSA", "RS256"), ("EC", "ES256"), ("ED25519", "EdDSA")] {
        let stage = Stage::new();
        let (key, jwk) = key(&stage, kind, algorithm);
        let judge = Judge::start(&json!({ "jwk": jwk }));
        let issuer = format!("--oidc-issuer-url={}", judge.issuer);
        let file = format!("--client-key={key}");
        let args = [&issuer, "--oidc-client-id=key", file.as_str(), OWN, "--client-key-id=mine"];
        for _ in 0..2 {
            assert_eq!(stage.claims(&args)["client_id"], "key", "{kind}");
        }
        assert_eq!(judge.events(), ["grant client_credentials"; 2]);
    }
}

#[test]
fn an_assertion_may_come_from_a_file_that_another_program_renews() {
    let stage = Stage::new();
    let judge = Judge::start(&json!({}));
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let file = format!("--client-assertion-file={}", stage.path("token").display());
    let args = [&issuer, "--oidc-client-id=basic", file.as_str(), OWN];
    let absent = stage.run(&args);
    assert!(
        absent.refusal(1).contains("the file of `--client-assertion-file`: no such file"),
        "{absent:?}"
    );
    stage.write("token", "e30.e30.c2ln\n");
    let refused = stage.run(&args);
    assert!(refused.refusal(1).contains("invalid_client"), "{refused:?}");
}

#[test]
fn a_certificate_proves_who_the_client_is() {
    let stage = Stage::new();
    let authority = Authority::new("ca").unwrap();
    let server = authority.server(&["127.0.0.1", "localhost"]).unwrap();
    let client = authority.client("robot").issue().unwrap();
    let ca = stage.write("ca.pem", authority.pem());
    let options = json!({
        "tls": { "cert": stage.write("s.pem", server.certificate_pem()), "key": stage.write("s.key", server.key_pem()) },
        "subject": "CN=robot",
    });
    let judge = Judge::start(&options);
    let both = format!("{}{}", client.certificate_pem(), client.key_pem());
    let file = format!("--client-certificate={}", stage.write("both.pem", &both));
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let authority = format!("--certificate-authority={ca}");
    let args = [&issuer, "--oidc-client-id=certificate", &authority, OWN];
    let claims = stage.claims(&[&args[..], &[&file]].concat());
    assert_eq!(claims["client_id"], "certificate");
    let without = stage.run(&args);
    assert!(
        without.refusal(2).contains("needs `--client-secret-file`, `--client-key`"),
        "{without:?}"
    );
}

/// A new key in a file, and its public half as node writes it.
pub(crate) fn key(stage: &Stage, kind: &str, algorithm: &str) -> (String, Value) {
    let key = stage.path("key.pem").to_str().unwrap().to_owned();
    let mut openssl = Command::new("openssl");
    openssl.args(["genpkey", "-algorithm", kind, "-out", &key]);
    if kind == "EC" {
        openssl.args(["-pkeyopt", "ec_paramgen_curve:P-256"]);
    }
    let made = openssl.output().expect("`openssl` starts; it is in the Debian package openssl");
    assert!(made.status.success());
    let script = "const c=require('crypto');const k=c.createPublicKey(require('fs').readFileSync(process.argv[1]));\
                  console.log(JSON.stringify(k.export({format:'jwk'})))";
    let output = Command::new("node").args(["-e", script, &key]).output().unwrap();
    let mut jwk: Value = serde_json::from_slice(&output.stdout).unwrap();
    jwk["alg"] = algorithm.into();
    jwk["kid"] = "mine".into();
    jwk["use"] = "sig".into();
    (key, jwk)
}
