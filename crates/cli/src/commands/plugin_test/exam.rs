//! The questions in their order, and what to make of the answers.

use std::time::Duration;

use keyward_host::{clock::Clock, pair::Pair};
use keyward_protocol::{
    Secret,
    exec::{Answer, PemPair, Version},
    time::format_rfc3339,
};
use zeroize::Zeroizing;

use super::{
    answer::Outcome,
    question::{Question, short},
    report::{Check, Report, Verdict},
    run::{Plugin, Run},
    terminal::{Seat, Visit},
};
use crate::{duration, mask::Mask};

/// Less is over before the client has used it.
const TOO_SHORT: i64 = 5;
/// Less makes clients start the plugin all the time.
const SHORT: i64 = 30;
/// More is a mistake in the unit.
const TOO_LONG: i64 = 10 * 365 * 86_400;
/// More is not what people mean by short-lived.
const LONG: i64 = 366 * 86_400;
/// A person notices this with every command.
const SLOW: Duration = Duration::from_secs(5);

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
            self.pass(Check::Failure, "every failure has an exit code and a reason");
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
            self.fail(Check::Credential, message);
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
                Outcome::Answered { .. } => answered.push(short(version)),
                Outcome::Declined { .. } => declined.push(short(version)),
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
            _ => format!("declines {} without a person", declined.join(", ")),
        };
        self.pass(Check::Versions, summary);
        if !answered.is_empty() && !answered.contains(&"v1") {
            self.warn(Check::Versions, "does not answer v1, which clients ask for today");
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
        self.pass(Check::Requests, "takes unknown fields, a cluster, and nothing at all");
        Ok(())
    }

    /// The request is in the environment; stdin belongs to the person.
    fn ask_with_stdin(&mut self, version: Version, base: &Run) {
        let question = Question::plain(version).named("asked with something on stdin");
        let bytes = question.text.clone().unwrap_or_default();
        let run = self.plugin.with_stdin(&question, &bytes);
        self.keep(&run);
        match (&base.outcome, &run.outcome) {
            (Outcome::Declined { .. }, Outcome::Answered { .. }) => self.fail(
                Check::Stdin,
                "only works with its request on stdin: the request is in \
                 `KUBERNETES_EXEC_INFO`, and stdin belongs to the person",
            ),
            _ => self.compare(Check::Stdin, &run, base),
        }
        self.pass(Check::Stdin, "does not need stdin and is not disturbed by it");
    }

    /// A terminal is there, but the request says nobody is to be asked.
    fn ask_unasked_at_terminal(&mut self, version: Version, base: &Run, budget: Duration) {
        let question = Question::plain(version).named("told not to ask anybody");
        let Some(visit) = self.visit(&question, budget, &[]) else {
            return;
        };
        if visit.waited || matches!(visit.run.outcome, Outcome::Hung) {
            self.fail(
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
        let (budget, answers) = (self.plugin.budget, &self.plugin.answers);
        let Some(visit) = self.visit(&question, budget, answers) else {
            return;
        };
        match (&visit.run.outcome, &base.outcome) {
            _ if visit.waited => self.report.add(
                Check::Terminal,
                Verdict::Warn,
                "waits for a person: prepare what to type in a file and name it with `--answers`",
            ),
            (Outcome::Answered { .. }, _) => self.judge(&visit.run.outcome),
            (Outcome::Declined { .. }, Outcome::Answered { .. }) => {
                let what = told("fails at a terminal, though it works without one", &visit.run);
                self.fail(Check::Terminal, what);
            }
            (Outcome::Declined { .. }, _) => {
                self.warn(Check::Terminal, told("fails at a terminal too", &visit.run));
            }
            (Outcome::Hung, _) => self.fail(Check::Terminal, "does not end at a terminal"),
            (other, _) => {
                let what = format!("at a terminal it {}", other.describe());
                self.fail(Check::Terminal, what);
            }
        }
        self.pass(Check::Terminal, "behaves the same at a terminal and leaves it as it was");
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
            self.fail(Check::Concurrency, told(&what, first));
        }
        for run in &runs {
            self.keep(run);
            self.judge(&run.outcome);
        }
        self.pass(Check::Concurrency, format!("{} at the same time end alike", runs.len()));
    }

    fn visit(
        &mut self,
        question: &Question,
        budget: Duration,
        lines: &[Zeroizing<String>],
    ) -> Option<Visit> {
        let visit = Seat::take().and_then(|seat| seat.ask(self.plugin, question, budget, lines));
        match visit {
            Ok(visit) => {
                self.keep(&visit.run);
                if !visit.restored {
                    self.fail(
                        Check::Terminal,
                        "leaves the terminal in another mode, such as without echo",
                    );
                }
                Some(visit)
            }
            Err(error) => {
                let message = format!("no terminal to be had: {error}");
                self.report.add(Check::Terminal, Verdict::Skip, message);
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
                self.fail(Check::Timing, told(&what, run));
                return Err(Hopeless);
            }
            Outcome::NotStarted(why) => {
                self.fail(Check::Start, why.clone());
                return Err(Hopeless);
            }
            _ => self.times.push(run.took),
        }
        self.pass(Check::Start, "it starts");
        match &run.outcome {
            Outcome::Wrong { check, what } if !versioned => {
                self.fail(*check, format!("{}: {what}", run.name));
            }
            outcome => self.judge(outcome),
        }
        Ok(())
    }

    fn keep(&mut self, run: &Run) {
        self.shown.push((run.name.clone(), run.shown.clone()));
        if let Outcome::Answered { answer, .. } = &run.outcome {
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
            Outcome::Answered { answer, yaml } => {
                if *yaml {
                    self.warn(Check::Stdout, "prints YAML, which not every client reads");
                }
                self.pass(Check::Stdout, "one object and nothing else");
                self.check_credential(answer);
                self.check_expiry(answer);
                if let Some(pair) = &answer.pair {
                    self.check_certificate(pair, answer);
                }
            }
            Outcome::Wrong { check, what } => self.fail(*check, what.clone()),
            _ => {}
        }
    }

    fn check_credential(&mut self, answer: &Answer) {
        if let Some(token) = &answer.token {
            let token = token.expose();
            if token.get(..7).is_some_and(|t| t.eq_ignore_ascii_case("bearer ")) {
                self.fail(Check::Credential, "the token begins with `Bearer`, which clients add");
            } else if !token.bytes().all(|b| (b'!'..=b'~').contains(&b)) {
                self.fail(
                    Check::Credential,
                    "the token has a blank, a line break or another character that no header can \
                     carry",
                );
            }
        }
        let what = match (&answer.token, &answer.pair) {
            (Some(_), Some(_)) => "a token and a certificate",
            (Some(_), None) => "a token",
            _ => "a certificate",
        };
        self.pass(Check::Credential, what);
    }

    fn check_expiry(&mut self, answer: &Answer) {
        let Some(end) = answer.expires else {
            self.pass(Check::Expiry, "none: clients keep it until they end or it is refused");
            return;
        };
        let left = end.as_second() - self.clock.now().as_second();
        let when = format_rfc3339(end);
        match left {
            ..=0 => self.fail(Check::Expiry, format!("it is over when it comes: {when}")),
            1..=TOO_SHORT => {
                self.fail(Check::Expiry, format!("it is over in {left} s, before it can be used"));
            }
            TOO_LONG.. => {
                self.fail(Check::Expiry, format!("it is absurdly far away: {when}"));
            }
            LONG.. => {
                self.warn(Check::Expiry, format!("it is more than a year away: {when}"));
            }
            ..SHORT => self.warn(
                Check::Expiry,
                format!("it is only {left} s away: clients will run the plugin all the time"),
            ),
            _ => self.pass(Check::Expiry, "in a sensible future"),
        }
        if let Some(own) = answer.token.as_ref().and_then(|token| jwt_end(token.expose()))
            && own < end.as_second()
        {
            self.fail(
                Check::Expiry,
                format!(
                    "it is {} s after the token's own end: clients would keep a dead token",
                    end.as_second() - own
                ),
            );
        }
    }

    fn check_certificate(&mut self, pair: &PemPair, answer: &Answer) {
        let pair = match Pair::parse(&pair.certificate, &pair.key) {
            Ok(pair) => pair,
            Err(error) => {
                let what = format!("certificate and key are no pair: {}", error.0);
                self.fail(Check::Certificate, what);
                return;
            }
        };
        let now = self.clock.now();
        if now >= pair.not_after {
            let what = format!("the certificate ended at {}", format_rfc3339(pair.not_after));
            self.fail(Check::Certificate, what);
        } else if now < pair.not_before {
            let what = format!("the certificate begins at {}", format_rfc3339(pair.not_before));
            self.fail(Check::Certificate, what);
        } else if answer.expires.is_some_and(|end| end > pair.not_after) {
            let what = format!(
                "the certificate ends at {}, before the answer's `expirationTimestamp`",
                format_rfc3339(pair.not_after)
            );
            self.fail(Check::Certificate, what);
        }
        self.pass(Check::Certificate, "it is the key's and valid now");
    }

    /// Nothing secret where people and logs can see it.
    fn check_secrets(&mut self) {
        if self.secrets.is_empty() {
            return;
        }
        for (name, shown) in std::mem::take(&mut self.shown) {
            let shown = Zeroizing::new(String::from_utf8_lossy(&shown).into_owned());
            let leaks = self.secrets.iter().any(|secret| {
                let text = secret.expose();
                let mut lines = text.lines().filter(|l| l.len() > 7 && !l.starts_with("-----"));
                lines.any(|line| shown.contains(line)) || text.len() > 3 && shown.contains(text)
            });
            if leaks {
                self.fail(Check::Secrets, format!("{name}, it shows a secret on stderr"));
                break;
            }
        }
        self.pass(Check::Secrets, "none on stderr");
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
            self.warn(Check::Timing, what);
        }
        self.pass(Check::Timing, figures);
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
            self.fail(check, told(&what, run));
        }
    }

    fn pass(&mut self, check: Check, message: impl Into<String>) {
        self.report.add(check, Verdict::Pass, message);
    }

    fn warn(&mut self, check: Check, message: impl Into<String>) {
        self.report.add(check, Verdict::Warn, message);
    }

    fn fail(&mut self, check: Check, message: impl Into<String>) {
        self.report.add(check, Verdict::Fail, message);
    }
}

/// A finding with the plugin's own last words.
fn told(what: &str, run: &Run) -> String {
    match run.last_words() {
        Some(words) => format!("{what}; it says: {words}"),
        None => what.to_owned(),
    }
}

/// When a JSON Web Token says it ends itself.
fn jwt_end(token: &str) -> Option<i64> {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = Zeroizing::new(URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?);
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    claims.get("exp")?.as_i64()
}

#[cfg(test)]
mod tests {
    use super::jwt_end;

    #[test]
    fn a_tokens_own_end_is_read_where_it_has_one() {
        // {"alg":"none"} . {"exp":1700000000} . nothing
        assert_eq!(jwt_end("eyJhbGciOiJub25lIn0.eyJleHAiOjE3MDAwMDAwMDB9."), Some(1_700_000_000));
        assert_eq!(jwt_end("s3cr3t"), None);
        assert_eq!(jwt_end("a.b.c"), None);
    }
}
