//! How often a PIN is tried, as `pkcs11-spy` sees it between the plugin and the token.
#![allow(clippy::unwrap_used)]

mod support;

use std::{fs, process::Output};

use keyward_protocol::signer::{
    Hash, Options, REQUEST_VARIABLE, Reason, Request, Response, SignRequest,
};
use keyward_testing::pty::Pty;
use support::{Lab, PIN, hides_pins, sign_request};

/// The flags of the standard.
const COUNT_LOW: u64 = 0x1_0000;
const FINAL_TRY: u64 = 0x2_0000;
const LOCKED: u64 = 0x4_0000;
const PROTECTED_PATH: u64 = 0x100;

fn digest_request(lab: &Lab) -> Request {
    sign_request(&lab.configuration("me"), Options::Digest(Hash::Sha256), &[7; 32])
}

fn refusal(lab: &Lab) -> (Reason, String) {
    match lab.ask(&digest_request(lab)).0 {
        Response::Error(error) => (error.reason, error.message),
        other => panic!("{other:?}"),
    }
}

fn said(output: &Output) -> String {
    hides_pins(output);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn lab_with_key() -> Lab {
    let mut lab = Lab::soft();
    lab.enrol("me", "p256");
    lab.spy();
    lab
}

#[test]
fn of_twenty_commands_with_a_wrong_pin_in_a_file_the_first_alone_tries_it() {
    let lab = lab_with_key();
    lab.write_pin("pin", "wrong-marked");
    for number in 0..20 {
        match number % 4 {
            0 => {
                let (reason, message) = refusal(&lab);
                if number == 0 {
                    assert_eq!(reason, Reason::WrongPin);
                    assert!(message.contains("is wrong for token `lab`"), "{message}");
                } else {
                    assert_eq!(reason, Reason::NeedsTerminal);
                    assert!(message.contains("last PIN was wrong"), "{message}");
                    assert!(message.contains("hint: correct the stored PIN"), "{message}");
                    assert!(!message.contains("pin-source"), "{message}");
                }
            }
            1 => assert_refused(&lab, &["test"]),
            2 => assert_refused(&lab, &["csr", "--user", "me"]),
            _ => assert_refused(&lab, &["list", "--login"]),
        }
    }
    assert_eq!(lab.spied("C_Login"), 1);

    // Correcting the file is not enough: the token does not know that it was corrected.
    lab.write_pin("pin", PIN);
    assert_eq!(refusal(&lab).0, Reason::NeedsTerminal);
    assert_eq!(lab.spied("C_Login"), 1);

    // A person may type it; then the token is content again, and the file is good for it.
    let mut command = lab.plugin();
    command.arg("test").arg(lab.uri("me"));
    let mut terminal = Pty::spawn(&command).unwrap();
    terminal.wait_for("last PIN was wrong");
    terminal.wait_for("PIN of token `lab`: ");
    assert!(!terminal.echoes().unwrap());
    terminal.type_in(&format!("{PIN}\n")).unwrap();
    assert!(terminal.finish().success(), "{}", terminal.screen());
    assert!(terminal.echoes().unwrap());
    assert!(!terminal.screen().contains("marked"), "{}", terminal.screen());
    assert_eq!(lab.spied("C_Login"), 2);
    lab.sign(&lab.configuration("me"), Options::Digest(Hash::Sha256), &[7; 32]);
    assert_eq!(lab.spied("C_Login"), 3);
}

fn assert_refused(lab: &Lab, arguments: &[&str]) {
    let mut command = lab.plugin();
    command.arg(arguments[0]).arg(lab.uri("me")).args(&arguments[1..]);
    let output = command.output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("last PIN was wrong"), "{said}");
}

