//! `keyward plugin test --signer` passes this plugin, and names the fault of each bad one.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    process::Output,
    time::{Duration, SystemTime},
};

use keyward_testing::{
    authority::{Authority, Issued, KeyKind},
    plugin, signer,
};
use support::{Lab, hides_pins};

fn examine(lab: &Lab, program: &str, entries: &[(&str, &str)]) -> Output {
    let mut command = lab.tool(plugin::keyward().to_str().unwrap(), "keyward");
    command.env("HOME", lab.folder.path());
    command.args(["plugin", "test", "--signer", "--plugin-timeout", "10s"]);
    for (name, value) in entries {
        command.arg("--config").arg(format!("{name}={value}"));
    }
    let output = command.arg("--").arg(program).output().unwrap();
    hides_pins(&output);
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn every_kind_of_key_of_this_plugin_passes() {
    let lab = Lab::soft();
    for kind in ["rsa2048", "p256", "p384", "p521", "ed25519"] {
        lab.enrol(kind, kind);
        let uri = lab.uri(kind);
        let output = examine(&lab, env!("CARGO_BIN_EXE_keyward-pkcs11"), &[("uri", &uri)]);
        let shown = text(&output);
        assert!(output.status.success(), "{kind}: {shown}");
        assert!(shown.contains("11 passed, 0 passed with a warning, 0 failed"), "{kind}: {shown}");
    }
}

#[test]
fn a_broken_signer_is_told_its_fault() {
    let lab = Lab::soft();
    let authority = Authority::new("lab authority").unwrap();
    let issued = authority.client("jane").key(KeyKind::Rsa).issue().unwrap();
    let other = authority.client("jane").issue().unwrap();
    let good = files(&lab, "good", &issued);
    let output = examine(&lab, signer_path(), &entries(&good));
    assert!(output.status.success(), "{}", text(&output));
    for (fault, at, check, message) in [
        ("garbage", "sign", "signatures", "no message of the signer protocol"),
        ("nothing", "certificate", "stdout", "answered nothing"),
        ("wrong-signature", "sign", "signatures", "was not made with the certificate's key"),
        ("kind", "certificate", "stdout", "no message of the signer protocol"),
        ("mixed-up", "sign", "signatures", "answered a `SignRequest` with a `UnlockResponse`"),
        ("no-certificate", "certificate", "certificate", "malformed"),
        ("die", "sign", "signatures", "ended by signal"),
        ("hang", "unlock", "resident", "did not answer within"),
    ] {
        let mut bad = entries(&good);
        bad.extend([("fault", fault), ("faultAt", at)]);
        fails(&examine(&lab, signer_path(), &bad), check, message, fault);
    }
    let mut mismatched = files(&lab, "mismatched", &issued);
    fs::write(&mismatched[1], other.key_pem()).unwrap();
    fails(&examine(&lab, signer_path(), &entries(&mismatched)), "signatures", "", "mismatched");
    let old = authority.client("jane").until(SystemTime::now() - Duration::from_secs(5));
    mismatched = files(&lab, "old", &old.issue().unwrap());
    let output = examine(&lab, signer_path(), &entries(&mismatched));
    fails(&output, "certificate", "expired at", "expired");
}

fn fails(output: &Output, check: &str, message: &str, fault: &str) {
    let shown = text(output);
    assert_eq!(output.status.code(), Some(1), "{fault}: {shown}");
    let said = shown
        .lines()
        .any(|line| line.contains("FAIL") && line.contains(check) && line.contains(message));
    assert!(said, "{fault}: {shown}");
}

fn signer_path() -> &'static str {
    signer::path().to_str().unwrap()
}

fn files(lab: &Lab, name: &str, issued: &Issued) -> [String; 2] {
    let paths = ["pem", "key"].map(|end| lab.path(&format!("{name}.{end}")));
    fs::write(&paths[0], issued.certificate_pem()).unwrap();
    fs::write(&paths[1], issued.key_pem()).unwrap();
    paths.map(|path| path.display().to_string())
}

fn entries(files: &[String; 2]) -> Vec<(&'static str, &str)> {
    vec![("certificate", &files[0]), ("key", &files[1])]
}
