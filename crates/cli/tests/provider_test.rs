//! `keyward plugin test --image` passes good providers and names the fault of each bad one.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use keyward_testing::plugin::example;
use tempfile::TempDir;

const IMAGE: &str = "registry.example:5000/team/app";

/// Reads the request and has its `apiVersion` in `$version`; `answer KEY DURATION AUTH` prints one.
/// What has no image, or not in a known version, is refused.
const PRELUDE: &str = r#"request=$(cat)
version=$(printf %s "$request" | sed -n 's/.*"apiVersion":"\([^"]*\)".*/\1/p')
case "$version" in credentialprovider.kubelet.k8s.io/v1*) ;; *) echo 'no such version' >&2; exit 2;; esac
answer() { printf '{"kind":"CredentialProviderResponse","apiVersion":"%s","cacheKeyType":"%s","cacheDuration":"%s","auth":{%s}}\n' "$version" "$1" "$2" "$3"; }
good='"registry.example:5000":{"username":"puller","password":"s3cr3t-password"}'
"#;

struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A provider that is a shell script.
    fn script(&self, script: &str) -> PathBuf {
        let text = self.folder.path().join("provider.txt");
        fs::write(&text, format!("#!/bin/sh\n{PRELUDE}{script}\n")).unwrap();
        let path = self.folder.path().join("provider");
        // Another process writes it: see `stage.rs` of the other tests.
        let done = Command::new("install").args(["-m", "755"]).arg(text).arg(&path).status();
        assert!(done.unwrap().success());
        path
    }

    fn test(&self, flags: &[&str], command: &[&Path]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_keyward"))
            .args(["plugin", "test", "--image", IMAGE, "--at-once", "3"])
            .args(flags)
            .arg("--")
            .args(command)
            .env("HOME", self.folder.path())
            // Tests count runs, whatever the tester's agent has.
            .env("KEYWARD_AGENT", "off")
            .output()
            .unwrap()
    }
}

#[track_caller]
fn fails(script: &str, check: &str, fault: &str) {
    let bench = Bench::new();
    let output = bench.test(&["--plugin-timeout", "20s"], &[&bench.script(script)]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let mut lines = said.lines().skip_while(|line| !line.contains(&format!("FAIL  {check}")));
    let mut own = lines.by_ref().take(1).chain(said.lines().filter(|l| l.starts_with("       ")));
    assert!(own.any(|line| line.contains(fault)), "no `{fault}` under `{check}` in:\n{said}");
    assert!(!said.contains("s3cr3t-password"), "{said}");
}

#[track_caller]
fn passes(output: &Output, words: &str) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(words), "no `{words}` in:\n{said}");
    assert!(!said.contains("s3cr3t-password"), "{said}");
}

#[test]
fn the_example_passes() {
    let bench = Bench::new();
    let logins = bench.folder.path().join("logins");
    let end = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    fs::write(&logins, format!("registry.example:5000 puller s3cr3t-password {end}\n")).unwrap();
    let output = bench.test(&[], &[&example("registry_login"), &logins]);
    passes(&output, "answers v1alpha1, v1beta1, v1");
    fs::write(&logins, "registry.example:5000 puller s3cr3t-password\n").unwrap();
    let output = bench.test(&["-o", "json"], &[&example("registry_login"), &logins]);
    passes(&output, "\"passed\": true");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["checks"].as_array().unwrap().len(), 10);
}

#[test]
fn a_good_script_passes_and_one_that_declines_versions_too() {
    let bench = Bench::new();
    passes(&bench.test(&[], &[&bench.script("answer Registry 10m \"$good\"")]), "1 login under");
    let picky = "case \"$version\" in */v1) answer Image 10m \"$good\";; \
                 *) echo 'only v1' >&2; exit 2;; esac";
    passes(&bench.test(&[], &[&bench.script(picky)]), "declines v1alpha1, v1beta1");
}

#[test]
fn an_answer_in_another_version_is_named() {
    fails(
        "version=credentialprovider.kubelet.k8s.io/v1; answer Registry 10m \"$good\"",
        "versions",
        "asked in v1alpha1, it answers in v1, not in v1alpha1",
    );
}

