//! Whole handshakes: the program `keyward`, the plugin, real tokens, and servers that demand a
//! certificate, openssl's and our own.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    thread,
};

use keyward_testing::{
    authority::Authority,
    server::{ClientCertificates, Server, Tls},
};
use serde_json::Value;
use support::{Lab, hides_pins, installed, ok};

const KINDS: [&str; 7] = ["rsa2048", "rsa3072", "rsa4096", "p256", "p384", "p521", "ed25519"];

/// `openssl s_server`, which demands a certificate and shows it to whoever asks.
struct Openssl {
    child: Child,
    address: String,
}

impl Openssl {
    fn start(lab: &Lab, authority: &Authority, version: &str) -> Self {
        let identity = authority.server(&["localhost", "127.0.0.1"]).unwrap();
        fs::write(lab.path("server.pem"), identity.certificate_pem()).unwrap();
        fs::write(lab.path("server.key"), identity.key_pem()).unwrap();
        let mut child = Command::new(installed("openssl", "openssl"))
            .args(["s_server", "-accept", "127.0.0.1:0", "-www", version])
            .args(["-cert", "server.pem", "-key", "server.key", "-CAfile", "ca.pem"])
            .args(["-Verify", "2", "-verify_return_error"])
            .current_dir(lab.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = lines
            .find_map(|line| line.unwrap().strip_prefix("ACCEPT ").map(str::to_owned))
            .unwrap();
        // What else it says is read, so that it never waits for us.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address: format!("https://{address}") }
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every kind of key against both servers in both versions of TLS.
fn shake_hands(lab: &Lab, kinds: &[&str]) {
    let authority = Arc::new(Authority::new("lab authority").unwrap());
    lab.trust(&authority);
    for kind in kinds {
        lab.enrol(kind, kind);
    }
    for (tls, flag, name) in
        [(Tls::Only12, "-tls1_2", "TLSv1.2"), (Tls::Only13, "-tls1_3", "TLSv1.3")]
    {
        let openssl = Openssl::start(lab, &authority, flag);
        let ours = Server::setup()
            .authority(authority.clone())
            .certificates(ClientCertificates::Demanded)
            .tls(tls)
            .start()
            .unwrap();
        for kind in kinds {
            let entries = [("uri", lab.uri(kind))];
            let entries = entries.each_ref().map(|(name, value)| (*name, value.as_str()));
            let mut command = lab.keyward(&openssl.address, &entries);
            command.args(["get", "--raw", "/"]);
            let output = ok(&mut command);
            hides_pins(&output);
            sees(&output, kind, name);

            let mut command = lab.keyward(&ours.url(), &entries);
            let output = ok(command.args(["get", "--raw", "/whoami"]));
            hides_pins(&output);
            let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(seen["username"], *kind, "{seen}");
            assert_eq!(seen["groups"][0], "testers", "{seen}");
            assert_eq!(seen["proof"], "certificate", "{seen}");
        }
    }
}

/// The page of openssl shows the version and whom the certificate is for.
fn sees(output: &Output, kind: &str, version: &str) {
    let page = String::from_utf8_lossy(&output.stdout).replace(" = ", "=");
    assert!(page.contains(version), "{kind}: {page}");
    assert!(page.contains(&format!("Subject: O=testers, CN={kind}")), "{kind}: {page}");
}

#[test]
fn every_kind_of_key_in_softhsm_shakes_hands_in_both_versions_of_tls() {
    shake_hands(&Lab::soft(), &KINDS);
}

#[test]
fn keys_in_a_tpm_shake_hands_in_both_versions_of_tls() {
    shake_hands(&Lab::tpm(), &["rsa2048", "p256"]);
}

#[test]
fn a_resident_plugin_shakes_hands_with_every_kind_of_key() {
    let lab = Lab::soft();
    let authority = Arc::new(Authority::new("lab authority").unwrap());
    lab.trust(&authority);
    let server = Server::setup().authority(authority).start().unwrap();
    for kind in ["rsa2048", "p256", "ed25519"] {
        lab.enrol(kind, kind);
        let uri = lab.uri(kind);
        let mut command = lab.keyward(&server.url(), &[("uri", &uri), ("resident", "true")]);
        let output = ok(command.arg("whoami"));
        assert!(String::from_utf8_lossy(&output.stdout).contains(kind));
    }
}

#[test]
fn a_key_that_wants_its_pin_each_time_and_a_token_of_other_tools_shake_hands() {
    let lab = Lab::soft();
    let authority = Arc::new(Authority::new("lab authority").unwrap());
    lab.trust(&authority);
    let server = Server::setup().authority(authority).start().unwrap();
    lab.run("keygen", "strict", &["--kind", "p256", "--always-authenticate"]);
    lab.certify("strict");
    lab.pkcs11_tool(&["--keypairgen", "--key-type", "rsa:2048", "--id", "0b", "--label", "made"]);
    lab.certify("made");
    for name in ["strict", "made"] {
        let uri = lab.uri(name);
        let output = ok(lab.keyward(&server.url(), &[("uri", &uri)]).arg("whoami"));
        assert!(String::from_utf8_lossy(&output.stdout).contains(name));
    }
}

#[test]
fn eight_programs_at_once_are_all_let_in() {
    let lab = Lab::soft();
    let authority = Arc::new(Authority::new("lab authority").unwrap());
    lab.trust(&authority);
    let server = Server::setup().authority(authority).start().unwrap();
    lab.enrol("p256", "p256");
    let uri = lab.uri("p256");
    let mut programs: Vec<Child> = (0..8)
        .map(|_| {
            let mut command = lab.keyward(&server.url(), &[("uri", &uri)]);
            command.arg("whoami").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for program in programs.drain(..) {
        let output = program.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}
