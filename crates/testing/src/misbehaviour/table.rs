use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use super::{Call, Class, Misbehaviour, Stage, pids};

/// All of them.
pub const TABLE: &[Misbehaviour] = &[
    // Cannot be started.
    case("is not there", Class::NotFound, |stage, call| call.program = stage.file("missing")),
    case("is a dangling link", Class::NotFound, |stage, call| {
        call.program = stage.link("dangling", "/nonexistent/plugin");
    }),
    case("lies behind a file", Class::NotFound, |_, call| {
        call.program = call.program.join("plugin");
    }),
    case("is a directory", Class::Directory, |stage, call| {
        stage.folder.path().clone_into(&mut call.program);
    }),
    case("is a link to itself", Class::Start, |stage, call| {
        call.program = stage.link("loop", "loop");
    }),
    case("may not be executed", Class::Denied, |stage, call| {
        call.program = stage.write("unmarked", b"#!/bin/sh\nexit 0\n", 0o644);
    }),
    case("has a directory for interpreter", Class::Denied, |stage, call| {
        call.program = stage.write("directory-script", b"#!/tmp\n", 0o755);
    }),
    case("is a script without interpreter line", Class::Format, |stage, call| {
        call.program = stage.write("bare-script", b"echo '{}'\n", 0o755);
    }),
    case("is an empty file", Class::Format, |stage, call| {
        call.program = stage.write("empty", b"", 0o755);
    }),
    case("is half a program", Class::Format, |stage, call| {
        call.program = stage.write("truncated", b"\x7fELF\x02\x01\x01", 0o755);
    }),
    case("has an interpreter that is not there", Class::Interpreter, |stage, call| {
        call.program = stage.write("lost-script", b"#!/nonexistent/python3 -u\n", 0o755);
    }),
    case("has an interpreter with a carriage return", Class::Interpreter, |stage, call| {
        call.program = stage.write("dos-script", b"#!/bin/sh\r\nexit 0\r\n", 0o755);
    }),
    case("is being written", Class::Busy, |stage, call| {
        let copy = stage.copy_plugin("busy", call);
        call.hold.extend(File::options().append(true).open(&copy));
        call.program = copy;
    }),
    case("gets a variable of 200 KiB", Class::TooBig, |_, call| {
        call.env.push(("KUBERNETES_EXEC_INFO".into(), "x".repeat(200 << 10).into()));
    }),
    case("gets an argument of 200 KiB", Class::TooBig, |_, call| {
        call.args = vec!["token".into(), "x".repeat(200 << 10).into()];
    }),
    case("gets 8 MiB in a hundred variables", Class::TooBig, |_, call| {
        let variable = |number| (format!("V{number}").into(), "x".repeat(80 << 10).into());
        call.env.extend((0..100).map(variable));
    }),
    case("gets NUL in an argument", Class::Nul, |_, call| {
        call.args = vec!["token".into(), "a\0b".into()];
    }),
    case("gets NUL in a variable", Class::Nul, |_, call| {
        call.env.push(("BROKEN".into(), "a\0b".into()));
    }),
    // Ends badly.
    mode("exits with 1", Class::Exit(1), &["exit", "1"]),
    mode("exits with 127", Class::Exit(127), &["exit", "127"]),
    mode("exits with 255", Class::Exit(255), &["exit", "255"]),
    mode("answers and fails", Class::Exit(1), &["answer-and-exit", "1"]),
    mode("fails with control characters on stderr", Class::Exit(2), &["complain-and-exit", "2"]),
    mode("kills itself", Class::Signal(9), &["kill-self", "9"]),
    mode("crashes", Class::Signal(6), &["kill-self", "6"]),
    mode("is terminated by somebody", Class::Signal(15), &["kill-self", "15"]),
    case("breaks its own pipe", Class::Signal(13), |_, call| {
        // Fatal only for a program that was started with this signal as programs expect it.
        call.shell("kill -s PIPE $$");
    }),
    // Answers nonsense.
    mode("prints nothing", Class::BadAnswer, &["nothing"]),
    mode("prints half an answer", Class::BadAnswer, &["half"]),
    mode("prints something before the answer", Class::BadAnswer, &["noise-before"]),
    mode("prints what is not UTF-8", Class::BadAnswer, &["not-utf8"]),
    mode("prints NUL", Class::BadAnswer, &["nul"]),
    mode("prints a program", Class::BadAnswer, &["binary"]),
    mode("answers another question", Class::BadAnswer, &["other-kind"]),
    case("closes stdout at once", Class::BadAnswer, |_, call| call.shell("exec >&-; exit 0")),
    // Never ends.
    mode("hangs", Class::TimedOut, &["hang"]),
    mode("spins", Class::TimedOut, &["spin"]),
    mode("answers and hangs", Class::TimedOut, &["answer-and-hang"]),
    mode("answers, closes its pipes and hangs", Class::TimedOut, &["answer-close-and-hang"]),
    mode("closes its pipes and hangs", Class::TimedOut, &["close-and-hang"]),
    mode("stops itself", Class::TimedOut, &["stop-self"]),
    mode("drips without end", Class::TimedOut, &["endless-drip"]),
    mode("complains without end", Class::TimedOut, &["endless-stderr"]),
    mode("hangs at a prompt", Class::TimedOut, &["prompt-without-terminal"]),
    mode("hangs with ten children", Class::TimedOut, &["family-hangs"]),
    mode("hangs with an orphan", Class::TimedOut, &["orphan-hangs", "0"]),
    mode("hangs with a child on no pipe", Class::TimedOut, &["silent-family-hangs"]),
    case("ignores SIGTERM", Class::TimedOut, |_, call| {
        call.shell("trap '' TERM; exec \"$0\" hang");
    }),
    case("ignores SIGTERM and stops itself", Class::TimedOut, |_, call| {
        call.shell("trap '' TERM HUP INT CONT; exec \"$0\" stop-self");
    }),
    case("has a child that ignores SIGTERM", Class::TimedOut, |_, call| {
        call.shell("(trap '' TERM; exec \"$0\" hang) & exec \"$0\" hang");
    }),
    case("restarts itself when terminated", Class::TimedOut, |_, call| {
        call.shell("trap '\"$0\" hang & exit 0' TERM; \"$0\" hang & wait");
    }),
    mode("is not waited for any more", Class::Stopped, &["hang"]),
    mode("is not waited for while it writes", Class::Stopped, &["endless-drip"]),
    // Prints too much.
    mode("prints without end", Class::TooMuchOutput, &["endless-stdout"]),
    mode("prints and complains without end", Class::TooMuchOutput, &["endless-both"]),
    mode("prints 32 MiB", Class::TooMuchOutput, &["much-stdout"]),
    // Is odd, but answers.
    mode("is fine", Class::Good, &["token"]),
    mode("drips", Class::Good, &["drip"]),
    mode("complains 1 MiB", Class::Good, &["much-stderr"]),
    case("does not read 1 MiB of input", Class::Good, |_, call| {
        call.say(&["token"]);
        call.stdin = Some(vec![b'i'; 1 << 20]);
    }),
    case("closes stdin at once", Class::Good, |_, call| {
        call.say(&["close-stdin"]);
        call.stdin = Some(vec![b'i'; 1 << 20]);
    }),
    case("answers before it reads", Class::Good, |_, call| {
        call.say(&["read-late"]);
        call.stdin = Some(vec![b'i'; 1 << 20]);
    }),
    case("leaves a child on stdout", Class::Good, |_, call| call.leave(&["hold-stdout"])),
    case("leaves a child on stderr", Class::Good, |_, call| call.leave(&["hold-stderr"])),
    case("leaves a child on both", Class::Good, |_, call| call.leave(&["hold-both"])),
    case("fails and leaves a child on both", Class::Exit(3), |_, call| {
        call.leave(&["hold-and-exit", "3"]);
    }),
    case("leaves a daemon on both", Class::Good, |_, call| call.leave(&["daemon"])),
    mode("lets a child answer after its end", Class::Good, &["late-writer"]),
    case("looks for descriptors that are not its own", Class::Good, |_, call| {
        call.say(&["descriptors"]);
        call.args.extend(pids::inherited().into_iter().map(Into::into));
    }),
    mode("looks for blocked signals", Class::Good, &["signals"]),
    mode("insists on a terminal", Class::Good, &["open-terminal"]),
    case("deletes itself", Class::Good, |stage, call| {
        call.program = stage.copy_plugin("deleted", call);
        call.say(&["delete-self"]);
    }),
];