#[test]
fn what_else_is_on_stdout_is_named() {
    fails("echo hello; answer Registry 10m \"$good\"", "stdout", "prints text before the object");
    fails("answer Registry 10m \"$good\"; echo bye", "stdout", "prints text after the object");
    fails("exit 0", "stdout", "prints nothing and exits with 0");
    fails("echo none", "stdout", "not a JSON object");
    fails(
        "answer Registry 10m \"$good\" | sed 's/\"auth\"/\"auths\"/'",
        "stdout",
        "what a kubelet refuses to read",
    );
}

#[test]
fn an_answer_that_serves_nobody_is_named() {
    fails("answer registry 10m \"$good\"", "credential", "without a `cacheKeyType`");
    fails("answer Registry 10m ''", "credential", "without a login for `registry.example:5000");
    let other = r#""other.example":{"username":"u","password":"s3cr3t-password"}"#;
    fails(
        &format!("answer Registry 10m '{other}'"),
        "credential",
        "none of their patterns matches",
    );
    let scheme = r#""https://registry.example:5000":{"username":"u","password":"s3cr3t-password"}"#;
    fails(&format!("answer Registry 10m '{scheme}'"), "credential", "not a registry pattern");
    let empty = r#""registry.example:5000":{"username":"u","password":""}"#;
    fails(&format!("answer Registry 10m '{empty}'"), "credential", "is empty");
    let anonymous = r#""*.example:5000":{"username":"","password":""}"#;
    fails(&format!("answer Registry 10m '{anonymous}'"), "credential", "none of their patterns");
}

#[test]
fn an_anonymous_entry_beside_a_login_is_no_fault() {
    let bench = Bench::new();
    let anonymous = r#"$good,\"*.example:5000\":{\"username\":\"\",\"password\":\"\"}"#;
    let script = bench.script(&format!("answer Registry 10m \"{anonymous}\""));
    passes(&bench.test(&["--plugin-timeout", "20s"], &[&script]), "1 login under `Registry`");
}

#[test]
fn a_duration_that_outlives_the_token_is_named() {
    // {"exp":4102444800}, the year 2100, and one that is long over.
    let token = |claims: &str| {
        format!(r#""registry.example:5000":{{"username":"u","password":"e30.{claims}.c2ln"}}"#)
    };
    let late = token("eyJleHAiOjQxMDI0NDQ4MDB9");
    fails(&format!("answer Registry 2000000h '{late}'"), "expiry", "after the token expires");
    let over = token("eyJleHAiOjE3MDAwMDAwMDB9");
    fails(&format!("answer Registry 10m '{over}'"), "expiry", "already expired");
    fails("answer Registry -5m \"$good\"", "expiry", "negative");
}

#[test]
fn a_password_on_stderr_and_a_failure_without_a_word_are_named() {
    fails(
        "echo \"got s3cr3t-password\" >&2; answer Registry 10m \"$good\"",
        "secrets",
        "shows a password on stderr",
    );
    fails("exit 1", "failure", "fails without a message");
    fails("kill -9 $$", "failure", "dies by signal 9");
    fails("echo 'no such account' >&2; exit 1", "credential", "it says: no such account");
}

#[test]
fn a_provider_that_hangs_is_named() {
    let bench = Bench::new();
    let output = bench.test(&["--plugin-timeout", "1s"], &[&bench.script("exec sleep 600")]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("does not end within 1s when asked in v1alpha1"), "{said}");
}

#[test]
fn a_token_handed_on_is_a_warning() {
    let bench = Bench::new();
    let script = "token=$(printf %s \"$request\" | \
                  sed -n 's/.*\"serviceAccountToken\":\"\\([^\"]*\\)\".*/\\1/p')\n\
                  answer Registry 10m \"\\\"registry.example:5000\\\":{\\\"username\\\":\\\"u\\\",\
                  \\\"password\\\":\\\"${token:-s3cr3t-password}\\\"}\"";
    passes(&bench.test(&[], &[&bench.script(script)]), "cacheType: Token");
}

#[test]
fn what_is_no_image_is_wrong_use() {
    let output = Command::new(env!("CARGO_BIN_EXE_keyward"))
        .args(["plugin", "test", "--image", "Not An Image", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`--image` names no image"));
}

/// A bench with a plugin of the original proposal, which answers this for its expiry.
fn proposal(expiry: &str) -> (Bench, std::path::PathBuf) {
    let bench = Bench::new();
    let text = bench.folder.path().join("provider.txt");
    let script = r#"#!/bin/sh
[ "$*" = get-credentials ] || { echo "started with '$*'" >&2; exit 1; }
case "$(cat)" in
  *apiVersion*) echo 'not asked by the proposal' >&2; exit 1;;
  *'"image":"'*) echo "{\"kind\":\"RegistryCredentialPluginResponse\",\"apiVersion\":\"v1alpha1\",EXPIRY\"username\":\"puller\",\"password\":\"s3cr3t-password\"}";;
  *) echo 'asked nothing' >&2; exit 1;;
esac
"#;
    fs::write(&text, script.replace("EXPIRY", expiry)).unwrap();
    let path = bench.folder.path().join("provider");
    let done = Command::new("install").args(["-m", "755"]).arg(text).arg(&path).status();
    assert!(done.unwrap().success());
    (bench, path)
}

