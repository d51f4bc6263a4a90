//! An image credential provider, asked in every way a kubelet may.

mod answer;
mod judge;

use std::{thread, time::Duration};

use keyward_host::{
    clock::{Clock as _, SystemClock},
    image::normalise,
    process::{self, Stdin, Stop},
};
use keyward_protocol::{
    Secret,
    image::{Request, Version},
};
use zeroize::Zeroizing;

use self::answer::{Outcome, read};
use super::{
    question::Question as Variable,
    report::{Check, Report},
    run::{Plugin, last_words},
};
use crate::{duration, failure::Failure, globals::Globals, mask::Mask};

/// What is looked at here.
const CHECKS: [Check; 10] = [
    Check::Start,
    Check::Versions,
    Check::Stdout,
    Check::Credential,
    Check::Expiry,
    Check::Secrets,
    Check::Failure,
    Check::Requests,
    Check::Concurrency,
    Check::Timing,
];

/// The kubelet gives a minute; a pull that waits so long is a complaint.
const SLOW: Duration = Duration::from_secs(10);

/// Never a real token. It must not come back in an answer that is kept for others.
const TOKEN: &str = "e30.eyJzdWIiOiJrZXl3YXJkIn0.a2V5d2FyZC1wbHVnaW4tdGVzdA";

/// An examination of a provider.
pub(super) struct Exam<'a> {
    plugin: &'a Plugin,
    image: String,
    at_once: usize,
    mask: Mask,
    report: Report,
    secrets: Vec<Secret>,
    shown: Vec<(&'static str, Zeroizing<Vec<u8>>)>,
    times: Vec<Duration>,
}

/// What came of one run.
struct Run {
    name: &'static str,
    outcome: Outcome,
    shown: Zeroizing<Vec<u8>>,
    took: Duration,
}

/// It hung or did not start: no point in asking on.
struct Hopeless;

impl<'a> Exam<'a> {
    /// Prepares one with an image that the provider knows.
    pub(super) fn new(
        plugin: &'a Plugin,
        image: &str,
        at_once: usize,
        globals: &Globals,
    ) -> Result<Self, Failure> {
        let image = normalise(image).map_err(|wrong| {
            Failure::usage("`--image` names no image").note("because", wrong.to_string())
        })?;
        Ok(Self {
            plugin,
            image,
            at_once,
            mask: globals.mask.clone(),
            report: Report::of(&plugin.name, &CHECKS),
            secrets: Vec::new(),
            shown: Vec::new(),
            times: Vec::new(),
        })
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
        self.ask_crowd(version, &base);
        if self.secrets.is_empty() && !self.report.failed(Check::Credential) {
            let words = last_words(&base.shown).map(|w| format!("; it says: {w}"));
            let message = format!(
                "no run gave a login for `{}`, so there was none to check{}",
                self.image,
                words.unwrap_or_default()
            );
            self.report.fail(Check::Credential, message);
        }
        Ok(())
    }

    /// Every version, answered in itself or declined. Gives the newest that works, and its run.
    fn ask_versions(&mut self) -> Result<(Version, Run), Hopeless> {
        let mut best: Option<(Version, Run)> = None;
        let (mut answered, mut declined) = (Vec::new(), Vec::new());
        for version in Version::ALL {
            let run = self.run_with(name(version), &self.request(Some(version)), Some(version));
            self.take_in(&run)?;
            match &run.outcome {
                Outcome::Declined(_) => declined.push(short(version)),
                Outcome::Answered(_) => answered.push(short(version)),
                _ => {}
            }
            let known = best.as_ref().is_some_and(|(_, run)| run.outcome.is_answer());
            if run.outcome.is_answer() || !known {
                best = Some((version, run));
            }
        }
        let mut summary = Vec::new();
        if !answered.is_empty() {
            summary.push(format!("answers {}", answered.join(", ")));
        }
        if !declined.is_empty() {
            summary.push(format!("declines {}", declined.join(", ")));
        }
        if summary.is_empty() {
            self.report.skip(Check::Versions, "there was no answer to look at");
        } else {
            self.report.pass(Check::Versions, summary.join(", "));
        }
        if !answered.is_empty() && !answered.contains(&"v1") {
            self.report.warn(Check::Versions, "does not answer v1, which nodes ask for today");
        }
        best.ok_or(Hopeless)
    }