const fn case(name: &'static str, class: Class, arrange: fn(&Stage, &mut Call)) -> Misbehaviour {
    Misbehaviour { name, class, arrange: Arrange::Staged(arrange) }
}

const fn mode(name: &'static str, class: Class, args: &'static [&'static str]) -> Misbehaviour {
    Misbehaviour { name, class, arrange: Arrange::Told(args) }
}

/// How a call is changed into that of a case.
pub(super) enum Arrange {
    /// With files or input.
    Staged(fn(&Stage, &mut Call)),
    /// By these arguments alone.
    Told(&'static [&'static str]),
}

impl Call {
    pub(super) fn say(&mut self, args: &[&str]) {
        self.args = args.iter().map(Into::into).collect();
    }

    fn leave(&mut self, args: &[&str]) {
        self.say(args);
        self.leaves = true;
    }

    /// Runs the script with the plugin as `$0`.
    fn shell(&mut self, script: &str) {
        let plugin = std::mem::replace(&mut self.program, PathBuf::from("/bin/sh"));
        self.args = vec!["-c".into(), script.into(), plugin.into()];
    }
}

impl Stage {
    fn write(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.file(name);
        require(fs::write(&path, content));
        require(fs::set_permissions(&path, fs::Permissions::from_mode(mode)));
        path
    }

    fn link(&self, name: &str, target: &str) -> PathBuf {
        let path = self.file(name);
        let _ = fs::remove_file(&path);
        require(symlink(target, &path));
        path
    }

    /// The plugin under its own name, in a directory of its own.
    fn copy_plugin(&self, folder: &str, call: &Call) -> PathBuf {
        let folder = self.file(folder);
        require(fs::create_dir_all(&folder));
        let copy = folder.join(call.program.file_name().unwrap_or_default());
        require(fs::copy(&call.program, &copy));
        copy
    }
}

fn require<T>(result: std::io::Result<T>) {
    if let Err(error) = result {
        panic!("the stage could not be set: {error}");
    }
}
