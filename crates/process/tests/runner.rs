//! What a program is given and what becomes of its streams, with the real test plugin.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]
#![cfg(target_os = "linux")]

mod support;

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use keyward_process::{
    FileId,
    runner::{self, Cancel, Failure, Invocation, Output, Part, Sink, Status, Stderr, Stdin},
};
use keyward_testing::plugin;

fn invocation(args: &[&str]) -> Invocation {
    let mut invocation = Invocation::new(plugin::path());
    invocation.args = args.iter().map(Into::into).collect();
    invocation
}

fn run(invocation: &Invocation) -> Result<Output, Failure> {
    runner::run(invocation, &Cancel::default())
}

fn text(invocation: &Invocation) -> String {
    let output = run(invocation).unwrap();
    assert_eq!(output.status, Status::Code(0));
    String::from_utf8(output.stdout.to_vec()).unwrap()
}

#[test]
fn the_environment_is_given_whole_in_order_and_the_last_of_a_name_wins() {
    let mut invocation = invocation(&["environment"]);
    let variable = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
    invocation.env = vec![
        variable("B", "1"),
        variable("A", "2"),
        variable("B", "3"),
        variable("EMPTY", ""),
        variable("C", "x=y\nz"),
    ];
    assert_eq!(text(&invocation), "A=2\nB=3\nEMPTY=\nC=x=y\nz\n");
}

#[test]
fn arguments_arrive_as_they_are() {
    let invocation = invocation(&["arguments", "a b", "", "*", "$HOME", "\"", "ä"]);
    assert_eq!(text(&invocation), "a b\n\n*\n$HOME\n\"\nä");
}

#[test]
fn a_megabyte_goes_in_and_comes_out_again() {
    let mut invocation = invocation(&["echo"]);
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|number| number.to_le_bytes()[1]).collect();
    invocation.stdin = Stdin::Request(bytes.clone().into());
    assert!(run(&invocation).unwrap().stdout.as_slice() == bytes);
}

#[test]
fn an_empty_request_is_an_end_of_file() {
    let mut invocation = invocation(&["count-stdin"]);
    invocation.stdin = Stdin::Request(Vec::new().into());
    assert_eq!(text(&invocation), "0");
    invocation.stdin = Stdin::Closed;
    assert_eq!(text(&invocation), "0");
}

#[test]
fn an_unattended_program_leads_a_session_and_does_not_read_our_terminal() {
    let mut invocation = invocation(&["session"]);
    let said = text(&invocation);
    let ids: Vec<&str> = said.split(' ').collect();
    assert_eq!((ids[0], ids[0]), (ids[1], ids[2]));
    invocation.args = vec!["count-stdin".into()];
    invocation.stdin = Stdin::Terminal;
    assert_eq!(text(&invocation), "0");
}

#[test]
fn an_attended_program_stays_in_our_group_and_session() {
    let mut invocation = invocation(&["session"]);
    invocation.attended = true;
    let said = text(&invocation);
    let ids: Vec<&str> = said.split(' ').collect();
    let (group, session) = group_and_session();
    assert_eq!((ids[1], ids[2]), (group.as_str(), session.as_str()));
}

/// From the kernel's own words, because either is 0 when its leader is outside our pid namespace.
fn group_and_session() -> (String, String) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, after) = stat.rsplit_once(')').unwrap();
    let mut fields = after.split_whitespace().skip(2).map(str::to_owned);
    (fields.next().unwrap(), fields.next().unwrap())
}

#[test]
fn only_the_last_of_stderr_is_kept() {
    let mut invocation = invocation(&["much-stderr"]);
    invocation.limits.stderr = 1000;
    let output = run(&invocation).unwrap();
    assert_eq!(output.stderr.as_slice(), [b'e'; 1000]);
}

#[test]
fn a_budget_may_be_all_the_time_there_is() {
    let mut invocation = invocation(&["much-stderr"]);
    invocation.budget = Duration::MAX;
    assert!(run(&invocation).is_ok());
}

#[test]
fn a_killed_program_leaves_its_stderr_and_how_long_it_took() {
    let mut invocation = invocation(&["prompt-without-terminal"]);
    // A busy machine may not let it say anything in the first of these.
    for millis in [400, 2_000, 10_000, 50_000] {
        invocation.budget = Duration::from_millis(millis);
        let failure = run(&invocation).unwrap_err();
        let left = failure.left().unwrap();
        assert!(left.took >= invocation.budget, "{:?}", left.took);
        assert!(matches!(failure, Failure::TimedOut(_)));
        if left.stderr.as_slice() == b"first line\nPassword: " {
            return;
        }
    }
    panic!("what it had said was not kept");
}

#[test]
fn what_is_too_big_is_named() {
    let mut big = invocation(&["token"]);
    big.env.push(("KUBERNETES_EXEC_INFO".into(), "x".repeat(140 << 10).into()));
    let failure = run(&big).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "the environment variable `KUBERNETES_EXEC_INFO` would be 143382 bytes, but the system \
         takes at most 131072"
    );
    let mut many = invocation(&["token", "token"]);
    many.args.push("x".repeat(131_072).into());
    let Failure::TooBig { part, size, limit } = run(&many).unwrap_err() else {
        panic!("another failure");
    };
    assert_eq!((part, size, limit), (Part::Argument(3), 131_073, 131_072));
}

#[test]
fn one_byte_less_than_the_limit_is_taken_by_the_system_too() {
    let mut invocation = invocation(&["token"]);
    // `NAME=` and the end count as well.
    invocation.env.push(("NAME".into(), "x".repeat(131_072 - 6).into()));
    assert!(run(&invocation).is_ok());
    invocation.env[0].1.push("x");
    assert!(matches!(run(&invocation), Err(Failure::TooBig { .. })));
}

