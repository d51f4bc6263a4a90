//! Other users, and the same user in another namespace.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    process::{Command, Output},
};

use crate::{
    ordinary::NOBODY,
    stage::{Stage, exec, request, token},
};

fn needs_root() {
    assert!(rustix::process::geteuid().is_root(), "this test plays several users: run it as root");
}

/// Runs the command through another program, such as `setpriv`.
fn by(stage: &Stage, words: &[&str]) -> Output {
    let inner = stage.kubectl();
    let mut command = stage.command(words[0]);
    command.args(&words[1..]).arg(inner.get_program()).args(inner.get_args());
    command.env("KUBERNETES_EXEC_INFO", request(false)).env("KUBERC", "off");
    command.output().unwrap_or_else(|_| panic!("{} (Debian package `util-linux`)", words[0]))
}

#[test]
fn another_mount_namespace_is_not_served_and_goes_on_without() {
    needs_root();
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    let output = by(&stage, &["unshare", "--mount"]);
    assert_eq!(token(&output), "t0ken");
    assert_eq!(stage.runs(), 2, "it ran the plugin itself");
    assert_eq!(stage.token(), "t0ken");
    assert_eq!(stage.runs(), 2, "the agent serves the others as before");
    assert_eq!(stage.agents().len(), 1);
}

#[test]
fn the_root_of_a_rootless_container_is_not_the_user() {
    needs_root();
    let stage = Stage::new();
    give(&stage);
    let id = NOBODY.to_string();
    let user = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"];
    assert_eq!(token(&by(&stage, &user)), "t0ken");
    assert_eq!(token(&by(&stage, &user)), "t0ken");
    assert_eq!(stage.runs(), 1, "an unprivileged user is served");
    let inside: Vec<_> =
        user.into_iter().chain(["unshare", "--user", "--map-root-user", "--"]).collect();
    let output = by(&stage, &inside);
    assert_eq!(token(&output), "t0ken");
    assert_eq!(stage.runs(), 2, "it ran the plugin itself");
}

#[test]
fn another_user_cannot_ask_and_a_foreign_agent_is_not_asked() {
    needs_root();
    let stage = Stage::new();
    assert_eq!(stage.token(), "t0ken");
    // Whoever can read the plugin but not the runtime directory runs it, and gets nothing of ours.
    stage.answer("theirs");
    fs::set_permissions(stage.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(stage.plugin(""), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(stage.plugin("runs"), fs::Permissions::from_mode(0o666)).unwrap();
    let id = NOBODY.to_string();
    let socket = stage.dir.path().join("run/keyward/agent.sock");
    let socket = format!("KEYWARD_AGENT_SOCK={}", socket.display());
    let words = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--", "env", &socket];
    assert_eq!(token(&by(&stage, &words)), "theirs");
    assert_eq!(stage.token(), "t0ken");

    // Root may connect to anybody's agent, and does not ask it.
    let other = Stage::new();
    give(&other);
    let user = ["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "--"];
    assert_eq!(token(&by(&other, &user)), "t0ken");
    let socket = other.dir.path().join("run/keyward/agent.sock");
    let output = by(&other, &["env", &format!("KEYWARD_AGENT_SOCK={}", socket.display())]);
    assert_eq!(token(&output), "t0ken");
    assert_eq!(other.runs(), 2, "it ran the plugin itself");
}

/// Makes everything in the stage the other user's.
fn give(stage: &Stage) {
    let mut left = vec![stage.dir.path().to_owned()];
    while let Some(path) = left.pop() {
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    // The programs of this workspace are below a directory that others may not be able to enter.
    let program = exec();
    let status = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--", "test", "-x"])
        .arg(program)
        .status()
        .expect("setpriv (Debian package `util-linux`)");
    assert!(status.success(), "another user must be able to run `{}`", program.display());
}
