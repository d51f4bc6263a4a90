//! Errors for people: each way a plugin can fail has its own words.

use keyward_process::runner::{Failure, Output, Status, Stderr};

use super::{Role, RunSettings, VariableOrigin};
use crate::{
    Error, Kind,
    error::inline,
    redact::{Redactor, without_first_line},
};

impl RunSettings<'_> {
    /// The plugin was not started, or we ended it.
    pub fn not_run(&self, failure: Failure) -> Error {
        let it = self.it();
        let error = match &failure {
            Failure::NotFound => return Error::new(Kind::NotFound, format!("{it} was not found")),
            Failure::TimedOut(_) => {
                Error::new(Kind::TimedOut, format!("{it} did not answer within {:?}", self.budget))
            }
            Failure::Changed => Error::new(
                Kind::NotAllowed,
                format!("the file of {it} was changed after it was checked"),
            ),
            Failure::TooMuchOutput(_) => {
                Error::new(Kind::BadAnswer, format!("{it} printed too much"))
                    .note("allowed are", format!("{} bytes", self.limits.stdout))
            }
            Failure::Gone(_) => {
                Error::new(Kind::Failed, format!("resident {it} ended before it answered, twice"))
                    .with_hint(
                        "if the signer does not know resident mode, remove `resident` from its \
                         configuration",
                    )
            }
            Failure::Cancelled(_) => {
                Error::new(Kind::Failed, format!("{it} was killed: the request was cancelled"))
            }
            Failure::Nul(_) => Error::new(Kind::BadConfig, format!("{it} cannot be started")),
            _ => Error::new(Kind::Failed, format!("{it} cannot be started")),
        };
        match (failure.left(), &failure) {
            // What the words above say already is not said again as their cause.
            (Some(left), _) => self.with_stderr(error, &left.stderr, &left.stdout),
            (None, Failure::Changed) => error,
            (None, _) => error.because(failure),
        }
    }

    /// The plugin ended by itself, and not well.
    pub fn ended(&self, status: Status, stderr: &[u8], stdout: &[u8]) -> Error {
        let how = match status {
            Status::Code(code) => format!("failed with exit code {code}"),
            Status::Signal(signal) => {
                format!("was ended by signal {signal}{}", signal_name(signal))
            }
        };
        let error = Error::new(Kind::Failed, format!("{} {how}", self.it()));
        self.with_stderr(error, stderr, stdout)
    }

    /// The plugin answered, but nothing that can be used.
    pub fn bad_answer(&self, what: &str, output: &Output) -> Error {
        let error = Error::new(Kind::BadAnswer, format!("{} {what}", self.it()));
        self.with_stderr(error, &output.stderr, &output.stdout)
    }

    pub(crate) fn with_stderr(&self, error: Error, stderr: &[u8], stdout: &[u8]) -> Error {
        let said = self.redacted(stderr, stdout);
        if said.trim().is_empty() {
            return error;
        }
        // Whether somebody has seen it already.
        error.with_stderr(said).with_stderr_shown(!matches!(self.stderr, Stderr::Kept))
    }

    /// What a plugin wrote to stderr, without any secret we know of: those of the run, and of its own
    /// answer.
    pub fn redacted(&self, stderr: &[u8], stdout: &[u8]) -> String {
        let mut redactor = self.redactor();
        // Most words of an image credential provider's answer are names of registries.
        if self.spec.role != Role::Image || !redactor.add_passwords(stdout) {
            redactor.add_answer(stdout);
        }
        let cut = stderr.len() >= self.limits.stderr;
        redactor.apply(if cut { without_first_line(stderr) } else { stderr })
    }

    /// Hides what a plugin was told, beside what this process handed out before: its configured
    /// variables, those of ours that are called secret, its arguments, and what its protocol adds.
    pub(crate) fn redactor(&self) -> Redactor {
        let mut redactor = Redactor::default();
        for variable in &self.environment {
            let (name, value) = (variable.name.to_string_lossy(), variable.value.to_string_lossy());
            match variable.origin {
                VariableOrigin::Inherited => redactor.add_inherited(&name, &value),
                VariableOrigin::Configured | VariableOrigin::Set => redactor.add_configured(&value),
                VariableOrigin::Request => {}
            }
        }
        redactor.add_args(self.spec.args);
        redactor.add_all(&self.secrets);
        redactor
    }

    /// The plugin, as messages name it.
    fn it(&self) -> String {
        format!("{} `{}`", self.spec.role.name(), inline(self.spec.name))
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}
