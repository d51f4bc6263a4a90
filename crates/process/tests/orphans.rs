//! No program outlives us, whatever ends us: nothing of ours runs after a SIGKILL, so the kernel has to
//! end it. Each test starts this binary again as the host that dies; `KEYWARD_ROUNDS` says how often.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod support;

use std::{
    env,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use keyward_process::runner::{self, Cancel, Failure, Invocation};
use keyward_testing::orphans::{
    assert_gone, hangs, hangs_in_sessions, hangs_with_a_deaf_child, leaves_behind, lives, pids,
    rounds, wait_until_guarded, with_default_signals,
};
use rustix::process::{Pid, Signal, kill_process};

/// Tells the host which part it plays, and where the program leaves its numbers.
const SCENE: &str = "KEYWARD_TEST_SCENE";
const PLACE: &str = "KEYWARD_TEST_PLACE";

#[test]
fn no_program_outlives_a_host_that_is_killed() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        for round in 0..rounds() {
            let (mut host, program, _folder) = host_with_program("waits");
            kill_process(Pid::from_child(&host), signal).unwrap();
            let status = host.wait().unwrap();
            assert_eq!(status.signal(), Some(signal.as_raw()), "{signal:?}, round {round}");
            assert_gone(&program, &format!("{signal:?}, round {round}"));
        }
    }
}

#[test]
fn no_program_outlives_a_host_that_panics_aborts_or_returns() {
    for scene in ["panics", "aborts", "returns"] {
        for round in 0..rounds() {
            let (mut host, program, _folder) = host_with_program(scene);
            host.wait().unwrap();
            assert_gone(&program, &format!("{scene}, round {round}"));
        }
    }
}

#[test]
fn what_a_program_left_behind_outlives_the_run_and_the_host() {
    let (mut host, left, _folder) = host_with_program("leaves");
    kill_process(Pid::from_child(&host), Signal::KILL).unwrap();
    host.wait().unwrap();
    let [_, child] = left[..] else { panic!("{left:?}") };
    // Nothing to wait for: the kernel sends its signal, if any, before the host can be reaped.
    assert!(lives(child), "a browser that a login opened stays open");
    kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_child_in_a_session_of_its_own_does_not_outlive_the_budget() {
    nothing_outlives_a_cancelled_run(hangs_in_sessions);
}

#[test]
fn a_child_that_ignores_sigterm_does_not_outlive_the_budget() {
    nothing_outlives_a_cancelled_run(hangs_with_a_deaf_child);
}

fn nothing_outlives_a_cancelled_run(script: fn(&Path) -> String) {
    for attended in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("pids");
        let mut invocation = shell(&script(&place));
        invocation.attended = attended;
        let stop = Cancel::default();
        let run = thread::spawn({
            let stop = stop.clone();
            move || runner::run(&invocation, &stop)
        });
        let program = pids(&place);
        stop.cancel();
        assert!(matches!(run.join().unwrap(), Err(Failure::Cancelled(_))));
        assert_gone(&program, if attended { "attended" } else { "unattended" });
    }
}

#[test]
#[ignore = "the host that dies, started by the tests in this file"]
fn the_host_that_dies() {
    let (Ok(scene), Ok(place)) = (env::var(SCENE), env::var(PLACE)) else { return };
    let place = Path::new(&place);
    if scene == "leaves" {
        runner::run(&shell(&leaves_behind(place)), &Cancel::default()).unwrap();
        std::fs::rename(place, place.with_extension("done")).unwrap();
        loop {
            thread::park();
        }
    }
    // A thread of Keyward runs it: that one lives on while the host's own ends.
    let running = support::start(shell(&hangs(place)));
    pids(place);
    wait_until_guarded(std::process::id().try_into().unwrap());
    std::fs::rename(place, place.with_extension("guarded")).unwrap();
    match scene.as_str() {
        "waits" => drop(running.wait()),
        "panics" => panic!("a bug in the host"),
        "aborts" => std::process::abort(),
        "returns" => {}
        other => panic!("no scene `{other}`"),
    }
}

/// Starts a host and waits for its program: both, and the numbers of the program and its child.
fn host_with_program(scene: &str) -> (Child, Vec<i32>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("pids");
    let mut host = Command::new(env::current_exe().unwrap());
    host.args(["the_host_that_dies", "--exact", "--ignored"]);
    host.envs(env::vars_os()).env(SCENE, scene).env(PLACE, &place);
    let mut host = with_default_signals(&host);
    let host = host.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let noted = if scene == "leaves" { "done" } else { "guarded" };
    let program = pids(&place.with_extension(noted));
    (host, program, folder)
}

fn shell(script: &str) -> Invocation {
    let mut invocation = Invocation::new("/bin/sh");
    invocation.args = ["-c".into(), script.into()].to_vec();
    invocation.env = vec![("PATH".into(), env::var_os("PATH").unwrap())];
    invocation.budget = Duration::from_secs(600);
    invocation
}
