//! The questions in their order, and what to make of the answers.

use std::time::Duration;

use keyward_host::clock::Clock;
use keyward_protocol::{Secret, exec::Version};
use zeroize::Zeroizing;

use super::{
    answer::Outcome,
    judge,
    question::{Question, short},
    report::{Check, Report},
    run::{Plugin, Run},
    terminal::{Person, Seat, Visit},
};
use crate::{duration, mask::Mask};

/// A person notices this with every command.
const SLOW: Duration = Duration::from_secs(5);

/// A plugin that works says something within this, or five times what it took before.
const PATIENCE: Duration = Duration::from_secs(2);

/// An examination of a plugin.
pub(super) struct Exam<'a> {
    plugin: &'a Plugin,
    at_once: usize,
    clock: &'a dyn Clock,
    mask: Mask,
    report: Report,
    /// What it handed out, to look for where it must not be.
    secrets: Vec<Secret>,
    /// What it showed to people, with the name of the question.
    shown: Vec<(String, Zeroizing<Vec<u8>>)>,
    /// How long the runs without a terminal took.
    times: Vec<Duration>,
}

/// It hung or did not start: no point in asking on.
struct Hopeless;

impl<'a> Exam<'a> {
    /// Prepares one.
    pub(super) fn new(
        plugin: &'a Plugin,
        at_once: usize,
        mask: Mask,
        clock: &'a dyn Clock,
    ) -> Self {
        Self {
            plugin,
            at_once,
            clock,
            mask,
            report: Report::new(&plugin.name),
            secrets: Vec::new(),
            shown: Vec::new(),
            times: Vec::new(),
        }
    }

    /// Asks everything, unless it is hopeless.
    pub(super) fn run(mut self) -> Report {
        if self.ask_all().is_ok() {
            self.report.pass(Check::Failure, "every failure has an exit code and a reason");
        }
        self.check_secrets();
        self.check_timing();
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
        if self.secrets.is_empty() && !self.report.failed(Check::Credential) {
            let words = base.last_words().map(|w| format!("; it says: {w}")).unwrap_or_default();
            let message = format!("no run gave a credential, so there was none to check{words}");
            self.report.fail(Check::Credential, message);
        }
        Ok(())
    }

    /// Every version, answered in itself or declined. Gives the newest that works, and its run.
    fn ask_versions(&mut self) -> Result<(Version, Run), Hopeless> {
        let mut best: Option<(Version, Run)> = None;
        let (mut answered, mut declined) = (Vec::new(), Vec::new());
        for version in Version::ALL {
            let run = self.plugin.alone(&Question::plain(version));
            self.take_in(&run, true)?;
            match run.outcome {
                Outcome::Declined { .. } => declined.push(short(version)),
                _ if run.outcome.answer().is_some() => answered.push(short(version)),
                _ => {}
            }
            let better = match &best {
                None => true,
                Some((_, known)) => {
                    matches!(run.outcome, Outcome::Answered { .. })
                        || !matches!(known.outcome, Outcome::Answered { .. })
                }
            };
            if better {
                best = Some((version, run));
            }
        }
        let summary = match (answered.is_empty(), declined.is_empty()) {
            (false, true) => format!("answers {}", answered.join(", ")),
            (false, false) => {
                format!("answers {}, declines {}", answered.join(", "), declined.join(", "))
            }
            (true, false) => format!("declines {} without a person", declined.join(", ")),
            (true, true) => String::new(),
        };
        if summary.is_empty() {
            self.report.skip(Check::Versions, "there was no answer to look at");
        } else {
            self.report.pass(Check::Versions, summary);
        }
        if !answered.is_empty() && !answered.contains(&"v1") {
            self.report.warn(Check::Versions, "does not answer v1, which clients ask for today");
        }
        best.ok_or(Hopeless)
    }

    /// Requests with more or less in them than usual must not change how it ends.
    fn ask_variants(&mut self, version: Version, base: &Run) -> Result<(), Hopeless> {
        let run = self.plugin.alone(&Question::with_unknown_fields(version));
        self.take_in(&run, false)?;
        self.compare(Check::Requests, &run, base);
        // These may well be declined: some plugins need a cluster they can reach, or a question.
        for question in
            [Question::with_cluster(version), Question::missing(), Question::unreadable()]
        {
            let run = self.plugin.alone(&question);
            self.take_in(&run, false)?;
        }
        self.report.pass(Check::Requests, "takes unknown fields, a cluster, and nothing at all");
        Ok(())
    }

