//! Refresh tokens in a real keyring, on a bus of its own.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    time::Instant,
};

use serde_json::json;
use tempfile::TempDir;

use super::{
    background::{pages, slow_browser, two_at_once},
    judge::{Judge, PATIENCE},
    stage::Stage,
};

/// A desktop's bus with an unlocked keyring. Both end with this value.
struct Desktop {
    bus: Child,
    keyring: Child,
    address: String,
    _home: TempDir,
}

impl Desktop {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut bus = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address=1"])
            .arg(format!("--address=unix:path={}", home.path().join("bus").display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("`dbus-daemon` starts; it is in the Debian package dbus-daemon");
        let mut address = String::new();
        BufReader::new(bus.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        let mut keyring = Command::new("gnome-keyring-daemon")
            .args(["--foreground", "--unlock", "--components=secrets"])
            .env("HOME", home.path())
            .env("XDG_DATA_HOME", home.path())
            .env("XDG_RUNTIME_DIR", home.path())
            .env("DBUS_SESSION_BUS_ADDRESS", &address)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("`gnome-keyring-daemon` starts; it is in the Debian package gnome-keyring");
        keyring.stdin.take().unwrap().write_all(b"password").unwrap();
        let desktop = Self { bus, keyring, address, _home: home };
        let begun = Instant::now();
        while !desktop.has_keyring() {
            assert!(begun.elapsed() < PATIENCE, "the keyring does not come to the bus");
            std::thread::yield_now();
        }
        desktop
    }

    fn has_keyring(&self) -> bool {
        let output = Command::new("dbus-send")
            .arg(format!("--bus={}", self.address))
            .args(["--print-reply=literal", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus"])
            .args(["org.freedesktop.DBus.NameHasOwner", "string:org.freedesktop.secrets"])
            .output()
            .expect("`dbus-send` starts; it is in the Debian package dbus-bin");
        String::from_utf8_lossy(&output.stdout).contains("boolean true")
    }

    /// A machine after its start: nobody has logged in, and no agent is running.
    fn boot(&self) -> Stage {
        Stage::new().variable("DBUS_SESSION_BUS_ADDRESS", &self.address)
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for child in [&mut self.keyring, &mut self.bus] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_login_in_the_keyring_survives_a_reboot_until_it_is_cleaned() {
    let desktop = Desktop::start();
    let judge = Judge::start(&json!({}));
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let login = |stage: &Stage, more: &[&str]| {
        let browser = stage.browser();
        let args = [&issuer, "--oidc-client-id=public", "--listen-address=127.0.0.1:0", &browser];
        stage.run(&[&args[..], more].concat()).token();
        judge.events()
    };
    let by_page = ["page", "grant authorization_code"];
    assert_eq!(login(&desktop.boot(), &["--store=keyring"]), by_page);
    // Twice, because the provider rotates: what the first refresh brought must have been saved.
    for flag in ["--store=keyring", "--token-cache-storage=keyring"] {
        assert_eq!(login(&desktop.boot(), &[flag]), ["grant refresh_token"]);
    }
    assert_eq!(login(&desktop.boot(), &[]), by_page, "nobody asked for the keyring");
    let clean = ["clean", &issuer, "--oidc-client-id=public", "--store=keyring"];
    assert_eq!(desktop.boot().run(&clean).code, Some(0));
    assert_eq!(login(&desktop.boot(), &["--store=keyring"]), by_page);
}

#[test]
fn pitfall_21_two_people_at_terminals_open_one_page_without_an_agent() {
    let desktop = Desktop::start();
    let judge = Judge::start(&json!({}));
    let stage = desktop.boot().interactive();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let browser = slow_browser(&stage);
    let args = [
        &issuer,
        "--oidc-client-id=public",
        "--listen-address=127.0.0.1:0",
        "--store=keyring",
        &browser,
    ];
    for outcome in two_at_once(&stage, &args) {
        outcome.token();
    }
    assert_eq!(pages(&stage), 1);
    assert_eq!(judge.events(), ["page", "grant authorization_code", "grant refresh_token"]);
}

#[test]
fn without_a_keyring_the_login_works_and_the_person_is_told() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let nowhere = format!("unix:path={}", stage.path("nowhere").display());
    let stage = stage.variable("DBUS_SESSION_BUS_ADDRESS", nowhere);
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let args = [&issuer, "--oidc-client-id=public", "--listen-address=127.0.0.1:0"];
    let outcome = stage.run(&[&args[..], &[&stage.browser(), "--store=keyring"]].concat());
    outcome.token();
    assert!(outcome.stderr.contains("this login will not survive a reboot: "), "{outcome:?}");
}
