//! Users whose key an external signer holds: the commands that connect, `sign`, and those that
//! explain.

use std::sync::Arc;

use keyward_testing::{
    authority::{Authority, KeyKind},
    server::{ClientCertificates, Server},
    signer::{self, Token},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::{
    stage::{Run as _, Stage, config},
    terminal::at_terminal,
};

/// A PIN that nothing may show.
const PIN: &str = "m4rked-p1n-5521";

/// A server that demands certificates, and a token with one for `anna`.
fn scene(key: KeyKind) -> (Stage, Server, Token) {
    let authority = Arc::new(Authority::new("signers").unwrap());
    let issued = authority.client("anna").group("dev").key(key).issue().unwrap();
    let setup = Server::setup().authority(authority).certificates(ClientCertificates::Demanded);
    (Stage::new(), setup.start().unwrap(), Token::new(&issued))
}

fn with(stage: &Stage, server: &Server, token: &Token) {
    stage.kubeconfig(&server.kubeconfig(&token.user()));
}

#[test]
fn doctor_checks_a_signer_as_it_checks_a_plugin() {
    let (stage, server, token) = scene(KeyKind::P256);
    with(&stage, &server, &token);
    let ran = stage.command(["doctor"]).env("XDG_RUNTIME_DIR", stage.path("")).ran();
    let text = ran.good();
    for line in [
        "has a certificate",
        "a client certificate whose key a signer holds",
        "certificate until: ",
        "you are `anna`",
    ] {
        assert!(text.contains(line), "`{line}` is missing: {text}");
    }
    let mut redacted = stage.command(["doctor", "--redact"]);
    let ran = redacted.env("XDG_RUNTIME_DIR", stage.path("")).ran();
    let text = ran.good();
    assert!(!text.contains("anna"), "the certificate's subject is shown: {text}");
}

#[test]
fn the_kubeconfig_of_the_proposal_works_end_to_end() {
    let (stage, server, token) = scene(KeyKind::Rsa);
    let whole: Value = serde_json::from_str(&server.kubeconfig(&json!({}))).unwrap();
    let cluster = &whole["clusters"][0]["cluster"];
    // The excerpt with its comments; only paths and numbers are others, and the test signer's own.
    stage.kubeconfig(&format!(
        r#"apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context: {{cluster: c, user: my-user}}
clusters:
- name: c
  cluster: {cluster}
users:
- name: my-user
  user:
    auth-provider:
      name: externalSigner
      config:
        pathExec: {}  
        pathLib: /path/to/library.so        # library used by the external plugin
        objectId: "2"                       # PKCS#11 specific configuration
        slotId: "0"
        pin: "{PIN}"                       # (optional)
        rightPin: "{PIN}"
        certificate: {}
        key: {}
        log: {}
"#,
        signer::path().display(),
        token.file("certificate").display(),
        token.file("key").display(),
        token.file("log").display(),
    ));
    let ran = stage.run("get --raw /version");
    assert!(ran.json()["gitVersion"].is_string(), "{ran:?}");
    let seen = server.recorder().last().unwrap();
    assert_eq!(seen.user.as_deref(), Some("anna"));
    assert_eq!(
        token.log(),
        ["CertificateRequest", "SignRequest *rsa.PSSOptions {\"SaltLength\":-1,\"Hash\":5}"]
    );
    // The warning says that the PIN is there, and not what it is.
    assert!(ran.stderr.contains("the kubeconfig holds the token's `pin`"), "{}", ran.stderr);
    assert!(!ran.stderr.contains(PIN), "{}", ran.stderr);
}

#[test]
fn the_server_says_who_the_certificate_makes_us() {
    let (stage, server, token) = scene(KeyKind::P256);
    with(&stage, &server, &token);
    let ran = stage.run("whoami");
    assert!(ran.good().contains("Username    anna\n"), "{ran:?}");
    assert!(ran.stdout.contains("dev"), "{ran:?}");
    // Several versions of the API may be asked; all of it is one connection.
    assert_eq!(token.asked("SignRequest"), 1);
}

#[test]
fn sign_shows_the_certificate_and_a_checked_signature() {
    for (key, name, schemes) in [
        (KeyKind::Rsa, "RSA", 6),
        (KeyKind::P256, "P-256", 1),
        (KeyKind::P384, "P-384", 1),
        (KeyKind::Ed25519, "Ed25519", 1),
    ] {
        for resident in ["false", "true"] {
            let (stage, server, mut token) = scene(key);
            token.set("resident", resident);
            with(&stage, &server, &token);
            let seen = stage.run("sign -o json").json();
            assert_eq!(seen["certificate"]["commonName"], "anna");
            assert_eq!(seen["certificate"]["key"], name);
            assert_eq!(seen["signatures"].as_array().unwrap().len(), 1, "{seen:#}");
            assert_eq!(seen["resident"], resident == "true");
            let all = stage.run("sign --all -o json").json();
            assert_eq!(all["signatures"].as_array().unwrap().len(), schemes, "{all:#}");
            let text = stage.run("sign");
            assert!(
                text.good().contains(&format!("certificate  anna, {name}, until ")),
                "{text:?}"
            );
            assert!(text.stdout.contains(" bytes, good, "), "{text:?}");
            assert_eq!(server.counts().connections, 0);
        }
    }
}

#[test]
fn a_signature_of_another_key_is_found_out_by_sign() {
    let (stage, server, mut token) = scene(KeyKind::P256);
    let other = server.authority().client("eve").issue().unwrap();
    let file = token.write("other", other.key_pem());
    token.set("key", &file);
    with(&stage, &server, &token);
    let ran = stage.run("sign");
    let said = ran.bad(1);
    assert!(said.contains("not made with the certificate's key"), "{said}");
    assert!(said.contains("needed by: user `"), "{said}");
}

#[test]
fn what_the_signer_wants_told_is_told_before_it_signs() {
    let (stage, server, mut token) = scene(KeyKind::P256);
    token.set("prompt", "touch the key when it blinks");
    with(&stage, &server, &token);
    let ran = stage.run("get --raw /version");
    ran.good();
    assert!(ran.stderr.contains("touch the key when it blinks"), "{ran:?}");
}

#[test]
fn plan_explains_a_signer_and_runs_nothing() {
    let stage = Stage::new();
    stage.plugin("s", "touch $STAGE/ran");
    let user = format!(
        "
      auth-provider:
        name: externalSigner
        config:
          pathExec: s
          pathLib: /usr/lib/token.so
          objectId: \"2\"
          slotId: \"0\"
          uri: pkcs11:token=lab?pin-value={PIN}
          label: SECRET-label
          pin: \"{PIN}\"
          resident: \"true\"
          resumption: \"off\""
    );
    stage.kubeconfig(&config(&user));
    let ran = stage.run("plan");
    stage.matches_snapshot("plan-signer.txt", ran.good());
    let json = stage.run("plan -o json");
    stage.matches_snapshot("plan-signer.json", json.good());
    let shown = stage.run("plan --show-args -o json");
    assert_eq!(shown.json()["signer"]["configuration"]["label"], "SECRET-label");
    for ran in [ran, json, shown] {
        assert!(!ran.stdout.contains(PIN) && !ran.stderr.contains(PIN), "{ran:?}");
    }
    assert!(!stage.path("ran").exists());
}

#[test]
fn a_signer_that_is_not_there_is_said_by_plan_and_by_get() {
    let stage = Stage::new();
    stage.kubeconfig(&config(
        "
      auth-provider: {name: externalSigner, config: {pathExec: no-such-signer}}",
    ));
    for line in ["plan", "get --raw /version", "sign"] {
        let ran = stage.run(line);
        assert_eq!(ran.code, Some(1), "{line}: {ran:?}");
        assert!(ran.stderr.contains("`no-such-signer` was not found"), "{line}: {ran:?}");
        assert!(ran.stderr.contains("hint: install it, or correct `pathExec`"), "{line}: {ran:?}");
    }
}

#[test]
fn credential_says_why_there_is_nothing_to_print() {
    let (stage, server, token) = scene(KeyKind::P256);
    with(&stage, &server, &token);
    let ran = stage.run("credential");
    let said = ran.bad(1);
    assert!(said.contains("cannot be exported, so there is no credential to print"), "{said}");
    assert!(said.contains("`keyward get`"), "{said}");
    assert_eq!(token.log().len(), 0, "nobody was asked");
}

#[test]
fn sign_without_a_signer_says_so() {
    let stage = Stage::new();
    stage.kubeconfig(&config("\n      token: t"));
    let ran = stage.run("sign");
    assert!(ran.bad(1).contains("the user has no external signer"), "{ran:?}");
}

#[test]
fn a_marked_pin_is_nowhere_to_be_seen() {
    for (right, line) in [
        ("another", "get --raw /version"),
        ("another", "whoami"),
        ("another", "sign"),
        (PIN, "get --raw /version"),
        (PIN, "sign"),
        (PIN, "sign -o json"),
        (PIN, "plan -o json"),
        (PIN, "credential"),
    ] {
        for resident in ["false", "true"] {
            let (stage, server, mut token) = scene(KeyKind::P256);
            token.set("pin", PIN).set("rightPin", right).set("resident", resident);
            token.set("prompt", &format!("touch the key, pin={PIN}"));
            with(&stage, &server, &token);
            let ran = stage.run(&format!("{line} -v -v -v"));
            if right == PIN && line.starts_with("sign") {
                assert!(ran.good().contains("touch the key, pin=[hidden]"), "{line}: {ran:?}");
            }
            assert!(!ran.stdout.contains(PIN) && !ran.stderr.contains(PIN), "{line}: {ran:?}");
        }
    }
}

#[test]
fn a_person_types_the_pin_and_the_echo_is_back() {
    for resident in ["false", "true"] {
        let (stage, server, mut token) = scene(KeyKind::P256);
        token.set("ask", "yes").set("rightPin", PIN).set("resident", resident);
        with(&stage, &server, &token);
        let mut pty = at_terminal(&stage, "get --raw /version");
        pty.wait_for("PIN: ");
        assert!(!pty.echoes().unwrap());
        pty.type_in(&format!("{PIN}\n")).unwrap();
        assert_eq!(pty.finish().code(), Some(0), "{}", pty.screen());
        assert!(stage.read("out").contains("gitVersion"));
        assert!(!pty.screen().contains(PIN), "{}", pty.screen());
        assert!(pty.echoes().unwrap());
        assert_eq!(token.alive(), [0; 0]);
        let connected = server.counts().connections;
        assert_eq!(connected, 1, "asked {resident}");
    }
}

#[test]
fn a_killed_prompt_leaves_the_terminal_with_echo_on() {
    for resident in ["false", "true"] {
        let (stage, server, mut token) = scene(KeyKind::P256);
        token.set("ask", "yes").set("rightPin", PIN).set("resident", resident);
        with(&stage, &server, &token);
        let mut pty = at_terminal(&stage, "get --raw /version");
        // A resident one is started once more, and asks once more.
        for _ in 0..if resident == "true" { 2 } else { 1 } {
            pty.wait_for("PIN: ");
            assert!(!pty.echoes().unwrap());
            for pid in token.alive() {
                kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGKILL).unwrap();
            }
        }
        assert_eq!(pty.finish().code(), Some(1), "{}", pty.screen());
        assert!(pty.echoes().unwrap(), "{}", pty.screen());
        assert_eq!(token.alive(), [0; 0]);
    }
}

#[test]
fn ctrl_c_at_the_prompt_leaves_no_signer_and_the_echo_on() {
    let (stage, server, mut token) = scene(KeyKind::P256);
    token.set("ask", "yes").set("rightPin", PIN);
    with(&stage, &server, &token);
    let mut pty = at_terminal(&stage, "get --raw /version");
    pty.wait_for("PIN: ");
    pty.type_in("\x03").unwrap();
    assert!(!pty.finish().success(), "{}", pty.screen());
    assert!(pty.echoes().unwrap(), "{}", pty.screen());
    assert_eq!(token.alive(), [0; 0]);
}