    /// The request is in the environment; stdin belongs to the person.
    fn ask_with_stdin(&mut self, version: Version, base: &Run) {
        let question = Question::plain(version).named("asked with something on stdin");
        let bytes = question.text.clone().unwrap_or_default();
        let run = self.plugin.with_stdin(&question, &bytes);
        self.keep(&run);
        match (&base.outcome, &run.outcome) {
            (Outcome::Declined { .. }, Outcome::Answered { .. }) => self.report.fail(
                Check::Stdin,
                "only works with its request on stdin: the request is in \
                 `KUBERNETES_EXEC_INFO`, and stdin belongs to the person",
            ),
            _ => self.compare(Check::Stdin, &run, base),
        }
        self.report.pass(Check::Stdin, "does not need stdin and is not disturbed by it");
    }

    /// A terminal is there, but the request says nobody is to be asked.
    fn ask_unasked_at_terminal(&mut self, version: Version, base: &Run, budget: Duration) {
        let question = Question::plain(version).named("told not to ask anybody");
        let Some(visit) = self.visit(&question, budget, None) else {
            return;
        };
        if matches!(visit.run.outcome, Outcome::Hung) {
            self.report.fail(
                Check::Terminal,
                "waits for a person although the request says `interactive: false`",
            );
        } else {
            self.compare(Check::Terminal, &visit.run, base);
        }
    }

    /// A person is there and may be asked.
    fn ask_at_terminal(&mut self, version: Version, base: &Run) {
        let question = Question::interactive(version);
        let person = Person {
            lines: &self.plugin.answers,
            patience: base.took.saturating_mul(5).max(PATIENCE),
        };
        let Some(visit) = self.visit(&question, self.plugin.budget, Some(person)) else {
            return;
        };
        match (&visit.run.outcome, &base.outcome) {
            _ if visit.waited => self.report.warn(
                Check::Terminal,
                "waits for a person: prepare what to type in a file and name it with `--answers`",
            ),
            (Outcome::Answered { .. }, _) => self.judge(&visit.run.outcome),
            (Outcome::Declined { .. }, Outcome::Answered { .. }) => {
                let what = told("fails at a terminal, though it works without one", &visit.run);
                self.report.fail(Check::Terminal, what);
            }
            (Outcome::Declined { .. }, _) => {
                self.report.warn(Check::Terminal, told("fails at a terminal too", &visit.run));
            }
            (Outcome::Hung, _) => self.report.fail(Check::Terminal, "does not end at a terminal"),
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
        let question = Question::plain(version).named("asked many times at once");
        let runs = self.plugin.crowd(&question, self.at_once);
        let odd: Vec<&Run> = runs.iter().filter(|r| !r.outcome.like(&base.outcome)).collect();
        if let Some(first) = odd.first() {
            let what = format!(
                "{} of {} at the same time end differently: one {}",
                odd.len(),
                runs.len(),
                first.outcome.describe()
            );
            self.report.fail(Check::Concurrency, told(&what, first));
        }
        for run in &runs {
            self.keep(run);
            self.judge(&run.outcome);
        }
        self.report.pass(Check::Concurrency, format!("{} at the same time end alike", runs.len()));
    }

    fn visit(
        &mut self,
        question: &Question,
        budget: Duration,
        person: Option<Person<'_>>,
    ) -> Option<Visit> {
        let visit = Seat::take().and_then(|seat| seat.ask(self.plugin, question, budget, person));
        match visit {
            Ok(visit) => {
                self.keep(&visit.run);
                if !visit.restored {
                    self.report.fail(
                        Check::Terminal,
                        "leaves the terminal in another mode, such as without echo",
                    );
                }
                Some(visit)
            }
            Err(error) => {
                let message = format!("no terminal to be had: {error}");
                self.report.skip(Check::Terminal, message);
                None
            }
        }
    }

    /// Keeps what a run showed and gave, for the checks at the end, and judges it.
    fn take_in(&mut self, run: &Run, versioned: bool) -> Result<(), Hopeless> {
        self.keep(run);
        match &run.outcome {
            Outcome::Hung => {
                let what = format!(
                    "does not end within {} when {}, without a terminal",
                    duration::show(self.plugin.budget),
                    run.name
                );
                self.report.fail(Check::Timing, told(&what, run));
                return Err(Hopeless);
            }
            Outcome::NotStarted(why) => {
                self.report.fail(Check::Start, why.clone());
                return Err(Hopeless);
            }
            _ => self.times.push(run.took),
        }
        self.report.pass(Check::Start, "it starts");
        match &run.outcome {
            // What is wrong with the plain questions need not be said of the others again.
            Outcome::Wrong { check, what, .. } if !versioned => {
                if !self.report.failed(*check) {
                    self.report.fail(*check, format!("{}, it {what}", run.name));
                }
            }
            outcome => self.judge(outcome),
        }
        Ok(())
    }

    fn keep(&mut self, run: &Run) {
        self.shown.push((run.name.clone(), run.shown.clone()));
        if let Some(answer) = run.outcome.answer() {
            let key = answer.pair.as_ref().map(|pair| &pair.key);
            for secret in answer.token.iter().chain(key) {
                self.mask.learn(secret);
                if !self.secrets.contains(secret) {
                    self.secrets.push(secret.clone());
                }
            }
        }
    }

    /// Looks at what one run led to.
    fn judge(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Answered { yaml, .. } => {
                if *yaml {
                    self.report.warn(Check::Stdout, "prints YAML, which not every client reads");
                }
                self.report.pass(Check::Stdout, "one object and nothing else");
            }
            Outcome::Wrong { check, what, .. } => self.report.fail(*check, what.clone()),
            _ => {}
        }
        if let Some(answer) = outcome.answer() {
            judge::answer(answer, self.clock.now(), &mut self.report);
        }
    }

