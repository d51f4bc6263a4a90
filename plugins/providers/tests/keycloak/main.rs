//! `keyward-oidc` against Keycloak. `cargo xtask keycloak` installs it and runs this; it takes minutes.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the stage is shared with the other tests")]

#[path = "../providers/oidc/stage.rs"]
mod stage;

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use stage::{Outcome, Stage};

/// Logs in at Keycloak's form and says yes to what it asks for, as a person would.
const PERSON: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo page >>"$here/pages"
browse() { curl --silent --show-error --location --cookie-jar "$here/jar" --cookie "$here/jar" --output "$here/page" "$@"; }
action() { sed -n 's/.*<form[^>]*action="\([^"]*\)".*/\1/p' "$here/page" | head -n 1 | sed 's/&amp;/\&/g'; }
value() { sed -n 's/.*name="'"$1"'" value="\([^"]*\)".*/\1/p' "$here/page" | head -n 1; }
browse "$1"
for step in 1 2 3; do
  to=$(action)
  case "$to" in /*) to="ORIGIN$to" ;; esac
  if grep -q 'name="password"' "$here/page"; then
    browse --data-urlencode "username=ann" --data-urlencode "password=correct horse" "$to"
  elif grep -q 'name="accept"' "$here/page"; then
    browse --data-urlencode "code=$(value code)" --data "accept=Yes" "$to"
  fi
done
"#;

struct Keycloak {
    child: Child,
    origin: String,
    issuer: String,
}

impl Keycloak {
    fn start(jwk: &Value, log: &Path) -> Self {
        let home = home();
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let realm =
            fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/judges/keycloak/realm.json"))
                .unwrap();
        let keys = json!({ "keys": [jwk] }).to_string();
        let keys = serde_json::to_string(&keys).unwrap();
        fs::create_dir_all(home.join("data/import")).unwrap();
        fs::write(home.join("data/import/realm.json"), realm.replace("\"JWKS\"", &keys)).unwrap();
        let _ = fs::remove_dir_all(home.join("data/h2"));
        let mut child = Command::new("bash")
            .arg(home.join("bin/kc.sh"))
            .args([
                "start-dev",
                "--import-realm",
                "--http-host=127.0.0.1",
                "--http-management-port=0",
            ])
            .arg(format!("--http-port={port}"))
            .envs([
                ("KC_BOOTSTRAP_ADMIN_USERNAME", "admin"),
                ("KC_BOOTSTRAP_ADMIN_PASSWORD", "admin"),
            ])
            .env("JAVA_OPTS", "-Xms64m -Xmx512m")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log).unwrap())
            .spawn()
            .expect("`bash` starts");
        let mut seen = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let ready = lines.by_ref().any(|line| {
            seen.push_str(&line);
            seen.push('\n');
            line.contains("Listening on:")
        });
        assert!(
            ready,
            "Keycloak does not start; `java` is in the Debian package default-jre-headless:\n{seen}"
        );
        // What else it prints has to go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        let origin = format!("http://127.0.0.1:{port}");
        Self { child, issuer: format!("{origin}/realms/cluster"), origin }
    }

    /// Ends all sessions of ann, as an administrator does.
    fn revoke(&self) {
        let ask = |args: &[&str]| {
            let output =
                Command::new("curl").args(["--silent", "--fail"]).args(args).output().unwrap();
            assert!(output.status.success(), "{args:?}: {output:?}");
            serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
        };
        let token = format!("{}/realms/master/protocol/openid-connect/token", self.origin);
        let form = "grant_type=password&client_id=admin-cli&username=admin&password=admin";
        let token = ask(&["--data", form, &token]);
        let header = format!("Authorization: Bearer {}", token["access_token"].as_str().unwrap());
        let users = format!("{}/admin/realms/cluster/users", self.origin);
        let found = ask(&["--header", &header, &format!("{users}?username=ann")]);
        let id = found[0]["id"].as_str().unwrap();
        ask(&["--request", "POST", "--header", &header, &format!("{users}/{id}/logout")]);
    }
}

impl Drop for Keycloak {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where `cargo xtask keycloak` has put it.
fn home() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_keyward-providers")).ancestors().nth(2).unwrap();
    let all = fs::read_dir(target.join("judges/keycloak")).into_iter().flatten().flatten();
    all.map(|entry| entry.path())
        .find(|path| path.join("bin/kc.sh").is_file())
        .expect("`cargo xtask keycloak` installs Keycloak, with the Debian package maven")
}

fn person(stage: &Stage, keycloak: &Keycloak) -> String {
    let script = stage.write("person", &PERSON.replace("ORIGIN", &keycloak.origin));
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    format!("--browser-command={script}")
}

fn pages(stage: &Stage) -> usize {
    fs::read_to_string(stage.path("pages")).unwrap_or_default().lines().count()
}

/// One start serves all: it takes the better part of a minute.
#[test]
fn every_grant_works_with_keycloak() {
    let keys = Stage::new();
    let (key, jwk) = key(&keys);
    let keycloak = Keycloak::start(&jwk, &keys.path("log"));
    let issuer = format!("--oidc-issuer-url={}", keycloak.issuer);
    let public = [issuer.as_str(), "--oidc-client-id=public"];
    let listen = "--listen-address=127.0.0.1:0";

    // Code flow, then the kept token, then a rotating refresh token, each used once.
    let stage = Stage::with_agent();
    let browser = person(&stage, &keycloak);
    let args = [&public[..], &[listen, &browser]].concat();
    let first = stage.run(&args);
    let claims = first.claims();
    assert_eq!((&claims["preferred_username"], &claims["aud"]), (&json!("ann"), &json!("public")));
    let page = fs::read_to_string(stage.path("page")).unwrap();
    assert!(page.contains("You are logged in") && page.contains("ann@example.com"), "{page}");
    assert_eq!(stage.run(&args).token(), first.token());
    for _ in 0..3 {
        assert_ne!(stage.run(&[&args[..], &["--force-refresh"]].concat()).token(), first.token());
    }
    assert_eq!(pages(&stage), 1);

    // A revoked session needs a new login, and gets it.
    keycloak.revoke();
    fs::remove_file(stage.path("jar")).unwrap();
    stage.run(&[&args[..], &["--force-refresh"]].concat()).token();
    assert_eq!(pages(&stage), 2);

    // Access token.
    let access = stage.run(&[&args[..], &["--oidc-use-access-token"]].concat());
    assert_eq!(access.claims()["typ"], "Bearer");

    // Device flow.
    let stage = Stage::new();
    let browser = person(&stage, &keycloak);
    let device = stage.run(&[&public[..], &["--grant-type=device-code", &browser]].concat());
    assert_eq!(device.claims()["preferred_username"], "ann");

    // Password.
    let stage = Stage::new();
    let password = [&public[..], &["--username=ann"]].concat();
    let good = stage.run(&[&password[..], &["--password=correct horse"]].concat());
    assert_eq!(good.claims()["preferred_username"], "ann");
    let bad = stage.run(&[&password[..], &["--password=pony"]].concat());
    assert!(bad.refusal(1).contains("invalid_grant"), "{bad:?}");

    // Client credentials: a secret, and a key.
    let own = "--grant-type=client-credentials";
    let secret = format!("--client-secret-file={}", stage.write("secret", "a secret & more\n"));
    let robot =
        stage.run(&[&issuer, "--oidc-client-id=secret", &secret, own, "--oidc-use-access-token"]);
    assert_eq!(robot.claims()["azp"], "secret");
    let key = format!("--client-key={key}");
    let robot = stage.run(&[&issuer, "--oidc-client-id=key", &key, "--client-key-id=mine", own]);
    assert_eq!(robot.claims()["azp"], "key");
    let wrong = stage.run(&[&issuer, "--oidc-client-id=secret", "--oidc-client-secret=no", own]);
    assert!(wrong.refusal(1).contains("client"), "{wrong:?}");

    exchange(&stage, &keycloak, &secret);

    // What the person may not have.
    let stage = Stage::new();
    let browser = person(&stage, &keycloak);
    let offline =
        stage.run(&[&public[..], &[listen, &browser, "--oidc-extra-scope=no-such-scope"]].concat());
    assert!(offline.refusal(1).contains("invalid_scope"), "{offline:?}");
}

/// A token is exchanged for another one of the same client (RFC 8693).
fn exchange(stage: &Stage, keycloak: &Keycloak, secret: &str) {
    let issuer = format!("--oidc-issuer-url={}", keycloak.issuer);
    let own = ["--grant-type=client-credentials", "--oidc-use-access-token"];
    let subject = stage.run(&[&issuer, "--oidc-client-id=exchanger", secret, own[0], own[1]]);
    let run = |client: &str, token: &str| {
        let file = stage.write("subject", token);
        let child = Command::new(env!("CARGO_BIN_EXE_keyward-providers"))
            .arg0("keyward-exchange")
            .arg(format!("--token-url={}/protocol/openid-connect/token", keycloak.issuer))
            .args([&format!("--client-id={client}"), secret, &format!("--token-file={file}")])
            .args(["--subject-token-type=access_token", "--requested-token-type=access_token"])
            .env_clear()
            .envs(stage.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Outcome::of(child)
    };
    let exchanged = run("exchanger", &subject.token());
    assert_eq!(exchanged.claims()["azp"], "exchanger");
    assert_ne!(exchanged.claims()["jti"], subject.claims()["jti"]);
    // A token that is not Keycloak's, and a client that may not exchange any.
    let mut forged = subject.token();
    forged.truncate(forged.rfind('.').unwrap() + 1);
    let refused = run("exchanger", &format!("{forged}c2ln"));
    assert!(refused.refusal(4).contains("answered 400"), "{refused:?}");
    let refused = run("secret", &subject.token());
    assert!(refused.refusal(4).contains("exchange"), "{refused:?}");
}

/// A new key in a file, and its public half.
fn key(stage: &Stage) -> (String, Value) {
    let key = stage.path("key.pem").to_str().unwrap().to_owned();
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", &key])
        .output()
        .expect("`openssl` starts; it is in the Debian package openssl");
    assert!(made.status.success());
    let script = "const c=require('crypto');const k=c.createPublicKey(require('fs').readFileSync(process.argv[1]));\
                  console.log(JSON.stringify(k.export({format:'jwk'})))";
    let output = Command::new("node").args(["-e", script, &key]).output().unwrap();
    let mut jwk: Value = serde_json::from_slice(&output.stdout).unwrap();
    jwk["alg"] = "ES256".into();
    jwk["kid"] = "mine".into();
    jwk["use"] = "sig".into();
    (key, jwk)
}
