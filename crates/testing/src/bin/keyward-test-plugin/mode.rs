//! The ways to misbehave.

use std::{
    fs,
    io::{self, BufRead, Write},
    process::ExitCode,
    time::Duration,
};

use rustix::{
    process::{Signal, getpid, kill_process, setsid},
    termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr},
};

use crate::parts::{
    answer, close_stderr, close_stdout, complain, flood, hang, read_all, say, sleep, start, text,
};

/// Behaves as `mode` says. An unknown one is a mistake of the test, told by exit code 99.
pub(crate) fn run(mode: &str, rest: &[String]) -> ExitCode {
    match mode {
        // Answers, good and bad.
        "token" => answer(),
        "nothing" => {}
        "half" => say(&text().as_bytes()[..text().len() / 2]),
        "noise-before" => say(format!("logging in...\n{}", text()).as_bytes()),
        "not-utf8" => say(b"{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"\xff\xfe\"}}"),
        "nul" => nul(),
        "binary" => say(&[0x7f, b'E', b'L', b'F', 0, 1, 2, 3, 0xff]),
        "other-kind" => say(br#"{"kind":"Pod","apiVersion":"v1"}"#),
        "drip" => drip(Duration::from_millis(1)),
        "print" => say(rest.join(" ").as_bytes()),
        "echo" => return echo(),
        "environment" => environment(),
        "arguments" => say(rest.join("\n").as_bytes()),

        // Ends.
        "exit" => return exit(rest),
        "answer-and-exit" => {
            answer();
            return exit(rest);
        }
        "complain-and-exit" => {
            complain(b"\x1b[31mno\xff\0way\x07\n");
            return exit(rest);
        }
        "kill-self" => signal(rest),
        "delete-self" => {
            let _ = std::env::current_exe().and_then(fs::remove_file);
            answer();
        }

        // Never ends.
        "hang" | "hold" => hang(),
        "answer-and-hang" => {
            answer();
            hang();
        }
        "answer-close-and-hang" => {
            answer();
            close_stdout();
            close_stderr();
            hang();
        }
        "close-and-hang" => {
            close_stdout();
            close_stderr();
            hang();
        }
        "stop-self" => {
            let _ = kill_process(getpid(), Signal::STOP);
            hang();
        }
        "endless-drip" => loop {
            drip(Duration::from_millis(1));
        },
        "spin" => loop {
            std::hint::spin_loop();
        },

        // Floods.
        "endless-stdout" => flood(io::stdout().lock()),
        "endless-stderr" => flood(io::stderr().lock()),
        "endless-both" => {
            std::thread::spawn(|| flood(io::stderr().lock()));
            flood(io::stdout().lock());
        }
        "much-stderr" => {
            complain(&vec![b'e'; 1 << 20]);
            answer();
        }
        "much-stdout" => say(&vec![b' '; 32 << 20]),

        // Input.
        "close-stdin" => {
            if let Ok(null) = fs::File::open("/dev/null") {
                let _ = rustix::stdio::dup2_stdin(null);
            }
            answer();
        }
        "count-stdin" => say(read_all().to_string().as_bytes()),
        "read-late" => {
            answer();
            close_stdout();
            return ExitCode::from(u8::from(read_all() == 0));
        }

        // Families.
        "hold-stdout" => left_behind("hold", true, false),
        "hold-stderr" => left_behind("hold", false, true),
        "hold-both" => left_behind("hold", true, true),
        "hold-and-exit" => {
            let _ = start("hold", true, true);
            return exit(rest);
        }
        "daemon" => left_behind("hold-in-own-session", true, true),
        "late-writer" => {
            let _ = start("write-late", true, false);
        }
        "write-late" => {
            sleep(Duration::from_millis(20));
            answer();
        }
        "hold-in-own-session" => {
            let _ = setsid();
            hang();
        }
        "family-hangs" => {
            for _ in 0..10 {
                let _ = start("hold", true, true);
            }
            hang();
        }
        "orphan-hangs" => {
            // The one in between ends; its child stays in the group.
            let _ = start("hold-and-exit", true, true).map(|mut child| child.wait());
            hang();
        }
        "silent-family-hangs" => {
            let _ = start("hold", false, false);
            hang();
        }

        // What it was given.
        "descriptors" => return descriptors(rest),
        "signals" => return signals(),
        "session" => return session(),
        "open-terminal" => return open_terminal(),

        // At a terminal.
        "ask" => return ask(rest),
        "ask-hidden" => return ask_hidden(false),
        "ask-hidden-and-die" => return ask_hidden(true),
        "prompt-without-terminal" => {
            complain(b"first line\nPassword: ");
            hang();
        }
        _ => return ExitCode::from(99),
    }
    ExitCode::SUCCESS
}

/// The answer with NUL in its last text.
fn nul() {
    let mut answer = text();
    if let Some(at) = answer.rfind(":\"") {
        answer.insert_str(at + 2, "a\0b");
    }
    say(answer.as_bytes());
}

fn number(rest: &[String]) -> u8 {
    rest.first().and_then(|text| text.parse().ok()).unwrap_or(98)
}

fn exit(rest: &[String]) -> ExitCode {
    ExitCode::from(number(rest))
}

fn signal(rest: &[String]) {
    if let Some(signal) = Signal::from_named_raw(i32::from(number(rest))) {
        let _ = kill_process(getpid(), signal);
    }
    hang();
}

/// The answer in pieces of one byte.
fn drip(pause: Duration) {
    for byte in text().as_bytes() {
        say(&[*byte]);
        sleep(pause);
    }
}

fn echo() -> ExitCode {
    let copied = io::copy(&mut io::stdin().lock(), &mut io::stdout().lock());
    ExitCode::from(u8::from(copied.is_err()))
}

fn environment() {
    #[expect(clippy::disallowed_methods, reason = "a program of its own")]
    for (name, value) in std::env::vars_os() {
        say(name.as_encoded_bytes());
        say(b"=");
        say(value.as_encoded_bytes());
        say(b"\n");
    }
}

/// Answers, and leaves a process behind that holds our streams.
fn left_behind(mode: &str, stdout: bool, stderr: bool) {
    answer();
    let _ = start(mode, stdout, stderr);
}

/// Answers if nothing but the standard streams and the named descriptors is open.
fn descriptors(expected: &[String]) -> ExitCode {
    let leaked = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_string_lossy().into_owned();
        // The one that reads this directory shows up too.
        let reader = fs::read_link(entry.path()).ok()?.starts_with("/proc");
        (!reader && !expected.contains(&number)).then_some(())
    };
    let leaked = fs::read_dir("/proc/self/fd").map_or(0, |dir| dir.filter_map(leaked).count());
    if leaked == 0 {
        answer();
    }
    ExitCode::from(u8::try_from(leaked).unwrap_or(u8::MAX))
}