#[test]
fn one_process_tries_a_wrong_pin_once_however_often_it_is_asked() {
    let lab = lab_with_key();
    lab.write_pin("pin", "wrong-marked");
    let mut resident = lab.resident();
    for number in 0..5 {
        let Response::Error(error) = resident.ask(&digest_request(&lab)) else {
            panic!("it signed with a wrong PIN");
        };
        assert_eq!(error.reason, Reason::WrongPin, "{number}: {}", error.message);
    }
    assert_eq!(lab.spied("C_Login"), 1);
    assert!(resident.end().success());
}

#[test]
fn the_last_try_and_a_locked_token_are_left_alone_by_files_and_people() {
    let lab = lab_with_key();
    for (flags, why) in [
        (COUNT_LOW | FINAL_TRY, "one more wrong PIN locks token `lab`"),
        (LOCKED, "the PIN of token `lab` is locked"),
    ] {
        lab.set_flags(flags);
        let (reason, message) = refusal(&lab);
        assert_eq!(reason, Reason::NotAllowed, "{message}");
        assert!(message.contains(why), "{message}");
        let mut command = lab.plugin();
        let uri = lab.uri("me");
        command.arg("test").arg(uri.split("&pin-source").next().unwrap());
        let mut terminal = Pty::spawn(&command).unwrap();
        assert_eq!(terminal.finish().code(), Some(4), "{}", terminal.screen());
        assert!(terminal.screen().contains(why), "{}", terminal.screen());
    }
    assert_eq!(lab.spied("C_Login"), 0);
    assert!(lab.run("list", "me", &[]).contains("PIN locked"));
}

#[test]
fn a_token_with_its_own_keys_is_given_no_pin_and_nobody_is_asked() {
    let lab = lab_with_key();
    lab.set_flags(PROTECTED_PATH);
    let response = lab.certificate(&lab.configuration("me"));
    assert!(response.prompt.unwrap().contains("on its own keys"));
    // SoftHSM has no keys of its own, so the login fails; what matters is what it was given.
    let (reason, message) = refusal(&lab);
    assert_eq!(reason, Reason::Failed, "{message}");
    let log = fs::read_to_string(lab.path("spy.log")).unwrap();
    let call = log.split(" C_Login").nth(1).unwrap();
    let call: String = call.lines().take(8).collect::<Vec<_>>().join("\n");
    assert!(call.contains("NULL"), "{call}");
    assert_eq!(lab.spied("C_Login"), 1);
}

