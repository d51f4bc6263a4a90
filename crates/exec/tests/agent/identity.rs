//! Never the credential of another identity, whatever a person switches between two requests.

use std::{fs, path::PathBuf};

use keyward_agent::registration::Registrations;

use crate::stage::{Stage, token};

const VARIABLES: [&str; 8] =
    ["ACCOUNT", "TEAM", "AWS_PROFILE", "REGION", "USER", "HTTPS_PROXY", "CORP_TENANT", "KUBE_USER"];
const FILES: [&str; 4] = ["one", "two", "three", "four"];

/// Answers with what it was given, which is what an account would be chosen by.
fn echo() -> String {
    let variables = VARIABLES.map(|name| format!("${{{name}-}},")).concat();
    let files = FILES.map(|name| format!("$(cat \"$here/{name}\"),")).concat();
    format!(
        r#"here=$(dirname "$0")
echo "$$" >>"$here/runs"
printf '{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{{"token":"%s"}}}}' "{variables}{files}"
"#
    )
}

/// A registration that names the files, as `keyward wrap --identity-file` makes it.
fn name_files(stage: &Stage) {
    let directory = Registrations::directory(&stage.surroundings()).unwrap();
    let mut registrations = Registrations::new(directory);
    for registration in registrations.list() {
        let mut registration = (*registration).clone();
        registration.identity_files = FILES.iter().map(|name| stage.plugin(name)).collect();
        registrations.add(&registration).unwrap();
    }
}

#[test]
fn no_switch_of_variables_and_files_brings_another_identitys_credential() {
    const ROUNDS: usize = 240;
    let stage = Stage::new();
    let plugin: PathBuf = stage.plugin("plugin");
    fs::write(&plugin, echo()).unwrap();
    name_files(&stage);
    // A simple walk that repeats itself and is the same each time.
    let mut walk: u64 = 20_261_117;
    let mut step = |most: u64| {
        walk = walk.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (walk >> 33) % most
    };
    let mut seen = std::collections::HashSet::new();
    for round in 0..ROUNDS {
        // Each of the twelve differs from the thirteenth in one variable or file alone.
        let identity = step(13);
        let value = |index: usize| if identity == index as u64 { "b" } else { "a" };
        for (index, name) in FILES.iter().enumerate() {
            stage.set(name, value(VARIABLES.len() + index));
        }
        let mut command = stage.kubectl();
        for (index, name) in VARIABLES.iter().enumerate() {
            command.env(name, value(index));
        }
        // Four shells that differ in what tells nothing.
        let shell = step(4).to_string();
        command.env("SHLVL", &shell).env("TERM_SESSION_ID", &shell).env("SSH_TTY", &shell);
        let expected: String = (0..12).flat_map(|index| [value(index), ","]).collect();
        assert_eq!(token(&command.output().unwrap()), expected, "round {round}");
        seen.insert(expected);
    }
    let (runs, most) = (stage.runs(), seen.len() + (ROUNDS - seen.len()) / 100);
    assert!(runs <= most, "{runs} runs for {} identities and {ROUNDS} requests", seen.len());
}
