//! Asks the questions in order, and judges the answers.

use std::time::Duration;

use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::exec::{Form, Version};

use super::{
    answer::{Given, Outcome},
    findings::{Hopeless, Versions},
    judge,
    question::Question,
    report::{Check, Report},
    run::{self, Plugin},
    terminal::{self, Person, Visit},
};

/// One run and its result.
type Run = run::Run<Given>;

/// The checks that apply to exec plugins.
const CHECKS: [Check; 13] = [
    Check::Start,
    Check::Versions,
    Check::Stdout,
    Check::Credential,
    Check::Expiry,
    Check::Certificate,
    Check::Secrets,
    Check::Failure,
    Check::Requests,
    Check::Stdin,
    Check::Terminal,
    Check::Concurrency,
    Check::Timing,
];

/// Long enough for a person to notice with every command.
const SLOW: Duration = Duration::from_secs(5);

/// A working plugin prints something within this time, or five times what it took before.
const PATIENCE: Duration = Duration::from_secs(2);

/// An examination of a plugin.
pub(super) struct ExecExam<'a> {
    plugin: &'a Plugin,
    report: Report,
}

impl<'a> ExecExam<'a> {
    /// Prepares an examination.
    pub(super) fn new(plugin: &'a Plugin) -> Self {
        Self { plugin, report: Report::new(&plugin.name, &CHECKS) }
    }

    /// Asks everything, unless the plugin hangs or does not start.
    pub(super) fn run(mut self) -> Report {
        if self.ask_all().is_ok() {
            self.report.pass(Check::Failure, "every failure has an exit code and a reason");
        }
        let given = if self.report.nothing_given() {
            "there was no answer to look at"
        } else {
            "no certificate was given"
        };
        self.report.skip(Check::Certificate, given);
        self.report.check_secrets("secret");
        self.report.timing(SLOW, "people wait for it with every command; keep a cache");
        self.report
    }

    fn ask_all(&mut self) -> Result<(), Hopeless> {
        let (version, base) = self.ask_versions()?;
        self.ask_variants(version, &base)?;
        self.ask_with_stdin(version, &base);
        let budget = base.took.saturating_mul(5).max(SLOW).min(self.plugin.budget);
        self.ask_unasked_at_terminal(version, &base, budget);
        self.ask_at_terminal(version, &base);
        self.ask_crowd(version, &base);
        self.report
            .require_credential(&base, "no run gave a credential, so there was none to check");
        Ok(())
    }

    /// Asks in every version; each must be answered in that version or declined. Returns the newest
    /// that works, and its run.
    fn ask_versions(&mut self) -> Result<(Version, Run), Hopeless> {
        let mut versions = Versions::new();
        let asked: &[Version] = match self.plugin.form {
            Form::ExecCredential => &Version::ALL,
            Form::ExecInfo => &[Version::V1Alpha1],
        };
        for &version in asked {
            let run = self.plugin.alone(&Question::plain(version, self.plugin.form));
            self.take_in(&run, true)?;
            versions.add(version, version.name(), run);
        }
        let who = (self.plugin.form == Form::ExecCredential).then_some("clients");
        versions.sum_up(&mut self.report, " without a person", who)
    }

    /// Missing or unknown fields in a request must not change the result.
    fn ask_variants(&mut self, version: Version, base: &Run) -> Result<(), Hopeless> {
        let run = self.plugin.alone(&Question::with_unknown_fields(version, self.plugin.form));
        self.take_in(&run, false)?;
        self.report.compare(Check::Requests, &run, base);
        // These may be declined: some plugins need a reachable cluster, or a request.
        for question in [
            Question::with_cluster(version, self.plugin.form),
            Question::missing(),
            Question::unreadable(),
        ] {
            let run = self.plugin.alone(&question);
            self.take_in(&run, false)?;
        }
        self.report
            .pass(Check::Requests, "accepts unknown fields, a cluster, and no request at all");
        Ok(())
    }

    /// The request is in the environment; stdin belongs to the user.
    fn ask_with_stdin(&mut self, version: Version, base: &Run) {
        let question =
            Question::plain(version, self.plugin.form).named("asked with something on stdin");
        let bytes = question.text.clone().unwrap_or_default();
        let run = self.plugin.with_stdin(&question, &bytes);
        self.report.keep(&run);
        match (&base.outcome, &run.outcome) {
            (Outcome::Declined { .. }, Outcome::Answered(_)) => self.report.fail(
                Check::Stdin,
                "only works with its request on stdin: the request is in \
                 `KUBERNETES_EXEC_INFO`, and stdin belongs to the person",
            ),
            _ => self.report.compare(Check::Stdin, &run, base),
        }
        self.report.pass(Check::Stdin, "does not need stdin and is not disturbed by it");
    }