/// Answers if no signal was blocked when we were started.
fn signals() -> ExitCode {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let blocked = status
        .lines()
        .find_map(|line| line.strip_prefix("SigBlk:"))
        .is_none_or(|mask| mask.trim().contains(|digit| digit != '0'));
    if !blocked {
        answer();
    }
    ExitCode::from(u8::from(blocked))
}

/// Says its own, its group's and its session's id.
fn session() -> ExitCode {
    // From the kernel's own words, because group and session are 0 when their leader is outside our
    // pid namespace.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let Some((_, after)) = stat.rsplit_once(')') else { return ExitCode::FAILURE };
    let ids: Vec<&str> = after.split_whitespace().skip(2).take(2).collect();
    say(format!("{} {}", getpid().as_raw_nonzero(), ids.join(" ")).as_bytes());
    ExitCode::SUCCESS
}

/// A password prompt that insists on the terminal: where there is one it waits for an answer.
fn open_terminal() -> ExitCode {
    if let Ok(terminal) = fs::File::open("/dev/tty") {
        let _ = io::BufReader::new(terminal).read_line(&mut String::new());
        return ExitCode::FAILURE;
    }
    answer();
    ExitCode::SUCCESS
}

/// Asks on stderr, reads stdin, answers with what was typed.
fn ask(rest: &[String]) -> ExitCode {
    complain(rest.first().map_or("Name: ", String::as_str).as_bytes());
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    if !matches!(read, Ok(1..)) {
        return ExitCode::FAILURE;
    }
    say(format!("got {}", line.trim_end()).as_bytes());
    ExitCode::SUCCESS
}

/// Asks without echo, on the terminal itself as `getpass` does. Told to die, it does so with the
/// echo still off.
fn ask_hidden(die: bool) -> ExitCode {
    let Ok(mut terminal) = fs::OpenOptions::new().read(true).write(true).open("/dev/tty") else {
        return ExitCode::from(7);
    };
    let Ok(before) = tcgetattr(&terminal) else {
        return ExitCode::from(8);
    };
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    let _ = tcsetattr(&terminal, OptionalActions::Now, &hidden);
    let _ = terminal.write_all(b"Password: ");
    if die {
        let _ = kill_process(getpid(), Signal::KILL);
    }
    let mut line = String::new();
    let mut reader = io::BufReader::new(&terminal);
    let _ = reader.read_line(&mut line);
    let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
    say(format!("got {}", line.trim_end()).as_bytes());
    ExitCode::SUCCESS
}
