//! Runs with and without a person, at a real terminal. Each test plays the person; the run itself is
//! the helper at the end of this file, started in a session of its own on that terminal.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)]
#![cfg(target_os = "linux")]

mod support;

use std::{
    env,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use keyward_process::runner::{self, Cancel, Invocation, Sink, Stderr, Stdin};
use keyward_testing::{plugin, pty::Pty};
use rustix::termios::{LocalModes, tcgetattr};

/// The variable that tells the helper what to do.
const SCENE: &str = "KEYWARD_TEST_SCENE";

/// A host that has other plans for Ctrl-C than to die of it.
const DEAF: &str = "trap '' INT; exec \"$@\"";
const PLAIN: &str = "exec \"$@\"";

fn play(scene: &str) -> Pty {
    // Found, and built, before there is a terminal to write on.
    plugin::path();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", if scene == "interrupted" { DEAF } else { PLAIN }, "sh"]);
    command.arg(env::current_exe().unwrap());
    command.args(["the_helper_on_the_terminal", "--exact", "--ignored", "--nocapture"]);
    command.env(SCENE, scene);
    Pty::spawn(&command).unwrap()
}

#[test]
fn a_person_is_asked_and_answers() {
    let mut pty = play("ask");
    pty.wait_for("Who are you? ");
    pty.type_in("alice\n").unwrap();
    pty.wait_for("result: Code(0) got alice");
    assert!(pty.finish().success());
}

#[test]
fn what_is_typed_at_a_hidden_prompt_is_not_shown() {
    let mut pty = play("hidden");
    pty.wait_for("Password: ");
    assert!(!pty.echoes().unwrap());
    pty.type_in("hunter2\n").unwrap();
    pty.wait_for("result: Code(0) got hunter2");
    assert!(pty.finish().success());
    assert!(pty.echoes().unwrap());
    assert_eq!(pty.screen().matches("hunter2").count(), 1, "only in the result");
}

#[test]
fn the_echo_is_restored_after_a_program_that_was_killed() {
    let mut pty = play("hidden-and-die");
    pty.wait_for("Password: ");
    pty.wait_for("result: Signal(9)");
    assert!(pty.echoes().unwrap(), "restored by the time the result is there");
    assert!(pty.finish().success());
}

#[test]
fn the_echo_is_restored_after_a_program_that_took_too_long() {
    // A busy machine may not let it come to its prompt in the first of these.
    for scene in ["hidden-and-slow 1", "hidden-and-slow 5", "hidden-and-slow 25"] {
        let mut pty = play(scene);
        pty.wait_for("result: it did not end within");
        assert!(pty.echoes().unwrap());
        assert!(pty.finish().success());
        if pty.screen().contains("Password: ") {
            return;
        }
    }
    panic!("it never came to its prompt");
}

#[test]
fn ctrl_c_ends_the_program_and_restores_the_echo() {
    let mut pty = play("interrupted");
    pty.wait_for("Password: ");
    pty.type_in("\x03").unwrap();
    pty.wait_for("result: Signal(2)");
    assert!(pty.echoes().unwrap());
    assert!(pty.finish().success());
}

#[test]
fn a_shut_down_ends_an_attended_run_and_restores_the_echo() {
    let mut pty = play("shut-down");
    pty.wait_for("shut down: true");
    assert!(pty.echoes().unwrap());
    assert!(pty.finish().success());
}

#[test]
fn an_unattended_program_finds_no_terminal_and_is_not_stopped_for_it() {
    let mut pty = play("unattended");
    pty.wait_for("result: Code(0) {\"kind\":\"ExecCredential\"");
    assert!(pty.finish().success());
}

#[test]
fn a_sink_leaves_the_terminal_alone() {
    let mut pty = play("sink");
    pty.wait_for("quiet: [\"first line\", \"Password: \"]");
    assert!(pty.finish().success());
    let screen = pty.screen();
    let shown = screen.split("quiet:").next().unwrap();
    assert!(!shown.contains("first line") && !shown.contains("Password"), "{shown}");
}

#[test]
fn two_programs_ask_one_after_the_other_and_others_do_not_wait_for_them() {
    for scene in ["two", "two-residents"] {
        let mut pty = play(scene);
        // One of them asks. Meanwhile one without a person runs, and one that waits gives up.
        pty.wait_for("alone: Code(0)");
        pty.wait_for("gave up: true");
        assert_eq!(pty.screen().matches("? ").count(), 1, "{}", pty.screen());
        let first = pty.screen().contains("First? ");
        let (first, second) = if first { ("First", "Second") } else { ("Second", "First") };
        pty.type_in("one\n").unwrap();
        pty.wait_for(&format!("{second}? "));
        pty.type_in("two\n").unwrap();
        pty.wait_for("all ended");
        assert!(pty.finish().success());
        for told in [format!("{first} got one"), format!("{second} got two")] {
            assert!(pty.screen().contains(&told), "{scene}: {}", pty.screen());
        }
    }
}

#[test]
#[ignore = "the other half of the tests in this file, started by them on a terminal"]
fn the_helper_on_the_terminal() {
    let Ok(scene) = env::var(SCENE) else { return };
    let (scene, seconds) = scene.split_once(' ').unwrap_or((&scene, ""));
    let mut invocation = Invocation::new(plugin::path());
    invocation.attended = true;
    invocation.stdin = Stdin::Terminal;
    invocation.stderr = Stderr::Shown;
    let args: &[&str] = match scene {
        "ask" => &["ask", "Who are you? "],
        "hidden" | "hidden-and-slow" | "interrupted" | "shut-down" => &["ask-hidden"],
        "hidden-and-die" => &["ask-hidden-and-die"],
        "unattended" => &["open-terminal"],
        "sink" => &["prompt-without-terminal"],
        "two" | "two-residents" => return two(scene == "two-residents"),
        other => panic!("no scene `{other}`"),
    };
    invocation.args = args.iter().map(Into::into).collect();
    match scene {
        "hidden-and-slow" => invocation.budget = Duration::from_secs(seconds.parse().unwrap()),
        "unattended" => invocation.attended = false,
        "sink" => return sink(invocation),
        "shut-down" => return shut_down(invocation),
        _ => {}
    }
    tell(&invocation);
}

fn tell(invocation: &Invocation) {
    match runner::run(invocation, &Cancel::default()) {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            println!("result: {:?} {said}", output.status);
        }
        Err(failure) => println!("result: {failure}"),
    }
}

