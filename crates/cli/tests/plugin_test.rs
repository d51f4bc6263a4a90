//! `keyward plugin test` passes good plugins and names the fault of each bad one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Output},
    time::{Duration, SystemTime},
};

use keyward_testing::plugin::example;
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

const TOKEN: &str = r#""\"token\":\"s3cr3t-token\"""#;
const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn the_example_with_a_file_passes() {
    let bench = Bench::new();
    let token = bench.file("token", "s3cr3t-token\n");
    let output = bench.test(&[], &[example("token_from_file").as_ref(), token.as_ref()]);
    assert_passes(&output);
    assert!(!text(&output.stdout).contains("s3cr3t-token"));
}

#[test]
fn the_example_with_a_certificate_passes() {
    let bench = Bench::new();
    let key = bench.file("ca.key", &KeyPair::generate().unwrap().serialize_pem());
    let plugin = example("short_lived_certificate");
    let output = bench.test(&[], &[plugin.as_ref(), key.as_ref(), "ca".as_ref(), "jane".as_ref()]);
    assert_passes(&output);
    assert!(text(&output.stdout).contains("pass  certificate"), "{}", text(&output.stdout));
}

#[test]
fn the_example_with_a_login_passes_when_somebody_types() {
    let bench = Bench::new();
    let accounts = bench.file("accounts", "jane:hunter2:s3cr3t-token\n");
    let answers = bench.file("answers", "jane\nhunter2\n");
    let command = [example("interactive_login"), accounts];
    let command = command.each_ref().map(|part| part.as_os_str());
    let output = bench.test(&["--answers".as_ref(), answers.as_ref()], &command);
    assert_passes(&output);
    assert!(text(&output.stdout).contains("pass  credential"), "{}", text(&output.stdout));

    // Without anybody there is nothing to check, and that is said.
    let output = bench.test(&[], &command);
    assert_fails(&output, "credential", "no run gave a credential");
    assert!(text(&output.stdout).contains("--answers"), "{}", text(&output.stdout));
}

#[test]
fn a_good_script_passes() {
    let bench = Bench::new();
    let plugin = bench.script(&format!("answer {TOKEN}"));
    assert_passes(&bench.test(&[], &[plugin.as_ref()]));
}

#[test]
fn the_report_for_programs_keeps_its_schema() {
    let bench = Bench::new();
    let plugin = bench.script(&format!("echo logging in; answer {TOKEN}"));
    let output = bench.test(&["-o".as_ref(), "json".as_ref()], &[plugin.as_ref()]);
    assert_eq!(output.status.code(), Some(1));
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["plugin"], plugin.to_str().unwrap());
    // What differs from run to run.
    report["plugin"] = "[PLUGIN]".into();
    for check in report["checks"].as_array_mut().unwrap() {
        if check["check"] == "timing" {
            check["messages"] = serde_json::json!(["[FIGURES]"]);
        }
    }
    let report = format!("{report:#}\n");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/plugin-test.json");
    if std::env::var_os("KEYWARD_BLESS").is_some() {
        fs::write(path, &report).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert!(report == expected, "{path} differs; it is now:\n{report}");
}

#[test]
fn a_plugin_gets_the_environment_that_was_chosen() {
    let bench = Bench::new();
    let body =
        format!("[ -z \"$HOME\" ] || {{ echo 'there is a home' >&2; exit 1; }}; answer {TOKEN}");
    let plugin = bench.script(&body);
    let chosen = ["--plugin-env".as_ref(), "PATH".as_ref()];
    assert_passes(&bench.test(&chosen, &[plugin.as_ref()]));
    assert_fails(&bench.test(&[], &[plugin.as_ref()]), "credential", "there is a home");
}