#[test]
fn all_strings_together_are_measured_too() {
    let fill = |bytes: usize| {
        let mut invocation = invocation(&["token"]);
        let piece = 100_000;
        for number in 0..bytes / piece {
            invocation.env.push((format!("V{number}").into(), "x".repeat(piece).into()));
        }
        run(&invocation)
    };
    // Under the usual stack limit of 8 MiB the system takes 2 MiB.
    assert!(fill(1_800_000).is_ok());
    assert!(matches!(fill(8_000_000), Err(Failure::TooBig { part: Part::Everything, .. })));
}

#[test]
fn a_program_exchanged_after_it_was_checked_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    let install = |script: &str| {
        let new = folder.path().join("new");
        fs::write(&new, script).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &path).unwrap();
    };
    install("#!/bin/sh\necho checked\n");
    let mut invocation = Invocation::new(&path);
    invocation.file_id = Some(FileId::read(&path).unwrap());
    assert_eq!(text(&invocation), "checked\n");
    install("#!/bin/sh\necho exchanged\n");
    assert!(matches!(run(&invocation), Err(Failure::Changed)));
    fs::remove_file(&path).unwrap();
    assert!(matches!(run(&invocation), Err(Failure::NotFound)));
}

#[test]
fn a_missing_interpreter_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    fs::write(&path, "#! /opt/py\x1bthon3 -u\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let failure = run(&Invocation::new(&path)).unwrap_err();
    assert_eq!(failure.to_string(), "its interpreter `/opt/pyU+001Bthon3` was not found");
}

#[test]
fn a_program_just_being_installed_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    fs::copy(plugin::path(), &path).unwrap();
    let writer = fs::File::options().append(true).open(&path).unwrap();
    let mut invocation = Invocation::new(&path);
    invocation.args = vec!["token".into()];
    let running = support::start(invocation);
    // It is closed while the runner tries again; should that come first, the run is no worse.
    thread::yield_now();
    drop(writer);
    assert!(running.wait().unwrap().is_ok());
}

#[test]
fn a_stop_from_another_thread_ends_the_run_at_once() {
    let stop = Cancel::default();
    let remote = stop.clone();
    let (send, receive) = mpsc::channel();
    let watcher = thread::spawn(move || {
        receive.recv().unwrap();
        remote.cancel();
    });
    let mut invocation = invocation(&["prompt-without-terminal"]);
    invocation.stderr = Stderr::Sink(Arc::new(Signal(Mutex::new(send))));
    let failure = runner::run(&invocation, &stop).unwrap_err();
    assert!(matches!(failure, Failure::Cancelled(_)));
    watcher.join().unwrap();
    let again = runner::run(&invocation, &stop).unwrap_err();
    assert!(matches!(again, Failure::Cancelled(left) if left.took.is_zero()), "it stays stopped");
}

struct Signal(Mutex<mpsc::Sender<()>>);

impl Sink for Signal {
    fn line(&self, _: &str, _: &str) {
        let _ = self.0.lock().unwrap().send(());
    }
}

fn wait_until(done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it hangs");
        thread::yield_now();
    }
}

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Sink for Log {
    fn line(&self, plugin: &str, line: &str) {
        self.0.lock().unwrap().push(format!("{plugin} says {line}"));
    }

    fn prompt(&self, plugin: &str, text: &str) {
        self.0.lock().unwrap().push(format!("{plugin} asks {text}"));
    }
}

#[test]
fn a_sink_gets_lines_and_prompts_while_the_program_runs() {
    let log = Arc::new(Log::default());
    let mut invocation = invocation(&["prompt-without-terminal"]);
    invocation.name = "login".into();
    invocation.stderr = Stderr::Sink(Arc::clone(&log) as Arc<dyn Sink>);
    let running = support::start(invocation);
    wait_until(|| log.0.lock().unwrap().len() == 2);
    running.cancel.cancel();
    assert!(matches!(running.wait(), Some(Err(Failure::Cancelled(_)))));
    assert_eq!(*log.0.lock().unwrap(), ["login says first line", "login asks Password: "]);
}

#[test]
fn a_sink_that_panics_ends_the_run_and_nobody_hangs() {
    struct Bad;
    impl Sink for Bad {
        fn line(&self, _: &str, _: &str) {
            panic!("a bug in the sink");
        }
    }
    let mut invocation = invocation(&["prompt-without-terminal"]);
    invocation.stderr = Stderr::Sink(Arc::new(Bad));
    assert!(support::start(invocation).wait().is_none());
    assert_eq!(text(&self::invocation(&["print", "next"])), "next");
}

#[test]
fn nothing_secret_is_in_what_is_printed_for_debugging() {
    let mut invocation = invocation(&["print", "s3cr3t-argument"]);
    invocation.env.push(("TOKEN".into(), "s3cr3t-variable".into()));
    invocation.stdin = Stdin::Request(b"s3cr3t-request".to_vec().into());
    let output = run(&invocation).unwrap();
    assert_eq!(output.stdout.as_slice(), b"s3cr3t-argument");
    invocation.args = vec!["complain-and-exit".into(), "1".into()];
    let shown = format!("{invocation:?} {output:?}");
    assert!(shown.contains("TOKEN"));
    assert!(!shown.contains("s3cr3t"), "{shown}");
}

#[test]
fn runs_of_many_threads_do_not_disturb_each_other() {
    thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for turn in 0..20 {
                    let said = format!("{thread} {turn}");
                    assert_eq!(text(&invocation(&["print", &said])), said);
                }
            });
        }
    });
}