fn sink(mut invocation: Invocation) {
    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);
    impl Sink for Log {
        fn line(&self, _: &str, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }
    let log = Arc::new(Log::default());
    invocation.attended = false;
    invocation.stderr = Stderr::Sink(Arc::clone(&log) as Arc<dyn Sink>);
    let running = support::start(invocation);
    while log.0.lock().unwrap().len() < 2 {
        thread::yield_now();
    }
    running.cancel.cancel();
    running.wait();
    println!("quiet: {:?}", log.0.lock().unwrap());
}

fn shut_down(invocation: Invocation) {
    let terminal = std::fs::File::open("/dev/tty").unwrap();
    let echoes = || tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO);
    let running = support::start(invocation);
    while echoes() {
        thread::yield_now();
    }
    let done = runner::shut_down(Duration::from_secs(30));
    println!("shut down: {}", done && echoes());
    assert!(running.wait().unwrap().is_err());
    let late = runner::run(&Invocation::new("/bin/true"), &Cancel::default());
    assert!(late.is_err(), "nothing runs after a shut-down");
}

/// Two who ask at once, one who stops waiting for them, and one without a person.
fn two(resident: bool) {
    const ASK: &str = r#"printf "$0? " > /dev/tty; : > "$FLAG"; read -r answer < /dev/tty; echo "$0 got $answer""#;
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("flag");
    let asking = |name: &str, stop: Cancel| {
        let mut invocation = Invocation::new("/bin/sh");
        let ask = if resident { format!("read -r line || exit; {ASK}") } else { ASK.to_owned() };
        invocation.args = ["-c", &ask, name].map(Into::into).to_vec();
        invocation.env = vec![("FLAG".into(), flag.clone().into())];
        invocation.attended = true;
        invocation.stderr = Stderr::Shown;
        thread::spawn(move || {
            if resident {
                runner::stay(invocation, &stop)?.ask(b"go", &stop).map(|line| line.to_vec())
            } else {
                runner::run(&invocation, &stop).map(|output| output.stdout.to_vec())
            }
        })
    };
    let both = ["First", "Second"].map(|name| asking(name, Cancel::default()));
    // One of them asks now, so the third can only be one who waits.
    while !flag.exists() {
        thread::sleep(Duration::from_millis(5));
    }
    let stop = Cancel::default();
    let third = asking("Third", stop.clone());
    let alone = runner::run(&Invocation::new("/bin/true"), &Cancel::default()).unwrap();
    println!("alone: {:?}", alone.status);
    stop.cancel();
    println!("gave up: {}", matches!(third.join().unwrap(), Err(runner::Failure::Cancelled(_))));
    for thread in both {
        println!("{}", String::from_utf8_lossy(&thread.join().unwrap().unwrap()).trim());
    }
    println!("all ended");
}
