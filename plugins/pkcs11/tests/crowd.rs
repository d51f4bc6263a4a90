//! Many processes on one token, and one process for a long time.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use keyward_protocol::signer::{Hash, Options, Request, Response};
use support::{Lab, hides_pins, ok, sign_request};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn eight_processes_at_once_on_softhsm_all_succeed() {
    let lab = Lab::soft();
    lab.enrol("rsa", "rsa2048");
    lab.enrol("ec", "p256");
    crowd(&lab, 8, 5);
}

#[test]
fn eight_processes_at_once_on_a_tpm_all_succeed() {
    let lab = Lab::tpm();
    lab.enrol("rsa", "rsa2048");
    lab.enrol("ec", "p256");
    crowd(&lab, 8, 1);
}

/// Each asks for the certificate, for a signature, and for the list that people ask for.
fn crowd(lab: &Lab, processes: usize, rounds: usize) {
    thread::scope(|scope| {
        for number in 0..processes {
            scope.spawn(move || {
                let (name, options) = match number % 2 {
                    0 => ("rsa", Options::Pss(Hash::Sha256)),
                    _ => ("ec", Options::Digest(Hash::Sha256)),
                };
                let configuration = lab.configuration(name);
                for _ in 0..rounds {
                    lab.certificate(&configuration);
                    lab.sign(&configuration, options, &[7; 32]);
                    lab.run("list", name, &[]);
                }
            });
        }
    });
}

#[test]
fn a_resident_plugin_logs_in_once_and_ends_with_its_stdin() {
    let mut lab = Lab::soft();
    lab.enrol("me", "p256");
    lab.spy();
    let configuration = lab.configuration("me");
    let mut resident = lab.resident();
    assert_eq!(resident.ask(&Request::Unlock(configuration.clone())), Response::Unlock);
    assert_eq!(lab.spied("C_Login"), 1);
    let certificate = resident.ask(&Request::Certificate(configuration.clone()));
    assert!(matches!(certificate, Response::Certificate(_)));
    for _ in 0..20 {
        let request = sign_request(&configuration, Options::Digest(Hash::Sha256), &[7; 32]);
        assert!(matches!(resident.ask(&request), Response::Sign(_)));
    }
    assert_eq!(lab.spied("C_Login"), 1);
    assert_eq!(lab.spied("C_SignInit"), 20);
    assert_eq!(lab.spied("C_Initialize"), 1);
    assert!(resident.end().success());
    assert_eq!(lab.spied("C_Finalize"), 1);
}

#[test]
fn a_resident_plugin_opens_its_token_again_after_it_was_gone() {
    let mut lab = Lab::soft();
    lab.enrol("me", "p256");
    // The token is behind a server, as that of another machine would be. Without it, the token is gone.
    let provider = lab.module.clone();
    let socket = lab.path("server");
    let serve = |lab: &Lab| Served::start(lab, &provider, &socket);
    lab.module = support::module("p11-kit-client.so", "p11-kit-modules");
    let address = format!("unix:path={}", socket.display());
    lab.variables.push(("P11_KIT_SERVER_ADDRESS", address.into()));
    let configuration = lab.configuration("me");
    let mut resident = lab.resident();
    let sign = sign_request(&configuration, Options::Digest(Hash::Sha256), &[7; 32]);
    for request in
        [Request::Certificate(configuration.clone()), Request::Unlock(configuration), sign]
    {
        let served = serve(&lab);
        let first = resident.ask(&request);
        assert!(!matches!(first, Response::Error(_)), "{first:?}");
        drop(served);
        let gone = resident.ask(&request);
        assert!(matches!(gone, Response::Error(_)), "{gone:?}");
        let _served = serve(&lab);
        let again = resident.ask(&request);
        assert!(!matches!(again, Response::Error(_)), "{again:?}");
    }
    assert!(resident.end().success());
}

/// A server that shows a module's token to others.
struct Served(Child);

impl Served {
    fn start(lab: &Lab, provider: &Path, socket: &Path) -> Self {
        let _ = fs::remove_file(socket);
        let mut command = lab.tool("p11-kit", "p11-kit");
        command.args(["server", "--foreground", "--name"]).arg(socket);
        command.arg("--provider").arg(provider).arg("pkcs11:token=lab");
        let mut served = Self(command.process_group(0).stdout(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        while UnixStream::connect(socket).is_err() {
            assert!(served.0.try_wait().unwrap().is_none(), "`p11-kit server` has ended");
            assert!(begun.elapsed() < PATIENCE, "`p11-kit server` does not listen");
            thread::yield_now();
        }
        served
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // With its children, which serve the connections.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn residents_and_others_share_a_token() {
    let lab = Lab::soft();
    lab.enrol("rsa", "rsa2048");
    lab.enrol("ec", "p256");
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut resident = lab.resident();
                for _ in 0..20 {
                    let options = Options::Digest(Hash::Sha256);
                    let request = sign_request(&lab.configuration("ec"), options, &[7; 32]);
                    let response = resident.ask(&request);
                    assert!(matches!(response, Response::Sign(_)), "{response:?}");
                }
                assert!(resident.end().success());
            });
        }
        scope.spawn(|| crowd(&lab, 3, 3));
    });
}

#[test]
fn without_a_module_in_the_uri_the_proxy_of_p11_kit_shows_every_token() {
    let lab = Lab::soft();
    lab.enrol("me", "p256");
    support::module("p11-kit-proxy.so", "p11-kit-modules");
    let pin = lab.path("pin");
    let uri = format!("pkcs11:token=lab;object=me?pin-source=file:{}", pin.display());
    let listed = ok(lab.plugin().arg("list").arg(&uri));
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("p11-kit-proxy.so") && listed.contains("object=me"), "{listed}");
    let tested = ok(lab.plugin().arg("test").arg(&uri));
    hides_pins(&tested);
    assert!(String::from_utf8_lossy(&tested.stdout).contains("good"));
    let configuration = [("uri", uri)].into_iter().collect();
    lab.certificate(&configuration);
    lab.sign(&configuration, Options::Digest(Hash::Sha256), &[7; 32]);
}
