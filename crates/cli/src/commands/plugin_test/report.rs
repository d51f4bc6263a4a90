//! The findings, and their layout.

use std::{collections::BTreeMap, ffi::OsStr, fmt, time::Duration};

use keyward_protocol::Secret;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::{duration, output::Style};

/// The checks, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Check {
    /// The plugin can be started.
    Start,
    /// The plugin answers in the version it is asked in.
    Versions,
    /// Stdout carries the object and nothing else.
    Stdout,
    /// The answer contains something that a client can use.
    Credential,
    /// The expiry is a sensible time in the future.
    Expiry,
    /// The certificate is valid and matches the key.
    Certificate,
    /// A signer's signatures match the certificate's key, in every scheme.
    Signatures,
    /// A signer runs for as long as its client.
    Resident,
    /// No secret is shown.
    Secrets,
    /// The plugin fails with an exit code and a reason.
    Failure,
    /// The plugin accepts requests with missing or unknown fields.
    Requests,
    /// The plugin does not read stdin.
    Stdin,
    /// The plugin works at a terminal.
    Terminal,
    /// Many runs at once do not disturb each other.
    Concurrency,
    /// The plugin ends, and soon.
    Timing,
}

/// The name in JSON, for text too.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The result of a check, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// There was nothing to check.
    Skip,
    /// Correct.
    Pass,
    /// Allowed, but likely to cause trouble.
    Warn,
    /// A violation of the protocol.
    Fail,
}

/// All findings about a plugin.
#[derive(Default)]
pub(super) struct Report {
    plugin: String,
    checks: &'static [Check],
    findings: BTreeMap<Check, Vec<(Verdict, String)>>,
    /// The secrets that the plugin gave, to look for where they must not be.
    pub(super) secrets: Vec<Secret>,
    /// What was shown to people, with the name of the question.
    pub(super) shown: Vec<(String, Zeroizing<Vec<u8>>)>,
    /// How long the runs without a terminal took.
    pub(super) times: Vec<Duration>,
}

impl Report {
    /// An empty report with these checks, in order.
    pub(super) fn new(plugin: &OsStr, checks: &'static [Check]) -> Self {
        let plugin = plugin.to_string_lossy().into_owned();
        Self { plugin, checks, ..Self::default() }
    }

    /// Records that a check passed, unless it has a worse result.
    pub(super) fn pass(&mut self, check: Check, message: impl Into<String>) {
        self.add(check, Verdict::Pass, message);
    }

    /// Records something that is allowed but likely to cause trouble.
    pub(super) fn warn(&mut self, check: Check, message: impl Into<String>) {
        self.add(check, Verdict::Warn, message);
    }

    /// Records a violation of the protocol.
    pub(super) fn fail(&mut self, check: Check, message: impl Into<String>) {
        self.add(check, Verdict::Fail, message);
    }

    /// Records that there was nothing to check, unless there is another result.
    pub(super) fn skip(&mut self, check: Check, message: impl Into<String>) {
        self.add(check, Verdict::Skip, message);
    }

    /// Checks that half of the runs took no longer than `slow`; `harm` says whom slowness affects.
    pub(super) fn timing(&mut self, slow: Duration, harm: &str) {
        let times = &mut self.times;
        times.sort_unstable();
        let Some((&slowest, &median)) = times.last().zip(times.get(times.len() / 2)) else {
            return;
        };
        let figures =
            format!("median {}, slowest {}", duration::show(median), duration::show(slowest));
        if median > slow {
            self.warn(Check::Timing, format!("{figures}: {harm}"));
        }
        self.pass(Check::Timing, figures);
    }

    /// Records a message, once.
    fn add(&mut self, check: Check, verdict: Verdict, message: impl Into<String>) {
        let messages = self.findings.entry(check).or_default();
        let message = message.into();
        if !messages.iter().any(|(_, known)| *known == message) {
            messages.push((verdict, message));
        }
    }

    /// Whether this check has already failed.
    pub(super) fn failed(&self, check: Check) -> bool {
        self.verdict(check) == Verdict::Fail
    }

    /// Whether no check failed.
    pub(super) fn passed(&self) -> bool {
        !self.checks.iter().any(|check| self.failed(*check))
    }

    fn verdict(&self, check: Check) -> Verdict {
        let messages = self.findings.get(&check).into_iter().flatten();
        messages.map(|(verdict, _)| *verdict).max().unwrap_or(Verdict::Skip)
    }

    /// The messages behind the result.
    fn messages(&self, check: Check) -> Vec<&str> {
        let verdict = self.verdict(check);
        let messages = self.findings.get(&check).into_iter().flatten();
        let decisive = |(v, _): &&(Verdict, String)| *v == verdict || *v == Verdict::Warn;
        messages.filter(decisive).map(|(_, message)| message.as_str()).collect()
    }

    /// The report as text: a line for each check, and the totals.
    pub(super) fn text(&self, style: Style) -> String {
        let mut lines = vec![style.label(&format!("plugin `{}`", self.plugin))];
        let mut counts = [0; 4];
        for check in self.checks.iter().copied() {
            let verdict = self.verdict(check);
            counts[verdict as usize] += 1;
            let word = match verdict {
                Verdict::Fail => style.error("FAIL"),
                Verdict::Warn => style.warning("warn"),
                Verdict::Pass => "pass".to_owned(),
                Verdict::Skip => "skip".to_owned(),
            };
            let messages = self.messages(check);
            let first = messages.first().copied().unwrap_or("not reached");
            lines.push(format!("  {word}  {check:<12} {first}"));
            for message in messages.iter().skip(1) {
                lines.push(format!("  {:<4}  {:<12} {message}", "", ""));
            }
        }
        let [skipped, passed, warned, failed] = counts;
        lines.push(String::new());
        lines.push(format!(
            "{passed} passed, {warned} passed with a warning, {failed} failed, {skipped} skipped\n"
        ));
        lines.join("\n")
    }

    /// The report for JSON; docs/plugin-authors.md has the schema.
    pub(super) fn document(&self) -> impl Serialize {
        #[derive(Serialize)]
        struct Whole<'a> {
            plugin: &'a str,
            passed: bool,
            checks: Vec<One<'a>>,
        }
        #[derive(Serialize)]
        struct One<'a> {
            check: Check,
            verdict: Verdict,
            messages: Vec<&'a str>,
        }
        let checks = self.checks.iter().map(|&check| One {
            check,
            verdict: self.verdict(check),
            messages: self.messages(check),
        });
        Whole { plugin: &self.plugin, passed: self.passed(), checks: checks.collect() }
    }
}
