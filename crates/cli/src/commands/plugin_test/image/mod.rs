//! Tests an image credential provider with every kind of request that a kubelet may send.

mod answer;
mod judge;

use std::time::Duration;

use keyward_image::normalise;
use keyward_process::{
    clock::{Clock as _, SystemClock},
    runner::{self, Cancel, Stdin},
};
use keyward_protocol::{
    Secret,
    exec::REQUEST_VARIABLE,
    image::{Request, Response, Version},
};
use zeroize::Zeroizing;

use self::answer::{Outcome, read, read_proposal};
use super::{
    findings::{Hopeless, Versions},
    report::{Check, Report},
    run::{self, Plugin},
};
use crate::failure::Failure;

/// One run and its result.
type Run = run::Run<Response>;

/// The checks that apply to providers.
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

/// The kubelet allows a minute, but users complain about pulls that wait so long.
const SLOW: Duration = Duration::from_secs(10);

/// The argument of plugins of the original proposal.
const GET: &str = "get-credentials";

/// Not a real token. It must not come back in an answer that is cached for others.
const TOKEN: &str = "e30.eyJzdWIiOiJrZXl3YXJkIn0.a2V5d2FyZC1wbHVnaW4tdGVzdA";

/// An examination of a provider.
pub(super) struct ImageExam<'a> {
    plugin: &'a Plugin,
    image: String,
    /// Asked in the form of the original proposal, whose requests have no version.
    proposal: bool,
    report: Report,
}

impl<'a> ImageExam<'a> {
    /// Prepares an examination with an image that the provider knows.
    pub(super) fn new(plugin: &'a Plugin, image: &str, proposal: bool) -> Result<Self, Failure> {
        let image = normalise(image).map_err(|wrong| {
            Failure::usage("`--image` names no image").note("because", wrong.to_string())
        })?;
        let report = Report::new(&plugin.name, &CHECKS);
        Ok(Self { plugin, image, proposal, report })
    }

    /// Asks everything, unless the provider hangs or does not start.
    pub(super) fn run(mut self) -> Report {
        if self.ask_all().is_ok() {
            self.report.pass(Check::Failure, "every failure has an exit code and a reason");
        }
        self.report.check_secrets("password");
        self.report.timing(SLOW, "every pull waits for it");
        self.report
    }

    fn ask_all(&mut self) -> Result<(), Hopeless> {
        let (version, base) = self.ask_versions()?;
        self.ask_variants(version, &base)?;
        self.ask_crowd(version, &base);
        let message =
            format!("no run gave a login for `{}`, so there was none to check", self.image);
        self.report.require_credential(&base, &message);
        Ok(())
    }

    /// Asks in every version; each must be answered in that version or declined. Returns the newest
    /// that works, and its run.
    fn ask_versions(&mut self) -> Result<(Option<Version>, Run), Hopeless> {
        let asked = if self.proposal {
            vec![(None, "the form of the original proposal")]
        } else {
            Version::ALL.map(|version| (Some(version), version.name())).to_vec()
        };
        let mut versions = Versions::new();
        for (version, name) in asked {
            let run =
                self.run_with(&format!("asked in {name}"), &request(&self.image, version), version);
            self.take_in(&run)?;
            versions.add(version, name, run);
        }
        let who = (!self.proposal).then_some("nodes");
        versions.sum_up(&mut self.report, "", who)
    }

    /// Sends requests with missing or unknown fields.
    fn ask_variants(&mut self, version: Option<Version>, base: &Run) -> Result<(), Hopeless> {
        let more =
            request(&self.image, version).replacen('{', "{\"x-unknown\":[{\"deep\":1.5}],", 1);
        let run = self.run_with("asked with unknown fields", &more, version);
        self.take_in(&run)?;
        self.report.compare(Check::Requests, &run, base);
        if !self.proposal {
            self.ask_with_token()?;
        }
        let stranger = request("registry.invalid/nobody/knows", version);
        let run = self.run_with("asked for an image of an unknown registry", &stranger, version);
        self.take_in_quietly(&run)?;
        let known = version.unwrap_or(Version::V1).api_version();
        let odd = request(&self.image, version).replace(known, "example.invalid/v9");
        let mut unreadable =
            vec![("asked nothing", ""), ("asked something unreadable", "{\"kind\":")];
        if version.is_some() {
            unreadable.push(("asked in an unknown version", &odd));
        }
        for (name, text) in unreadable {
            let run = self.run_with(name, text, None);
            self.take_in_quietly(&run)?;
            if run.outcome.answered() {
                let what = format!("{name}, it answers anyway: it does not read its request");
                self.report.warn(Check::Requests, what);
            }
        }
        let sum = "accepts unknown fields, a token, other images, and no request at all";
        self.report.pass(Check::Requests, sum);
        Ok(())
    }

    /// Sends a pod's service account, as v1 allows.
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
                "returns the service account's token: nodes must set `cacheType: Token` for it",
            );
        }
        let shown = String::from_utf8_lossy(&run.shown);
        if shown.contains(TOKEN) {
            self.report.fail(Check::Secrets, "shows the service account's token on stderr");
        }
        Ok(())
    }

    /// A node pulls many images at once.
    fn ask_crowd(&mut self, version: Option<Version>, base: &Run) {
        let text = request(&self.image, version);
        let name = "asked many times at once";
        let runs = self.plugin.crowd(|| self.run_with(name, &text, version));
        self.report.compare_crowd(&runs, base);
        for run in &runs {
            self.report.keep(run);
        }
    }

    fn run_with(&self, name: &str, text: &str, version: Option<Version>) -> Run {
        // No variable: this protocol uses stdin.
        let mut invocation = self.plugin.invocation(REQUEST_VARIABLE, None);
        // Nodes start plugins of the original proposal with this word.
        if self.proposal && !invocation.args.iter().any(|arg| arg == GET) {
            invocation.args.push(GET.into());
        }
        invocation.stdin = Stdin::Request(Zeroizing::new(text.as_bytes().to_vec()));
        self.plugin.progress.say(name);
        let result = runner::run(&invocation, &Cancel::default());
        Run::judge(name, result, |stdout| {
            if self.proposal {
                read_proposal(stdout, &self.image, SystemClock.now())
            } else {
                read(stdout, version)
            }
        })
    }

    /// Keeps what a run showed and gave, and judges it as an answer for the image.
    fn take_in(&mut self, run: &Run) -> Result<(), Hopeless> {
        self.take_in_quietly(run)?;
        if let Outcome::Answered(response) = &run.outcome {
            self.report.pass(Check::Stdout, "one object and nothing else");
            let (now, report) = (SystemClock.now(), &mut self.report);
            judge::response(response, &self.image, self.proposal, now, report);
        }
        Ok(())
    }

    /// Keeps what a run showed and gave, for a question that needs no login as its answer.
    fn take_in_quietly(&mut self, run: &Run) -> Result<(), Hopeless> {
        self.report.take_in(run, self.plugin.budget, "")?;
        if let Outcome::Wrong { check, what, also, .. } = &run.outcome {
            self.report.fail_once(*check, run, what);
            if let Some((check, what)) = also {
                self.report.fail_once(*check, run, what);
            }
        }
        Ok(())
    }
}

/// A request without a token.
fn request(image: &str, version: Option<Version>) -> String {
    let image = image.to_owned();
    let request = Request { version, image, token: None, annotations: Vec::new() };
    request.to_json().expose().to_owned()
}
