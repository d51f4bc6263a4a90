//! The program `keyward-providers`, started as people and clients start it.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The built program.
pub(crate) fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_keyward-providers"))
}

/// A program in Go that `cargo xtask judges` built.
#[cfg(feature = "go-judges")]
pub(crate) fn judge(name: &str) -> PathBuf {
    let program = path().ancestors().nth(2).unwrap().join("judges").join(name);
    assert!(
        program.is_file(),
        "`{}` does not exist: `cargo xtask judges` builds it",
        program.display()
    );
    program
}

/// A run of the program in an environment of its own.
pub(crate) struct Run(Command);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The program under another name, with nothing in its environment but a `PATH`.
    pub(crate) fn named(name: &str) -> Self {
        let mut command = Command::new(path());
        command.arg0(name).env_clear().env("PATH", "/usr/bin:/bin");
        Self(command)
    }

    /// Another program, in the same way.
    #[cfg(feature = "go-judges")]
    pub(crate) fn of(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin");
        Self(command)
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.0.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn envs(mut self, variables: &BTreeMap<String, String>) -> Self {
        self.0.envs(variables);
        self
    }

    pub(crate) fn directory(mut self, directory: &Path) -> Self {
        self.0.current_dir(directory);
        self
    }

    pub(crate) fn run(self) -> Ended {
        self.with_input(b"")
    }

    /// Runs it with this on stdin.
    pub(crate) fn with_input(mut self, input: &[u8]) -> Ended {
        self.0.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.0.spawn().unwrap();
        // A program that does not read its input may have ended already.
        let _ = child.stdin.take().unwrap().write_all(input);
        Ended::of(&child.wait_with_output().unwrap())
    }
}

impl Ended {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// What it printed, if it succeeded.
    pub(crate) fn printed(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }
}

#[test]
fn without_a_provider_the_program_says_which_there_are() {
    let ended = Run::named("keyward-providers").run();
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("keyward-eks"), "{ended:?}");
    let help = Run::named("anything").args(["--help"]).run().printed();
    assert!(help.contains("install DIR"), "{help}");
    let version = Run::named("keyward-providers").args(["--version"]).run().printed();
    assert_eq!(version, format!("keyward-providers {}\n", env!("CARGO_PKG_VERSION")));
    let ended = Run::named("keyward-providers").args(["nonsense"]).run();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(
        ended.stderr.starts_with("error: `keyward-providers` has no provider `nonsense`"),
        "{ended:?}"
    );
}

#[cfg(feature = "eks")]
#[test]
fn the_name_or_the_first_argument_selects_the_provider() {
    for run in [
        Run::named("/usr/local/bin/keyward-eks").args(["--help"]),
        Run::named("keyward-providers").args(["eks", "--help"]),
        Run::named("keyward-providers").args(["keyward-eks", "--help"]),
    ] {
        let help = run.run().printed();
        assert!(help.contains("Usage: keyward-eks "), "{help}");
    }
    for run in [
        Run::named("aws-iam-authenticator").args(["--help"]),
        Run::named("keyward-providers").args(["aws-iam-authenticator", "help"]),
    ] {
        let help = run.run().printed();
        assert!(help.contains("Usage: aws-iam-authenticator token"), "{help}");
    }
}
