//! Programs in the background, and more than one at a time: one page.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
};

use serde_json::json;

use super::{
    judge::Judge,
    stage::{Outcome, Stage},
};

/// A browser that counts its pages and opens them once the file `go` exists, which is a pipe to wait for.
pub(super) fn slow_browser(stage: &Stage) -> String {
    let script = stage.write(
        "slow",
        "#!/bin/sh\nhere=$(dirname \"$0\")\necho page >>\"$here/pages\"\ncat \"$here/go\" >/dev/null\n\
         exec curl --silent --location --cookie-jar \"$here/jar\" --cookie \"$here/jar\" --output \"$here/page\" \"$1\"\n",
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let go = stage.path("go");
    let made = std::process::Command::new("mkfifo").arg(&go).status().unwrap();
    assert!(made.success());
    format!("--browser-command={script}")
}

pub(super) fn pages(stage: &Stage) -> usize {
    fs::read_to_string(stage.path("pages")).unwrap_or_default().lines().count()
}

/// Starts a second login while the page of the first is open, then lets the person log in.
pub(super) fn two_at_once(stage: &Stage, args: &[&str]) -> [Outcome; 2] {
    let started = ["open this page to log in", "waiting for the login"].map(|expected| {
        let mut child = stage.start(args);
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains(expected), "{line}");
        child.stderr = Some(lines.into_inner());
        child
    });
    // Now the person comes.
    fs::write(stage.path("go"), "").unwrap();
    started.map(Outcome::of)
}

#[test]
fn pitfall_21_two_logins_at_once_open_one_page() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let browser = slow_browser(&stage);
    let args = [&issuer, "--oidc-client-id=public", "--listen-address=127.0.0.1:0", &browser];
    let [first, second] = two_at_once(&stage, &args);
    assert_eq!(first.token(), second.token());
    assert_eq!(pages(&stage), 1);
    assert_eq!(judge.events(), ["page", "grant authorization_code"]);
}

#[test]
fn pitfall_21_a_page_that_nobody_used_is_not_opened_again_by_a_program_in_the_background() {
    let judge = Judge::start(&json!({}));
    for stage in [Stage::new(), Stage::with_agent()] {
        let script = stage.write("count", "#!/bin/sh\necho page >>\"$(dirname \"$0\")/pages\"\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let issuer = format!("--oidc-issuer-url={}", judge.issuer);
        let browser = format!("--browser-command={script}");
        let args = [
            &issuer,
            "--oidc-client-id=public",
            "--listen-address=127.0.0.1:0",
            &browser,
            "--authentication-timeout-sec=1",
        ];
        assert!(stage.run(&args).refusal(1).contains("nobody logged in"));
        for _ in 0..5 {
            let again = stage.run(&args);
            assert!(again.refusal(3).contains("did not end well"), "{again:?}");
        }
        assert_eq!(pages(&stage), 1);
        // A person who asks gets a page, and then the others have their token.
        let stage = stage.interactive();
        let person = stage.run(&[&args[..3], &[&stage.browser()]].concat());
        person.token();
    }
}