    /// Nothing secret where people and logs can see it.
    fn check_secrets(&mut self) {
        if self.secrets.is_empty() {
            for check in [Check::Stdout, Check::Expiry, Check::Certificate, Check::Secrets] {
                self.report.skip(check, "there was no answer to look at");
            }
            return;
        }
        self.report.skip(Check::Certificate, "no certificate was given");
        for (name, shown) in std::mem::take(&mut self.shown) {
            let shown = Zeroizing::new(String::from_utf8_lossy(&shown).into_owned());
            let leaks = self.secrets.iter().any(|secret| {
                let text = secret.expose();
                let mut lines = text.lines().filter(|l| l.len() > 7 && !l.starts_with("-----"));
                lines.any(|line| shown.contains(line)) || text.len() > 3 && shown.contains(text)
            });
            if leaks {
                self.report.fail(Check::Secrets, format!("{name}, it shows a secret on stderr"));
                break;
            }
        }
        self.report.pass(Check::Secrets, "none on stderr");
    }

    fn check_timing(&mut self) {
        self.times.sort();
        let (Some(slowest), Some(median)) =
            (self.times.last().copied(), self.times.get(self.times.len() / 2).copied())
        else {
            return;
        };
        let figures =
            format!("median {}, slowest {}", duration::show(median), duration::show(slowest));
        if median > SLOW {
            let what = format!("{figures}: people wait for it with every command; keep a cache");
            self.report.warn(Check::Timing, what);
        }
        self.report.pass(Check::Timing, figures);
    }

    /// Fails a check when a run ended otherwise than the plain one.
    fn compare(&mut self, check: Check, run: &Run, base: &Run) {
        if !run.outcome.like(&base.outcome) {
            let what = format!(
                "{}, it {}; otherwise it {}",
                run.name,
                run.outcome.describe(),
                base.outcome.describe()
            );
            self.report.fail(check, told(&what, run));
        }
    }
}

/// A finding with the plugin's own last words.
fn told(what: &str, run: &Run) -> String {
    match run.last_words() {
        Some(words) => format!("{what}; it says: {words}"),
        None => what.to_owned(),
    }
}
