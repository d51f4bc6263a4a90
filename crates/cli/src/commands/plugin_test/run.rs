//! Runs the plugin, once or many times at once.

use std::{ffi::OsString, path::PathBuf, thread, time::Duration};

use keyward_process::runner::{self, Cancel, Invocation, Stdin};
use keyward_protocol::exec::{Form, REQUEST_VARIABLE};
use zeroize::Zeroizing;

use super::{
    answer::{self, Given},
    outcome::Outcome,
    question::Question,
};
use crate::progress::Progress;

/// The plugin under test.
pub(super) struct Plugin {
    pub(super) program: PathBuf,
    /// The plugin's name on the command line.
    pub(super) name: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    /// How long one run may take.
    pub(super) budget: Duration,
    /// How many runs to start at the same time.
    pub(super) at_once: usize,
    /// The form of the requests.
    pub(super) form: Form,
    /// Shown while the questions are asked.
    pub(super) progress: Progress,
    /// What to type at its prompts.
    pub(super) answers: Vec<Zeroizing<String>>,
}

/// One run and its result.
pub(super) struct Run<A> {
    /// The question's name.
    pub(super) name: String,
    pub(super) outcome: Outcome<A>,
    /// What people saw: stderr, or everything that appeared on the terminal.
    pub(super) shown: Zeroizing<Vec<u8>>,
    pub(super) took: Duration,
}

impl Plugin {
    /// Asks without a person: no terminal, empty stdin.
    pub(super) fn alone(&self, question: &Question) -> Run<Given> {
        self.ask(question, Stdin::Closed)
    }

    /// Asks with data on stdin that is not for the plugin.
    pub(super) fn with_stdin(&self, question: &Question, bytes: &str) -> Run<Given> {
        self.ask(question, Stdin::Request(Zeroizing::new(bytes.as_bytes().to_vec())))
    }

    fn ask(&self, question: &Question, stdin: Stdin) -> Run<Given> {
        self.progress.say(&question.name);
        let text = question.text.as_deref();
        let invocation = Invocation { stdin, ..self.invocation(REQUEST_VARIABLE, text) };
        let result = runner::run(&invocation, &Cancel::default());
        Run::new(question, result)
    }

    /// Asks many times at once.
    pub(super) fn crowd<T: Send>(&self, ask: impl Fn() -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let runs: Vec<_> = (0..self.at_once).map(|_| scope.spawn(&ask)).collect();
            runs.into_iter().filter_map(|run| run.join().ok()).collect()
        })
    }

    /// An unattended run with this request in this variable.
    pub(super) fn invocation(&self, variable: &str, request: Option<&str>) -> Invocation {
        let mut env = self.env.clone();
        env.retain(|(name, _)| name != variable);
        env.extend(request.map(|request| (variable.into(), request.into())));
        Invocation {
            name: self.name.clone(),
            args: self.args.clone(),
            env,
            budget: self.budget,
            ..Invocation::new(self.program.clone())
        }
    }
}

impl<A> Run<A> {
    /// Judges the result of a run; `read` parses the stdout of one that exited with 0.
    pub(super) fn judge(
        name: impl Into<String>,
        result: Result<runner::Output, runner::Failure>,
        read: impl FnOnce(&[u8]) -> Outcome<A>,
    ) -> Self {
        let outcome = Outcome::judge(&result, read);
        let (shown, took) = match result {
            Ok(output) => (output.stderr, output.took),
            Err(failure) => match failure.left() {
                Some(left) => (left.stderr.clone(), left.took),
                None => (Zeroizing::default(), Duration::ZERO),
            },
        };
        Self { name: name.into(), outcome, shown, took }
    }

    /// A finding followed by the last line of the plugin's stderr, made safe to print.
    pub(super) fn told(&self, what: &str) -> String {
        match last_words(&self.shown) {
            Some(words) => format!("{what}; it says: {words}"),
            None => what.to_owned(),
        }
    }
}

impl Run<Given> {
    /// Judges the result of a run with this question.
    pub(super) fn new(
        question: &Question,
        result: Result<runner::Output, runner::Failure>,
    ) -> Self {
        Self::judge(&question.name, result, |stdout| answer::read(stdout, question.version))
    }

    /// Judges a run whose stderr went to a terminal.
    pub(super) fn on_terminal(
        question: &Question,
        result: Result<runner::Output, runner::Failure>,
        screen: Zeroizing<Vec<u8>>,
    ) -> Self {
        let result = result.map(|output| runner::Output { stderr: screen.clone(), ..output });
        Self { shown: screen, ..Self::new(question, result) }
    }
}

/// The last line that was shown, made safe to print.
fn last_words(shown: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(shown);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let mut line = keyward_protocol::text::clean(line);
    if let Some((end, _)) = line.char_indices().nth(160) {
        line.truncate(end);
        line.push('…');
    }
    Some(line)
}
