//! What runs add to the report, for every protocol.

use std::time::Duration;

use keyward_host::redact;
use zeroize::Zeroizing;

use super::{
    outcome::{Outcome, Reply},
    report::{Check, Report},
    run::Run,
};
use crate::duration;

/// The plugin hung or did not start, so there is no point in asking again.
pub(super) struct Hopeless;

impl Report {
    /// Whether no run has given a secret.
    pub(super) fn nothing_given(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Keeps what a run showed and gave.
    pub(super) fn keep<A: Reply>(&mut self, run: &Run<A>) {
        self.shown.push((run.name.clone(), run.shown.clone()));
        for secret in run.outcome.answer().map(A::secrets).unwrap_or_default() {
            redact::remember(&secret, None);
            if !self.secrets.contains(&secret) {
                self.secrets.push(secret);
            }
        }
    }

    /// Keeps what a run showed and gave. Fails if the plugin hung or did not start; `place` says
    /// where it was asked.
    pub(super) fn take_in<A: Reply>(
        &mut self,
        run: &Run<A>,
        budget: Duration,
        place: &str,
    ) -> Result<(), Hopeless> {
        self.keep(run);
        match &run.outcome {
            Outcome::Hung => {
                let budget = duration::show(budget);
                let what = format!("does not end within {budget} when {}{place}", run.name);
                self.fail(Check::Timing, run.told(&what));
                Err(Hopeless)
            }
            Outcome::NotStarted(why) => {
                self.fail(Check::Start, why.clone());
                Err(Hopeless)
            }
            _ => {
                self.times.push(run.took);
                self.pass(Check::Start, "it starts");
                Ok(())
            }
        }
    }

    /// Fails a check by what a run did, unless it has failed already.
    pub(super) fn fail_once<A>(&mut self, check: Check, run: &Run<A>, what: &str) {
        if !self.failed(check) {
            self.fail(check, format!("{}, it {what}", run.name));
        }
    }

    /// Fails the check of the credential if no run has given one, which `message` says.
    pub(super) fn require_credential<A>(&mut self, base: &Run<A>, message: &str) {
        if self.nothing_given() && !self.failed(Check::Credential) {
            self.fail(Check::Credential, base.told(message));
        }
    }

    /// Fails a check if a run ended otherwise than the plain one.
    pub(super) fn compare<A: Reply>(&mut self, check: Check, run: &Run<A>, base: &Run<A>) {
        if !run.outcome.like(&base.outcome) {
            let (this, plain) = (run.outcome.describe(), base.outcome.describe());
            let what = format!("{}, it {this}; otherwise it {plain}", run.name);
            self.fail(check, run.told(&what));
        }
    }

    /// Fails the concurrency check when one of many runs at once ended otherwise than the plain
    /// one.
    pub(super) fn compare_crowd<A: Reply>(&mut self, runs: &[Run<A>], base: &Run<A>) {
        let odd: Vec<_> = runs.iter().filter(|run| !run.outcome.like(&base.outcome)).collect();
        if let Some(first) = odd.first() {
            let what = format!(
                "{} of {} at the same time end differently: one {}",
                odd.len(),
                runs.len(),
                first.outcome.describe()
            );
            self.fail(Check::Concurrency, first.told(&what));
        }
        self.pass(Check::Concurrency, format!("{} at the same time end alike", runs.len()));
    }

    /// Checks that no secret was shown to people or logs; `noun` is the word for the secrets.
    pub(super) fn check_secrets(&mut self, noun: &str) {
        if self.nothing_given() {
            for check in [Check::Stdout, Check::Expiry, Check::Secrets] {
                self.skip(check, "there was no answer to look at");
            }
            return;
        }
        for (name, shown) in std::mem::take(&mut self.shown) {
            let shown = Zeroizing::new(String::from_utf8_lossy(&shown).into_owned());
            let mut long = self.secrets.iter().filter(|secret| secret.expose().len() > 3);
            if long.any(|secret| shown.contains(secret.expose())) {
                self.fail(Check::Secrets, format!("{name}, it shows a {noun} on stderr"));
                break;
            }
        }
        self.pass(Check::Secrets, "none on stderr");
    }
}

/// The results for the versions of a protocol.
pub(super) struct Versions<V, A> {
    answered: Vec<&'static str>,
    declined: Vec<&'static str>,
    /// The newest version that works, or else the newest, and its run.
    best: Option<(V, Run<A>)>,
}

impl<V, A> Versions<V, A> {
    /// No version asked yet.
    pub(super) fn new() -> Self {
        Self { answered: Vec::new(), declined: Vec::new(), best: None }
    }

    /// Records a run in this version; versions come oldest first.
    pub(super) fn add(&mut self, version: V, name: &'static str, run: Run<A>) {
        if matches!(run.outcome, Outcome::Declined { .. }) {
            self.declined.push(name);
        } else if run.outcome.answer().is_some() {
            self.answered.push(name);
        }
        let known = self.best.as_ref().is_some_and(|(_, best)| best.outcome.answered());
        if run.outcome.answered() || !known {
            self.best = Some((version, run));
        }
    }

    /// Reports which versions are answered, and returns the best. `alone` says how the plugin was
    /// asked if it declined all; `who` asks for v1, if that was asked.
    pub(super) fn sum_up(
        self,
        report: &mut Report,
        alone: &str,
        who: Option<&str>,
    ) -> Result<(V, Run<A>), Hopeless> {
        let (answered, declined) = (self.answered.join(", "), self.declined.join(", "));
        match (answered.is_empty(), declined.is_empty()) {
            (false, true) => report.pass(Check::Versions, format!("answers {answered}")),
            (false, false) => {
                report.pass(Check::Versions, format!("answers {answered}, declines {declined}"));
            }
            (true, false) => report.pass(Check::Versions, format!("declines {declined}{alone}")),
            (true, true) => report.skip(Check::Versions, "there was no answer to look at"),
        }
        if let Some(who) = who
            && !self.answered.is_empty()
            && !self.answered.contains(&"v1")
        {
            let what = format!("does not answer v1, which {who} ask for today");
            report.warn(Check::Versions, what);
        }
        self.best.ok_or(Hopeless)
    }
}
