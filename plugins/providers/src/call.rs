//! One start of the program.

use std::{
    cell::RefCell,
    ffi::OsString,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use keyward_plugin::{Credential, Question, Refusal, Version, serve_or};
use keyward_process::{
    clock::{SharedClock, SystemClock},
    surroundings::Surroundings,
};
use keyward_protocol::text::inline;

use crate::flags::{Flag, Flags};

/// The flag that all families have.
const EXPLAIN: &str = "--explain";

/// The flag by which `keyward wrap --native` asks whether a command line is accepted.
const CHECK: &str = "--check-arguments";

/// One start of the program: what it was called, with which arguments, and where it stands.
pub struct Call {
    /// The name that selected the family, without directories.
    pub name: String,
    /// The arguments after the name, without `--explain` and `--check-arguments`.
    pub args: Vec<OsString>,
    /// Whether `--explain` was given: the report is wanted and no credential.
    pub explains: bool,
    /// Whether only the arguments are to be checked: nothing is looked up and nothing printed.
    pub checks: bool,
    /// Environment, working directory and terminal.
    pub surroundings: Surroundings,
    /// The time.
    pub clock: SharedClock,
    /// What the family tells about its sources, if `--explain` was given.
    pub(crate) sources: RefCell<String>,
}

impl Call {
    /// A call in the surroundings of this process.
    pub fn new(name: String, args: Vec<OsString>) -> Self {
        Self::with(name, args, Surroundings::process(), Arc::new(SystemClock))
    }

    /// A call in these surroundings, at this time.
    pub fn with(
        name: String,
        mut args: Vec<OsString>,
        surroundings: Surroundings,
        clock: SharedClock,
    ) -> Self {
        let mut taken = |flag: &str| {
            let count = args.len();
            args.retain(|arg| arg != flag);
            args.len() < count
        };
        let (explains, checks) = (taken(EXPLAIN), taken(CHECK));
        Self { name, args, explains, checks, surroundings, clock, sources: RefCell::default() }
    }

    /// Answers as an exec plugin, in v1beta1 if `KUBERNETES_EXEC_INFO` is not set. With `--explain`, prints what
    /// the plugin tells about its sources instead of the credential.
    pub(crate) fn serve(
        &self,
        plugin: impl Fn(&Question) -> Result<Credential, Refusal>,
    ) -> Result<ExitCode, Refusal> {
        if self.checks {
            return Ok(ExitCode::SUCCESS);
        }
        if self.explains {
            return self.explain(|| plugin(&self.question()?).map(drop));
        }
        Ok(serve_or(Version::V1Beta1, plugin))
    }

    /// The flags of this call; `None` if `--help` is one of them, and the usage was printed.
    pub(crate) fn flags(&self, tables: &[&[Flag]], usage: &str) -> Result<Option<Flags>, Refusal> {
        let flags = Flags::read(tables, &self.args)?;
        if !flags.is_set("help") {
            return Ok(Some(flags));
        }
        self.print(usage).map(|_| None)
    }

    /// What the client asks, or a question in v1beta1 if no client asks.
    pub fn question(&self) -> Result<Question, Refusal> {
        Ok(Question::from_env_or(Version::V1Beta1)?)
    }

    /// Prints to stdout. Returns the exit code of a program that has nothing else to do.
    pub fn print(&self, text: &str) -> Result<ExitCode, Refusal> {
        let mut out = io::stdout();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Refusal::Failed(format!("cannot print: {error}")))
    }

    /// The refusal of a word that no command of the family has.
    pub(crate) fn no_command(&self, word: &str) -> Refusal {
        let word = inline(word);
        Refusal::BadConfig(format!("there is no command `{word}`\n\nhint: `{} --help`", self.name))
    }

    /// The line that `version` prints.
    pub(crate) fn version(&self) -> String {
        format!("{} (Keyward) {}", self.name, env!("CARGO_PKG_VERSION"))
    }

    /// Tells the person something that does not stop the program.
    pub fn warn(&self, text: &str) {
        tell(&format!("warning: {text}"));
    }

    /// Tells the person something.
    pub fn tell(&self, text: &str) {
        tell(text);
    }

    /// A path that a flag or a kubeconfig names; `~` is the home directory.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        let home = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                self.surroundings.home().map(|home| home.join(rest.trim_start_matches('/')))
            }
            _ => None,
        };
        home.unwrap_or_else(|| self.surroundings.absolute(Path::new(path)))
    }

    /// The value of a variable, if it is set, not empty and text.
    pub(crate) fn var(&self, name: &str) -> Option<String> {
        self.surroundings.var(name)?.into_string().ok().filter(|value| !value.is_empty())
    }
}

/// Ends the program: prints the reason of a refusal to stderr and returns its exit code.
pub(crate) fn finish(outcome: Result<ExitCode, Refusal>) -> ExitCode {
    outcome.unwrap_or_else(|refusal| {
        tell(&format!("error: {refusal}"));
        ExitCode::from(refusal.exit_code())
    })
}

/// Prints to stderr. If that fails too, nothing can be done.
fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
