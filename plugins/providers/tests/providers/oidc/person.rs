//! A person at a terminal: pasted codes and passwords.

use std::process::Command;

use keyward_testing::pty::Pty;
use serde_json::json;

use super::{judge::Judge, stage::Stage};

/// Starts a login at a terminal. What it prints is in the file `out`.
fn at_terminal(stage: &Stage, args: &[&str]) -> Pty {
    let mut command = Command::new("env");
    command.arg("--ignore-environment");
    command.args(stage.environment().into_iter().map(|(name, value)| format!("{name}={value}")));
    command.args(["sh", "-c", "exec \"$0\" \"$@\" >out </dev/null"]);
    command.arg(env!("CARGO_BIN_EXE_keyward-providers")).arg("oidc").args(args);
    command.current_dir(stage.path(""));
    Pty::spawn(&command).unwrap()
}

fn printed(stage: &Stage) -> serde_json::Value {
    let text = std::fs::read_to_string(stage.path("out")).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("`{text}`"))
}

/// The address that a browser would end at if nothing listened there.
fn last_address(stage: &Stage, page: &str) -> String {
    let jar = stage.path("jar");
    let output = Command::new("curl")
        .args([
            "--silent",
            "--location",
            "--output",
            "/dev/null",
            "--write-out",
            "%{redirect_url} %{url_effective}",
        ])
        .args([
            "--max-redirs",
            "3",
            "--cookie-jar",
            jar.to_str().unwrap(),
            "--cookie",
            jar.to_str().unwrap(),
        ])
        .arg(page)
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    shown.split(' ').find(|address| address.contains("code=")).expect(&shown).to_owned()
}

fn page(shown: &str) -> String {
    let after = shown.split("open this page to log in: ").nth(1).expect(shown);
    after.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_code_or_the_whole_address_is_pasted() {
    let judge = Judge::start(&json!({}));
    for whole in [false, true] {
        let stage = Stage::new().interactive();
        let issuer = format!("--oidc-issuer-url={}", judge.issuer);
        let args = [
            &issuer,
            "--oidc-client-id=public",
            "--grant-type=authcode-keyboard",
            "--oidc-redirect-url=http://127.0.0.1",
        ];
        let mut pty = at_terminal(&stage, &args);
        pty.wait_for("Enter code: ");
        let address = last_address(&stage, &page(&pty.screen()));
        let code = address.split(['?', '&']).find_map(|pair| pair.strip_prefix("code=")).unwrap();
        pty.type_in(&format!("{}\n", if whole { &address } else { code })).unwrap();
        assert!(pty.finish().success());
        assert!(printed(&stage)["status"]["token"].is_string());
    }
}

#[test]
fn pitfall_23_on_a_machine_without_a_browser_the_address_can_be_pasted() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new().interactive().variable("SSH_CONNECTION", "a b c d");
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let args = [
        &issuer,
        "--oidc-client-id=browser-only",
        "--oidc-redirect-url=http://127.0.0.1",
        "--listen-address=127.0.0.1:0",
    ];
    let mut pty = at_terminal(&stage, &args);
    pty.wait_for("Address or code: ");
    let address = last_address(&stage, &page(&pty.screen()));
    pty.type_in(&format!("{address}\n")).unwrap();
    assert!(pty.finish().success());
    assert!(printed(&stage)["status"]["token"].is_string());
}

#[test]
fn pitfall_08_name_and_password_are_asked_for_at_the_terminal_and_not_on_stdin() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new().interactive();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let mut pty =
        at_terminal(&stage, &[&issuer, "--oidc-client-id=public", "--grant-type=password"]);
    pty.wait_for("Username: ");
    pty.type_in("ann\n").unwrap();
    pty.wait_for("Password: ");
    pty.type_in("correct horse\n").unwrap();
    assert!(pty.finish().success(), "{}", pty.screen());
    assert!(!pty.screen().contains("correct horse"));
    assert!(printed(&stage)["status"]["token"].is_string());
}

#[test]
fn a_password_in_a_file_needs_no_person_and_a_wrong_one_is_refused() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let file = format!("--password-file={}", stage.write("password", "correct horse\n"));
    let args = [&issuer, "--oidc-client-id=public", "--username=ann"];
    assert_eq!(stage.claims(&[&args[..], &[&file]].concat())["sub"], "ann");
    let wrong = stage.run(&[&args[..], &["--password=pony"]].concat());
    let why = wrong.refusal(1);
    assert!(why.contains("the password was refused by") && why.contains("invalid_grant"), "{why}");
    let nobody = stage.run(&args);
    assert!(nobody.refusal(3).contains("nobody is at a terminal"), "{nobody:?}");
}