#[test]
fn a_plugin_that_is_not_there_is_said_so() {
    let bench = Bench::new();
    let output = bench.test(&[], &["no-such-plugin".as_ref()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`no-such-plugin`"), "{}", text(&output.stderr));
}

#[test]
fn text_before_the_object_is_named() {
    broken(&format!("echo 'level=info msg={{}}'; answer {TOKEN}"), "stdout", "before the object");
}

#[test]
fn text_after_the_object_is_named() {
    broken(&format!("answer {TOKEN}; echo done"), "stdout", "after the object");
}

#[test]
fn one_version_for_all_questions_is_named() {
    broken(
        &format!("version=client.authentication.k8s.io/v1; answer {TOKEN}"),
        "versions",
        "answers in v1, not in v1beta1",
    );
}

#[test]
fn an_expiry_in_the_past_is_named() {
    broken(&expiring("2020-01-02T03:04:05Z"), "expiry", "already expired: 2020-01-02T03:04:05Z");
}

#[test]
fn an_expiry_beyond_reason_is_named() {
    broken(&expiring("9020-01-02T03:04:05Z"), "expiry", "absurdly far");
}

#[test]
fn an_expiry_that_is_no_timestamp_is_named() {
    broken(&expiring("1735689600"), "expiry", "not RFC 3339");
}

#[test]
fn a_token_that_ends_before_it_is_said_to_is_named() {
    // {"alg":"none"} and {"exp":1700000000}
    let token = "eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwMDB9.s3cr3t";
    let body = expiring("$(date -ud '+1 hour' +%FT%TZ)").replace("s3cr3t-token", token);
    broken(&body, "expiry", "after the token expires");
}

#[test]
fn a_token_with_its_scheme_is_named() {
    broken(r#"answer '"token":"Bearer s3cr3t"'"#, "credential", "begins with `Bearer`");
}

#[test]
fn a_key_of_another_certificate_is_named() {
    let (certificate, _) = pair(SystemTime::now() + DAY);
    let (_, key) = pair(SystemTime::now() + DAY);
    broken(&certified(&certificate, &key, ""), "certificate", "do not match");
}

#[test]
fn a_certificate_that_has_ended_is_named() {
    let (certificate, key) = pair(SystemTime::now() - DAY);
    broken(&certified(&certificate, &key, ""), "certificate", "the certificate expired at");
}

#[test]
fn an_expiry_after_the_certificates_end_is_named() {
    let (certificate, key) = pair(SystemTime::now() + DAY);
    let expiry = r#",\"expirationTimestamp\":\"$(date -ud '+2 days' +%FT%TZ)\""#;
    broken(
        &certified(&certificate, &key, expiry),
        "certificate",
        "before the answer's `expirationTimestamp`",
    );
}

#[test]
fn a_certificate_without_its_key_is_named() {
    let (certificate, key) = pair(SystemTime::now() + DAY);
    let body = certified(&certificate, &key, "").replace("clientKeyData", "keyData");
    broken(&body, "certificate", "a certificate without its key");
}

#[test]
fn a_failure_that_exits_with_zero_is_named() {
    broken("echo 'error: no session'", "stdout", "exits with 0 and prints no `ExecCredential`");
    broken("echo 'error: no session' >&2", "stdout", "prints nothing and exits with 0");
}

#[test]
fn a_failure_without_a_word_is_named() {
    broken("exit 3", "failure", "fails without a message");
}

#[test]
fn a_token_on_stderr_is_named() {
    broken(&format!("echo debug: s3cr3t-token >&2; answer {TOKEN}"), "secrets", "shows a secret");
}

#[test]
fn a_prompt_that_nobody_asked_for_is_named() {
    broken(
        &format!("if [ -t 0 ]; then printf 'Password: ' >&2; read -r x; fi; answer {TOKEN}"),
        "terminal",
        "although the request says `interactive: false`",
    );
}

#[test]
fn a_terminal_left_without_echo_is_named() {
    broken(
        &format!("if [ -t 0 ]; then stty -echo; fi; answer {TOKEN}"),
        "terminal",
        "leaves the terminal in another mode",
    );
}

#[test]
fn a_request_expected_on_stdin_is_named() {
    broken(
        &format!("read -r x || {{ echo 'no request' >&2; exit 1; }}; answer {TOKEN}"),
        "stdin",
        "only works with its request on stdin",
    );
}

#[test]
fn a_lock_that_others_do_not_wait_for_is_named() {
    broken(
        &format!(
            "mkdir lock 2>/dev/null || {{ echo 'already running' >&2; exit 1; }}\n\
             sleep 0.5; rmdir lock; answer {TOKEN}"
        ),
        "concurrency",
        "at the same time end differently",
    );
}

#[test]
fn a_field_that_is_new_to_it_is_named() {
    broken(
        &format!(
            "case $KUBERNETES_EXEC_INFO in *unknown*) echo 'unknown field' >&2; exit 1;; esac\n\
             answer {TOKEN}"
        ),
        "requests",
        "asked with unknown fields, it fails with exit code 1",
    );
}

#[test]
fn a_plugin_that_never_ends_is_named() {
    let bench = Bench::new();
    let plugin = bench.script("echo waiting for the browser >&2; exec sleep 1000");
    let flags = ["--plugin-timeout".as_ref(), "500ms".as_ref()];
    let output = bench.test(&flags, &[plugin.as_ref()]);
    assert_fails(&output, "timing", "does not end within 500ms");
    assert!(text(&output.stdout).contains("waiting for the browser"));
}

/// Tests a script that has one fault.
#[track_caller]
fn broken(body: &str, check: &str, words: &str) {
    let bench = Bench::new();
    let plugin = bench.script(body);
    let output = bench.test(&[], &[plugin.as_ref()]);
    assert_fails(&output, check, words);
    assert!(!text(&output.stdout).contains("s3cr3t"), "{}", text(&output.stdout));
}

/// A script's answer with this `expirationTimestamp`.
fn expiring(when: &str) -> String {
    format!(r#"answer "\"token\":\"s3cr3t-token\",\"expirationTimestamp\":\"{when}\"""#)
}

/// A script's answer with a certificate and a key, and more fields after them.
fn certified(certificate: &str, key: &str, more: &str) -> String {
    let json = |pem: &str| pem.replace('\n', "\\\\n");
    format!(
        r#"answer "\"clientCertificateData\":\"{}\",\"clientKeyData\":\"{}\"{more}""#,
        json(certificate),
        json(key)
    )
}

/// A certificate that ends then, and its key.
fn pair(end: SystemTime) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.not_before = (end - 2 * DAY).into();
    params.not_after = end.into();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[track_caller]
fn assert_passes(output: &Output) {
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
    assert!(stdout.contains(" 0 failed"), "{stdout}");
}

/// The test must fail, the check must be the one to fail, and the words must be there.
#[track_caller]
fn assert_fails(output: &Output, check: &str, words: &str) {
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}{}", text(&output.stderr));
    let mut failing = false;
    let named = stdout.lines().any(|line| {
        // A check may have several lines; only its first has its verdict.
        if let Some(verdict) = line.get(2..6).filter(|v| !v.trim().is_empty()) {
            failing = verdict == "FAIL" && line[8..].starts_with(check);
        }
        failing && line.contains(words)
    });
    assert!(named, "no failed `{check}` with `{words}` in:\n{stdout}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory with what plugins need, and a way to test them.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A plugin that is a shell script. It has `$version`, the request's `apiVersion`, and
    /// `answer FIELDS`, which prints a credential with these fields of `status`.
    fn script(&self, body: &str) -> PathBuf {
        let path = self.file("plugin", &format!("{SCRIPT}\n{body}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn test(&self, flags: &[&OsStr], command: &[&OsStr]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_keyward"))
            .args(["plugin", "test"])
            .args(flags)
            .arg("--")
            .args(command)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            // Tests count runs, whatever the tester's agent has.
            .env("KEYWARD_AGENT", "off")
            .env_remove("KUBERC")
            .env_remove("KUBERNETES_EXEC_INFO")
            .output()
            .unwrap()
    }
}

const SCRIPT: &str = r#"#!/bin/sh
version=$(printf %s "$KUBERNETES_EXEC_INFO" | sed -n 's/.*"apiVersion":"\([^"]*\)".*/\1/p')
answer() {
  [ -n "$version" ] || { echo 'nobody asked' >&2; exit 1; }
  printf '{"kind":"ExecCredential","apiVersion":"%s","status":{%s}}\n' "$version" "$1"
}"#;

#[test]
fn a_stray_line_does_not_hide_an_answer_in_the_wrong_version() {
    let script = format!("version=client.authentication.k8s.io/v1; echo hello; answer {TOKEN}");
    broken(&script, "stdout", "before the object");
    broken(&script, "versions", "answers in v1, not in v1beta1");
}

#[test]
fn a_plugin_of_the_original_proposal_is_asked_in_its_own_form() {
    let bench = Bench::new();
    let plugin = bench.script(
        r#"case "$KUBERNETES_EXEC_INFO" in
  *'"kind":"ExecInfo"'*) echo "{\"kind\":\"ExecCredentials\",\"apiVersion\":\"$version\",\"token\":\"s3cr3t-token\"}";;
  *) echo 'not asked by the proposal' >&2; exit 1;;
esac"#,
    );
    assert_passes(&bench.test(&["--proposal-form".as_ref()], &[plugin.as_ref()]));
    assert_eq!(bench.test(&[], &[plugin.as_ref()]).status.code(), Some(1));
}