#[test]
fn a_pin_is_asked_for_at_the_terminal_while_stdin_is_somebody_elses() {
    let lab = lab_with_key();
    let uri = lab.uri("me");
    let uri = uri.split("&pin-source").next().unwrap();
    let mut command = lab.tool("sh", "dash");
    let program = lab.plugin().get_program().to_str().unwrap().to_owned();
    command.args(["-c", r#"echo not-a-pin | "$0" test "$1""#, &program, uri]);
    let mut terminal = Pty::spawn(&command).unwrap();
    terminal.wait_for("PIN of token `lab`: ");
    terminal.type_in(&format!("{PIN}\n")).unwrap();
    terminal.wait_for("good");
    assert!(terminal.finish().success(), "{}", terminal.screen());

    // A mistyped one is the person's affair, not the configuration's.
    let mut command = lab.plugin();
    command.arg("test").arg(uri);
    let mut terminal = Pty::spawn(&command).unwrap();
    terminal.wait_for("PIN of token `lab`: ");
    terminal.type_in("mistyped\n").unwrap();
    assert_eq!(terminal.finish().code(), Some(4), "{}", terminal.screen());
    terminal.wait_for("this is not the PIN of token `lab`");
}

#[test]
fn a_wrong_pin_that_was_typed_is_not_tried_again_by_the_same_process() {
    let lab = lab_with_key();
    let uri = lab.uri("me");
    let uri = uri.split("&pin-source").next().unwrap();
    let configuration = [("uri", uri)].into_iter().collect();
    let line = sign_request(&configuration, Options::Digest(Hash::Sha256), &[7; 32]).to_json();
    fs::write(lab.path("lines"), format!("{0}\n{0}\n{0}\n", line.expose())).unwrap();
    let mut command = lab.tool("sh", "dash");
    let program = lab.plugin().get_program().to_str().unwrap().to_owned();
    command.args(["-c", r#""$0" < lines"#, &program]);
    command.env(REQUEST_VARIABLE, Request::Session.to_json().expose());
    let mut terminal = Pty::spawn(&command).unwrap();
    for pin in ["wrong-marked", "wrong-marked", PIN] {
        terminal.wait_for("PIN of token `lab`: ");
        terminal.type_in(&format!("{pin}\n")).unwrap();
    }
    assert!(terminal.finish().success(), "{}", terminal.screen());
    let screen = terminal.screen();
    assert!(screen.contains("this is not the PIN of token"), "{screen}");
    assert!(screen.contains("before and is not tried again"), "{screen}");
    assert_eq!(screen.matches("SignResponse").count(), 1, "{screen}");
    assert_eq!(lab.spied("C_Login"), 2);
}

#[test]
fn files_without_end_and_names_without_letters_are_refused() {
    let lab = lab_with_key();
    let mut command = lab.plugin();
    let output = command.args(["import", "/dev/zero"]).arg(lab.uri("me")).output().unwrap();
    let message = said(&output);
    assert!(!output.status.success(), "{message}");
    assert!(message.contains("it is larger than 1 MiB"), "{message}");
    let mut command = lab.plugin();
    let output = command.args(["csr", "--user", ""]).arg(lab.uri("me")).output().unwrap();
    assert!(!output.status.success());
    assert!(said(&output).contains("--user"), "{}", said(&output));
    assert_eq!(lab.spied("C_Login"), 0);
}

#[test]
fn a_key_that_wants_its_pin_each_time_gets_it_each_time() {
    let mut lab = Lab::soft();
    for (name, kind) in [("rsa", "rsa2048"), ("ec", "p256")] {
        lab.run("keygen", name, &["--kind", kind, "--always-authenticate"]);
        lab.certify(name);
    }
    lab.spy();
    let mut resident = lab.resident();
    for (name, options) in
        [("rsa", Options::Pss(Hash::Sha256)), ("ec", Options::Digest(Hash::Sha256))]
    {
        let before = lab.spied("C_Login");
        for _ in 0..3 {
            let request = sign_request(&lab.configuration(name), options, &[7; 32]);
            let response = resident.ask(&request);
            assert!(matches!(response, Response::Sign(_)), "{name}: {response:?}");
        }
        // One to see the key, and one for each signature.
        assert_eq!(lab.spied("C_Login") - before, 4, "{name}");
    }
    assert!(resident.end().success());

    // Typed once it is good for one signature, unless it may be used again.
    let uri = lab.uri("ec");
    let uri = uri.split("&pin-source").next().unwrap();
    for (reuse, prompts) in [("false", 2), ("true", 1)] {
        let configuration = [("uri", uri), ("reusePin", reuse)].into_iter().collect();
        let request = SignRequest {
            configuration,
            digest: vec![7; 32],
            options: Options::Digest(Hash::Sha256),
        };
        let line = Request::Sign(request).to_json();
        fs::write(lab.path("lines"), format!("{0}\n{0}\n", line.expose())).unwrap();
        let mut command = lab.tool("sh", "dash");
        let program = lab.plugin().get_program().to_str().unwrap().to_owned();
        command.args(["-c", r#""$0" < lines"#, &program]);
        command.env(REQUEST_VARIABLE, Request::Session.to_json().expose());
        let mut terminal = Pty::spawn(&command).unwrap();
        for _ in 0..prompts {
            terminal.wait_for("PIN of token `lab`: ");
            terminal.type_in(&format!("{PIN}\n")).unwrap();
        }
        assert!(terminal.finish().success(), "{}", terminal.screen());
        assert_eq!(terminal.screen().matches("SignResponse").count(), 2, "{}", terminal.screen());
        assert_eq!(terminal.screen().matches("PIN of token").count(), prompts, "{reuse}");
    }
}