    /// Requests with more or less in them than usual.
    fn ask_variants(&mut self, version: Version, base: &Run) -> Result<(), Hopeless> {
        let more = self.request(Some(version)).replacen('{', "{\"x-unknown\":[{\"deep\":1.5}],", 1);
        let run = self.run_with("asked with unknown fields", &more, Some(version));
        self.take_in(&run)?;
        self.compare(Check::Requests, &run, base);
        self.ask_with_token()?;
        let stranger = Request {
            version: Some(version),
            image: "registry.invalid/nobody/knows".to_owned(),
            token: None,
            annotations: Vec::new(),
        };
        let stranger = stranger.to_json();
        let run = self.run_with("asked for an image of nobody", stranger.expose(), Some(version));
        self.take_in_quietly(&run)?;
        let odd = self.request(Some(version)).replace(version.api_version(), "example.invalid/v9");
        for (name, text) in [
            ("asked nothing", ""),
            ("asked something unreadable", "{\"kind\":"),
            ("asked in a version that nobody knows", &odd),
        ] {
            let run = self.run_with(name, text, None);
            self.take_in_quietly(&run)?;
            if run.outcome.is_answer() {
                let what = format!("{name}, it answers all the same: it does not read its request");
                self.report.warn(Check::Requests, what);
            }
        }
        let sum = "takes unknown fields, a token, other images, and nothing at all";
        self.report.pass(Check::Requests, sum);
        Ok(())
    }

    /// With a pod's service account, as v1 may say it.
    fn ask_with_token(&mut self) -> Result<(), Hopeless> {
        let request = Request {
            version: Some(Version::V1),
            image: self.image.clone(),
            token: Some(Secret::new(TOKEN)),
            annotations: vec![("keyward.example/test".to_owned(), "yes".to_owned())],
        };
        let text = request.to_json();
        let run = self.run_with("asked with a token", text.expose(), Some(Version::V1));
        self.take_in_quietly(&run)?;
        if let Outcome::Answered(response) = &run.outcome
            && response.auth.iter().any(|(_, login)| login.password.expose().contains(TOKEN))
        {
            self.report.warn(
                Check::Credential,
                "hands the service account's token on: nodes must say `cacheType: Token` for it",
            );
        }
        let shown = String::from_utf8_lossy(&run.shown);
        if shown.contains(TOKEN) {
            self.report.fail(Check::Secrets, "shows the service account's token on stderr");
        }
        Ok(())
    }