    /// There is a terminal, but the request says not to prompt.
    fn ask_unasked_at_terminal(&mut self, version: Version, base: &Run, budget: Duration) {
        let question = Question::plain(version, self.plugin.form).named("told not to ask anybody");
        let Some(visit) = self.visit(&question, budget, Person::NOBODY) else {
            return;
        };
        if matches!(visit.run.outcome, Outcome::Hung) {
            self.report.fail(
                Check::Terminal,
                "waits for a person although the request says `interactive: false`",
            );
        } else {
            self.report.compare(Check::Terminal, &visit.run, base);
        }
    }

    /// There is a terminal, and the plugin may prompt.
    fn ask_at_terminal(&mut self, version: Version, base: &Run) {
        let question = Question::interactive(version, self.plugin.form);
        let person = Person {
            lines: &self.plugin.answers,
            patience: base.took.saturating_mul(5).max(PATIENCE),
        };
        let Some(visit) = self.visit(&question, self.plugin.budget, person) else {
            return;
        };
        match (&visit.run.outcome, &base.outcome) {
            _ if visit.waited => self.report.warn(
                Check::Terminal,
                "waits for a person: prepare what to type in a file and name it with `--answers`",
            ),
            (Outcome::Answered(_), _) => self.judge(&visit.run.outcome),
            (Outcome::Declined { .. }, Outcome::Answered(_)) => {
                let what = visit.run.told("fails at a terminal, though it works without one");
                self.report.fail(Check::Terminal, what);
            }
            (Outcome::Declined { .. }, _) => {
                self.report.warn(Check::Terminal, visit.run.told("fails at a terminal too"));
            }
            (Outcome::Hung, _) => {
                self.report.fail(Check::Terminal, "does not end at a terminal");
            }
            (wrong, plain) if wrong.like(plain) => self.judge(wrong),
            (other, _) => {
                let what = format!("at a terminal it {}", other.describe());
                self.report.fail(Check::Terminal, what);
            }
        }
        self.report.pass(Check::Terminal, "behaves the same at a terminal and leaves it as it was");
    }

    /// Clients do not wait for each other.
    fn ask_crowd(&mut self, version: Version, base: &Run) {
        let question = Question::plain(version, self.plugin.form).named("asked many times at once");
        let runs = self.plugin.crowd(|| self.plugin.alone(&question));
        self.report.compare_crowd(&runs, base);
        for run in &runs {
            self.report.keep(run);
            self.judge(&run.outcome);
        }
    }

    fn visit(
        &mut self,
        question: &Question,
        budget: Duration,
        person: Person<'_>,
    ) -> Option<Visit> {
        self.plugin.progress.say(&question.name);
        match terminal::visit(self.plugin, question, budget, person) {
            Ok(visit) => {
                self.report.keep(&visit.run);
                if !visit.restored {
                    self.report.fail(
                        Check::Terminal,
                        "leaves the terminal in another mode, such as without echo",
                    );
                }
                Some(visit)
            }
            Err(error) => {
                let message = format!("cannot open a terminal: {error}");
                self.report.skip(Check::Terminal, message);
                None
            }
        }
    }

    /// Keeps what a run showed and gave, for the checks at the end, and judges it.
    fn take_in(&mut self, run: &Run, versioned: bool) -> Result<(), Hopeless> {
        self.report.take_in(run, self.plugin.budget, ", without a terminal")?;
        match &run.outcome {
            // Faults of the plain questions are not reported again for the others.
            Outcome::Wrong { check, what, also, .. } if !versioned => {
                self.report.fail_once(*check, run, what);
                if let Some((check, what)) = also {
                    self.report.fail_once(*check, run, what);
                }
            }
            outcome => self.judge(outcome),
        }
        Ok(())
    }

    /// Judges the result of one run.
    fn judge(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Answered(given) => {
                if given.yaml {
                    self.report.warn(Check::Stdout, "prints YAML, which not every client reads");
                }
                self.report.pass(Check::Stdout, "one object and nothing else");
            }
            Outcome::Wrong { check, what, also, .. } => {
                self.report.fail(*check, what.clone());
                if let Some((check, what)) = also {
                    self.report.fail(*check, what.clone());
                }
            }
            _ => {}
        }
        if let Some(given) = outcome.answer() {
            judge::answer(&given.answer, SystemClock.now(), &mut self.report);
        }
    }
}