const IN_AN_HOUR: &str =
    r#"\"expirationTimestamp\":\"$(date -u -d '+1 hour' +%Y-%m-%dT%H:%M:%SZ)\","#;

#[test]
fn a_provider_of_the_original_proposal_is_started_and_asked_as_a_node_does_it() {
    let (bench, path) = proposal(IN_AN_HOUR);
    let answers = "answers the form of the original proposal";
    passes(&bench.test(&["--proposal-form"], &[&path]), answers);
    // Given by hand, the word is not repeated.
    passes(&bench.test(&["--proposal-form"], &[&path, "get-credentials".as_ref()]), answers);
    assert_eq!(bench.test(&[], &[&path]).status.code(), Some(1));
}

#[test]
fn what_a_provider_of_the_original_proposal_says_about_its_expiry_is_judged_in_its_own_words() {
    let (bench, path) = proposal("");
    let without = "without `expirationTimestamp`: it is run for every pull";
    passes(&bench.test(&["--proposal-form"], &[&path]), without);
    let (bench, path) = proposal(r#"\"expirationTimestamp\":\"2001-01-01T00:00:00Z\","#);
    let output = bench.test(&["--proposal-form"], &[&path]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("`expirationTimestamp` is in the past"), "{said}");
    assert!(!said.contains("cacheDuration"), "{said}");
}

#[test]
fn the_plugin_on_the_page_for_authors_passes_without_a_warning() {
    let page = include_str!("../../../docs/seed-form-plugins.md");
    let (_, script) = page.split_once("```sh\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    let bench = Bench::new();
    let install = |name: &str, text: &str| {
        let source = bench.folder.path().join(format!("{name}.txt"));
        fs::write(&source, text).unwrap();
        let path = bench.folder.path().join(name);
        let done = Command::new("install").args(["-m", "755"]).arg(source).arg(&path).status();
        assert!(done.unwrap().success());
        path
    };
    // In place of the AWS CLI.
    let aws = install("aws", "#!/bin/sh\necho s3cr3t-password\n");
    let script = script.replace("$(aws ", &format!("$({} ", aws.display()));
    let plugin = install("ecr-creds", &script.replace("\"$REGION\"", "us-west-2"));
    let output = bench.test(&["--proposal-form"], &[&plugin]);
    passes(&output, "answers the form of the original proposal");
    passes(&output, ", 0 passed with a warning, 0 failed");
}

#[test]
fn a_stray_line_does_not_hide_an_answer_in_the_wrong_version() {
    let script =
        "version=credentialprovider.kubelet.k8s.io/v1; echo hello; answer Image 1h \"$good\"";
    fails(script, "stdout", "before the object");
    fails(script, "versions", "answers in v1, not in v1alpha1");
}
