//! Where there is no agent: nothing is worse than without Keyward.

use std::{fs, os::unix::fs::symlink};

use crate::stage::{Stage, exec, private, request, said, token};

fn runs_directly(stage: &Stage, vars: &[(&str, &str)]) {
    for expected in 1..=2 {
        let output = stage.kubectl().envs(vars.iter().copied()).output().unwrap();
        assert_eq!(token(&output), "t0ken", "{vars:?}");
        assert_eq!(stage.runs(), expected, "{vars:?}");
    }
    assert!(stage.agents().is_empty(), "{vars:?}");
}

#[test]
fn there_is_no_agent_in_continuous_integration_or_where_it_is_switched_off() {
    runs_directly(&Stage::new(), &[("CI", "true")]);
    runs_directly(&Stage::new(), &[("KEYWARD_AGENT", "off")]);
}

#[test]
fn a_socket_path_that_is_too_long_is_done_without() {
    let long = format!("/tmp/{}/agent.sock", "x".repeat(120));
    runs_directly(&Stage::new(), &[("KEYWARD_AGENT_SOCK", &long)]);
}

#[test]
fn a_directory_that_others_can_enter_is_done_without() {
    let stage = Stage::new();
    let directory = stage.dir.path().join("run/keyward");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    runs_directly(&stage, &[]);
    private(&directory);
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.agents().len(), 1);
}

#[test]
fn a_directory_that_is_a_link_is_done_without() {
    let stage = Stage::new();
    let elsewhere = stage.dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    private(&elsewhere);
    symlink(&elsewhere, stage.dir.path().join("run/keyward")).unwrap();
    runs_directly(&stage, &[]);
}

#[test]
fn without_keyward_the_plugin_runs_unless_a_policy_might_forbid_it() {
    let stage = Stage::new();
    let alone = stage.dir.path().join("keyward-exec");
    keyward_testing::plugin::copy(exec(), &alone);
    let run = || {
        let mut command = stage.command(&alone);
        command.arg("--").args(stage.words());
        command.env("KUBERNETES_EXEC_INFO", request(false)).output().unwrap()
    };
    assert_eq!(token(&run()), "t0ken");
    let kuberc = stage.dir.path().join("home/.kube/kuberc");
    fs::create_dir_all(kuberc.parent().unwrap()).unwrap();
    fs::write(&kuberc, "").unwrap();
    let output = run();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(said(&output).contains("may forbid this plugin"), "{output:?}");
    assert_eq!(stage.runs(), 1);
}

#[test]
fn a_command_that_does_not_exist_is_said_so() {
    let stage = Stage::new();
    for agent in ["on", "off"] {
        let mut command = stage.command(exec());
        command.args(["--", "no-such-plugin"]).env("KEYWARD_AGENT", agent);
        let output = command.env("KUBERNETES_EXEC_INFO", request(false)).output().unwrap();
        assert!(!output.status.success());
        assert!(said(&output).contains("`no-such-plugin`"), "{output:?}");
    }
}
