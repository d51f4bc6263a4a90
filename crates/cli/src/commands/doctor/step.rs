//! The data of `keyward doctor`: what each step found. `text` and `json` show it.
//!
//! `docs/doctor.md` documents the JSON; fields that do not apply are left out.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_host::{Error, kubeconfig::Place};
use keyward_process::surroundings::Surroundings;
use serde::Serialize;

use super::names::Names;
use crate::{
    duration,
    failure::{Failure, Note, SERVER_SAID},
};

/// The most lines of a plugin's stderr that a step shows: a report has one page.
const MOST_SAID: usize = 10;

/// Shorter times are not shown.
const SHORTEST: Duration = Duration::from_millis(1);

/// The things that are checked. The names are part of the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Check {
    Kubeconfig,
    Entry,
    Policy,
    Program,
    Run,
    Answer,
    Proxy,
    Dns,
    Tcp,
    Tls,
    Response,
    Clock,
    Identity,
    Wrap,
    Agent,
    KeywardProxy,
    Traps,
    Providers,
    Match,
    Login,
}

/// What a step found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// Works, but may surprise.
    Note,
    Fault,
    /// Not checked, because an earlier step failed.
    Skipped,
}

/// One step.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step {
    #[serde(rename = "step")]
    pub(super) check: Check,
    pub(super) state: State,
    /// What was found; of a fault, its cause.
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) details: Vec<Note>,
    /// A command for a shell that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
    /// What to do, where no command does it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
    /// A Go duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) took: Option<String>,
}

/// All steps, in order.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) steps: Vec<Step>,
    /// What `--redact` hides.
    pub(super) names: Names,
}

/// The name in JSON, for text too.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Step {
    pub(super) fn ok(check: Check, message: impl Into<String>) -> Self {
        Self::new(check, State::Ok, message)
    }

    pub(super) fn note(check: Check, message: impl Into<String>) -> Self {
        Self::new(check, State::Note, message)
    }

    pub(super) fn fault(check: Check, message: impl Into<String>) -> Self {
        Self::new(check, State::Fault, message)
    }

    /// A step that could not be made.
    pub(super) fn skipped(check: Check, needs: Check) -> Self {
        Self::new(check, State::Skipped, format!("because `{needs}` did not succeed"))
    }

    /// The fault that a failure is, with its facts and what a plugin wrote.
    pub(super) fn failed(check: Check, failure: &Failure) -> Self {
        let mut step = Self::fault(check, failure.message());
        for (label, text) in failure.notes() {
            // The step has a file and line of its own.
            if label != Error::NEEDED_BY {
                step = step.detail(label, text);
            }
        }
        if let Some(said) = failure.said() {
            step = step.said(said);
        }
        step.advice = failure.advice().map(str::to_owned);
        step
    }

    fn new(check: Check, state: State, message: impl Into<String>) -> Self {
        Self {
            check,
            state,
            message: message.into(),
            file: None,
            line: None,
            details: Vec::new(),
            fix: None,
            advice: None,
            took: None,
        }
    }

    fn texts(&mut self) -> Vec<&mut String> {
        let mut texts = vec![&mut self.message];
        texts.extend(self.details.iter_mut().map(|detail| &mut detail.text));
        texts.extend(&mut self.fix);
        texts.extend(&mut self.advice);
        texts
    }

    /// Sets where it stands.
    pub(super) fn at(mut self, place: &Place) -> Self {
        self.file = place.file.as_deref().map(Path::to_owned);
        self.line = Some(place.line).filter(|line| *line > 0);
        self
    }

    /// Sets the file it is about.
    pub(super) fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    pub(super) fn detail(mut self, label: impl Into<String>, text: impl Into<String>) -> Self {
        self.details.push(Note { label: label.into(), text: text.into() });
        self
    }

    /// Adds the last lines of what a plugin wrote to stderr.
    pub(super) fn said(mut self, stderr: &str) -> Self {
        let lines: Vec<&str> = stderr.trim().lines().collect();
        for line in &lines[lines.len().saturating_sub(MOST_SAID)..] {
            self = self.detail(SAID, *line);
        }
        self
    }

    pub(super) fn fix(mut self, command: impl Into<String>) -> Self {
        self.fix = Some(command.into());
        self
    }

    /// Sets the command that fixes it alone: no advice is needed.
    pub(super) fn fix_alone(self, command: impl Into<String>) -> Self {
        Self { advice: None, ..self.fix(command) }
    }

    /// Sets what to do if nothing says so yet.
    pub(super) fn usual_advice(self, advice: &str) -> Self {
        if self.advice.is_some() { self } else { self.advice(advice) }
    }

    /// Gives the step another state and message. Details and time stay; place, fix and advice go.
    pub(super) fn turned(self, state: State, message: impl Into<String>) -> Self {
        Self { details: self.details, took: self.took, ..Self::new(self.check, state, message) }
    }

    pub(super) fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    pub(super) fn took(mut self, took: Duration) -> Self {
        self.took = (took >= SHORTEST).then(|| duration::show(took));
        self
    }
}

/// The label of a line that a plugin wrote.
pub(super) const SAID: &str = "stderr";

impl Report {
    pub(super) fn add(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// Adds steps that could not be made.
    pub(super) fn skip(&mut self, checks: &[Check], needs: Check) {
        self.steps.extend(checks.iter().map(|check| Step::skipped(*check, needs)));
    }

    /// Replaces names and addresses by placeholders. What plugins and servers wrote is left out: it may
    /// name anything.
    pub(super) fn hide_names(&mut self, surroundings: &Surroundings) {
        if let Some(home) = surroundings.home() {
            self.names.add_as(&home.to_string_lossy(), "~");
        }
        for step in &mut self.steps {
            step.details.retain(|detail| ![SAID, SERVER_SAID].contains(&detail.label.as_str()));
        }
        let texts: Vec<String> =
            self.steps.iter_mut().flat_map(Step::texts).map(|t| t.clone()).collect();
        for text in texts {
            self.names.learn(&text);
        }
        for step in &mut self.steps {
            for text in step.texts() {
                *text = self.names.hide(text);
            }
            step.file =
                step.file.take().map(|file| self.names.hide(&file.to_string_lossy()).into());
        }
    }

    /// The checks that failed, each once, in order.
    pub(super) fn faults(&self) -> Vec<Check> {
        let mut faults: Vec<Check> = Vec::new();
        for step in self.steps.iter().filter(|step| step.state == State::Fault) {
            if !faults.contains(&step.check) {
                faults.push(step.check);
            }
        }
        faults
    }

    /// Whether a check failed.
    pub(super) fn has_fault(&self, check: Check) -> bool {
        self.faults().contains(&check)
    }

    /// The first fault of a check.
    pub(super) fn fault_mut(&mut self, check: Check) -> Option<&mut Step> {
        self.steps.iter_mut().find(|step| step.check == check && step.state == State::Fault)
    }
}