    /// A node pulls many images at once.
    fn ask_crowd(&mut self, version: Version, base: &Run) {
        let text = self.request(Some(version));
        let name = "asked many times at once";
        let runs: Vec<Run> = thread::scope(|scope| {
            let ask = || self.run_with(name, &text, Some(version));
            let runs: Vec<_> = (0..self.at_once).map(|_| scope.spawn(ask)).collect();
            runs.into_iter().filter_map(|run| run.join().ok()).collect()
        });
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
        }
        self.report.pass(Check::Concurrency, format!("{} at the same time end alike", runs.len()));
    }

    fn request(&self, version: Option<Version>) -> String {
        let image = self.image.clone();
        let request = Request { version, image, token: None, annotations: Vec::new() };
        request.to_json().expose().to_owned()
    }

    fn run_with(&self, name: &'static str, text: &str, version: Option<Version>) -> Run {
        // No variable: this protocol is spoken on stdin.
        let mut invocation = self.plugin.invocation(&Variable::missing());
        invocation.stdin = Stdin::Request(Zeroizing::new(text.as_bytes().to_vec()));
        let result = process::run(&invocation, &Stop::default());
        let outcome = read(&result, version);
        let (shown, took) = match result {
            Ok(output) => (output.stderr, output.took),
            Err(failure) => match failure.left() {
                Some(left) => (left.stderr.clone(), left.took),
                None => (Zeroizing::default(), Duration::ZERO),
            },
        };
        Run { name, outcome, shown, took }
    }

    /// Keeps what a run showed and gave, and judges it as an answer for our image.
    fn take_in(&mut self, run: &Run) -> Result<(), Hopeless> {
        self.take_in_quietly(run)?;
        if let Outcome::Answered(response) = &run.outcome {
            self.report.pass(Check::Stdout, "one object and nothing else");
            judge::response(response, &self.image, SystemClock.now(), &mut self.report);
        }
        Ok(())
    }

    /// The same for a question to which no login is owed.
    fn take_in_quietly(&mut self, run: &Run) -> Result<(), Hopeless> {
        self.keep(run);
        match &run.outcome {
            Outcome::Hung => {
                let budget = duration::show(self.plugin.budget);
                let what = format!("does not end within {budget} when {}", run.name);
                self.report.fail(Check::Timing, told(&what, run));
                return Err(Hopeless);
            }
            Outcome::NotStarted(why) => {
                self.report.fail(Check::Start, why.clone());
                return Err(Hopeless);
            }
            Outcome::Wrong(check, what) if !self.report.failed(*check) => {
                self.report.fail(*check, format!("{}, it {what}", run.name));
            }
            _ => {}
        }
        self.times.push(run.took);
        self.report.pass(Check::Start, "it starts");
        Ok(())
    }

    fn keep(&mut self, run: &Run) {
        self.shown.push((run.name, run.shown.clone()));
        let Outcome::Answered(response) = &run.outcome else { return };
        for (_, login) in &response.auth {
            self.mask.learn(&login.password);
            if !login.password.is_empty() && !self.secrets.contains(&login.password) {
                self.secrets.push(login.password.clone());
            }
        }
    }

    /// Nothing secret where logs can see it.
    fn check_secrets(&mut self) {
        if self.secrets.is_empty() {
            for check in [Check::Stdout, Check::Expiry, Check::Secrets] {
                self.report.skip(check, "there was no answer to look at");
            }
            return;
        }
        for (name, shown) in std::mem::take(&mut self.shown) {
            let shown = Zeroizing::new(String::from_utf8_lossy(&shown).into_owned());
            let mut long = self.secrets.iter().filter(|secret| secret.expose().len() > 3);
            if long.any(|secret| shown.contains(secret.expose())) {
                self.report.fail(Check::Secrets, format!("{name}, it shows a password on stderr"));
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
            self.report.warn(Check::Timing, format!("{figures}: every pull waits for it"));
        }
        self.report.pass(Check::Timing, figures);
    }

    /// Fails a check when a run ended otherwise than the plain one.
    fn compare(&mut self, check: Check, run: &Run, base: &Run) {
        if !run.outcome.like(&base.outcome) {
            let (this, plain) = (run.outcome.describe(), base.outcome.describe());
            let what = format!("{}, it {this}; otherwise it {plain}", run.name);
            self.report.fail(check, told(&what, run));
        }
    }
}

/// A finding with the provider's own last words.
fn told(what: &str, run: &Run) -> String {
    match last_words(&run.shown) {
        Some(words) => format!("{what}; it says: {words}"),
        None => what.to_owned(),
    }
}

fn name(version: Version) -> &'static str {
    match version {
        Version::V1Alpha1 => "asked in v1alpha1",
        Version::V1Beta1 => "asked in v1beta1",
        Version::V1 => "asked in v1",
    }
}

fn short(version: Version) -> &'static str {
    version.api_version().rsplit('/').next().unwrap_or_default()
}
