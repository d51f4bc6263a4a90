//! Places where a socket, a lock or a directory cannot be made.

use std::{fs, os::unix::fs::chown, process::Output};

use crate::stage::{Stage, exec, private, request, token};

/// Runs two clients, each the child of a shell, in a mount namespace of their own that `setup` has
/// prepared. The agent that they may start is in it too.
fn two_clients(stage: &Stage, setup: &str) -> [String; 2] {
    assert!(rustix::process::geteuid().is_root(), "this test mounts file systems: run it as root");
    let script = format!(
        "set -e\ncd /\n{setup}\nfor n in 1 2; do sh -c '\"$@\"; exit $?' kubectl \"$@\"; echo; done"
    );
    let mut command = stage.command("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script, "clients"]);
    command.arg(exec()).arg("--").args(stage.words());
    command.env("KUBERNETES_EXEC_INFO", request(false));
    let output = command.output().expect("unshare (Debian package `util-linux`)");
    assert!(output.status.success(), "{output:?}");
    let answers = String::from_utf8(output.stdout.clone()).unwrap();
    let mut answers = answers
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| token(&Output { stdout: line.as_bytes().to_vec(), ..output.clone() }));
    [answers.next().unwrap(), answers.next().unwrap()]
}

const GOOD: [&str; 2] = ["t0ken", "t0ken"];

#[test]
fn a_disk_that_is_full_is_done_without() {
    // Not even a directory can be made.
    let stage = Stage::new();
    let full = r#"mount -t tmpfs -o nr_inodes=1,mode=700 none "$XDG_RUNTIME_DIR""#;
    assert_eq!(two_clients(&stage, full), GOOD);
    assert_eq!(stage.runs(), 2);
    assert!(stage.agents().is_empty());

    // The directory and the locks are there, and there is no room for the socket.
    let stage = Stage::new();
    let full = r#"mount -t tmpfs -o nr_inodes=4,mode=700 none "$XDG_RUNTIME_DIR"
mkdir -m 700 "$XDG_RUNTIME_DIR/keyward"
: >"$XDG_RUNTIME_DIR/keyward/start.lock"
: >"$XDG_RUNTIME_DIR/keyward/agent.lock""#;
    assert_eq!(two_clients(&stage, full), GOOD);
    assert_eq!(stage.runs(), 2);
    assert!(stage.agents().is_empty());

    // No byte can be written, which the agent has no need to do.
    let stage = Stage::new();
    let full = r#"mount -t tmpfs -o size=4k,mode=700 none "$XDG_RUNTIME_DIR"
head -c 4096 /dev/zero >"$XDG_RUNTIME_DIR/full""#;
    assert_eq!(two_clients(&stage, full), GOOD);
    assert_eq!(stage.runs(), 1);
}

#[test]
fn what_a_full_disk_left_behind_does_not_stop_the_next_start() {
    let stage = Stage::new();
    let full = r#"mount -t tmpfs -o nr_inodes=4,mode=700 none "$XDG_RUNTIME_DIR"
mkdir -m 700 "$XDG_RUNTIME_DIR/keyward"
: >"$XDG_RUNTIME_DIR/keyward/start.lock"
: >"$XDG_RUNTIME_DIR/keyward/agent.lock"
sh -c '"$@"; exit $?' kubectl "$@" >/dev/null
mount -o remount,nr_inodes=100 "$XDG_RUNTIME_DIR"
# A start that failed is not tried again for five seconds.
touch -d '10 seconds ago' "$XDG_RUNTIME_DIR/keyward/start.lock""#;
    assert_eq!(two_clients(&stage, full), GOOD);
    assert_eq!(stage.runs(), 2, "one without an agent, one of the agent");
    assert_eq!(stage.agents().len(), 1);
}

#[test]
fn a_read_only_home_is_done_without() {
    let mut stage = Stage::new();
    stage.vars.retain(|(name, _)| name != "XDG_RUNTIME_DIR");
    let setup = r#"if [ -d /run/user ]; then mount -t tmpfs none /run/user; fi
mount --bind "$HOME" "$HOME"
mount -o remount,bind,ro "$HOME""#;
    assert_eq!(two_clients(&stage, setup), GOOD);
    assert_eq!(stage.runs(), 2);
    assert!(stage.agents().is_empty());

    // With a runtime directory, the home is only read.
    let stage = Stage::new();
    let setup = "mount --bind \"$HOME\" \"$HOME\"\nmount -o remount,bind,ro \"$HOME\"";
    assert_eq!(two_clients(&stage, setup), GOOD);
    assert_eq!(stage.runs(), 1);
}

#[test]
fn without_a_runtime_directory_the_socket_is_in_the_home() {
    let mut stage = Stage::new();
    stage.vars.retain(|(name, _)| name != "XDG_RUNTIME_DIR");
    // The one that a machine with systemd has for every user belongs to the person who runs this.
    let setup = "if [ -d /run/user ]; then mount -t tmpfs none /run/user; fi";
    assert_eq!(two_clients(&stage, setup), GOOD);
    assert_eq!(stage.runs(), 1);
    assert!(stage.dir.path().join("home/.keyward/run").is_dir());
}

#[test]
fn a_directory_that_belongs_to_somebody_else_is_done_without() {
    let stage = Stage::new();
    let directory = stage.dir.path().join("run/keyward");
    fs::create_dir(&directory).unwrap();
    private(&directory);
    chown(&directory, Some(65534), Some(65534)).expect("run this test as root");
    for expected in 1..=2 {
        assert_eq!(stage.token(), "t0ken");
        assert_eq!(stage.runs(), expected);
    }
    assert!(stage.agents().is_empty());
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "nothing is put into it");
}
