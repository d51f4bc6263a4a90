//! Tests external signers: every scheme of the key, both modes, refusals, many at once.
//!
//! What a client does is done with the client's own code, so that its errors describe the faults.
//! What no client of ours does (junk on stdin, requests that cannot be answered) is sent by hand.

use std::{sync::Arc, time::Duration};

use keyward::tls::schemes;
use keyward_host::{
    Error, KeyKind, Kind, Kubeconfig, Overrides, Plan, PlanSettings, SignerCertificate,
    SignerPlugin, Sources, StderrMode, rules::Rules,
};
use keyward_process::{
    runner::{self, Cancel, Invocation, Status, Stdin},
    surroundings::Surroundings,
};
use keyward_protocol::{
    Secret,
    signer::{Configuration, Hash, Options, REQUEST_VARIABLE, Request, Response, SignRequest},
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{
    report::{Check, Report},
    run::Plugin,
};
use crate::{failure::Failure, globals::Globals};

/// Long enough for a person to notice with every connection.
const SLOW: Duration = Duration::from_secs(5);

/// The checks that apply to signers.
const CHECKS: [Check; 11] = [
    Check::Start,
    Check::Stdout,
    Check::Certificate,
    Check::Signatures,
    Check::Resident,
    Check::Secrets,
    Check::Failure,
    Check::Requests,
    Check::Stdin,
    Check::Concurrency,
    Check::Timing,
];

/// The text to sign: it cannot be mistaken for a handshake.
const TEXT: &[u8] = b"keyward plugin test: of no use to anybody";

/// An examination of a signer.
pub(super) struct SignerExam<'a> {
    plugin: &'a Plugin,
    configuration: Configuration,
    rules: Rules,
    surroundings: &'a Surroundings,
    report: Report,
    /// What the signer printed, to look for secrets in.
    shown: Vec<Zeroizing<Vec<u8>>>,
}

/// The result of a request sent by hand.
enum Outcome {
    Answered(Response),
    /// The signer failed as a plugin should.
    Refused,
    /// The signer did neither; describes what it did.
    Wrong(String),
}

impl<'a> SignerExam<'a> {
    pub(super) fn new(
        plugin: &'a Plugin,
        entries: &[(String, Secret)],
        globals: &'a Globals,
    ) -> Result<Self, Failure> {
        let mut configuration = Configuration::default();
        for (name, value) in entries {
            configuration.set(name, value.clone());
        }
        let path = plugin.program.display().to_string();
        configuration.set("pathExec", Secret::new(path));
        Ok(Self {
            plugin,
            configuration,
            rules: globals.rules()?,
            surroundings: &globals.surroundings,
            report: Report::new(&plugin.name, &CHECKS),
            shown: Vec::new(),
        })
    }

    /// Asks everything, unless there is no certificate to start with.
    pub(super) fn run(mut self) -> Report {
        let progress = &self.plugin.progress;
        progress.say("certificate");
        if let Some(certificate) = self.ask_certificate() {
            self.report.pass(Check::Start, "starts and answers");
            progress.say("signatures");
            self.ask_signatures(&certificate);
            progress.say("resident mode");
            self.ask_resident();
            progress.say("unusual requests");
            self.ask_variants(&certificate);
            self.ask_impossible(&certificate);
            progress.say("many at once");
            self.ask_crowd(&certificate);
        }
        self.check_secrets();
        self.report.timing(SLOW, "people wait for it with every connection");
        self.report
    }

    fn ask_certificate(&mut self) -> Option<Arc<SignerCertificate>> {
        match self.open(false) {
            Ok(None) => {
                self.report.fail(Check::Certificate, "gives no certificate");
                None
            }
            Ok(Some(certificate)) => {
                let name = certificate.common_name.clone().unwrap_or_default();
                let what = format!(
                    "{} for `{}`, until {}, {} in the chain",
                    certificate.key.name(),
                    keyward_protocol::text::clean(&name),
                    certificate.not_after,
                    certificate.chain.len()
                );
                self.report.pass(Check::Certificate, what);
                self.report.pass(Check::Stdout, "carries the answers alone");
                Some(certificate)
            }
            Err(error) => {
                let check = match error.kind() {
                    Kind::NotFound => Check::Start,
                    Kind::TimedOut => Check::Timing,
                    _ if error.to_string().contains("certificate") => Check::Certificate,
                    Kind::BadAnswer => Check::Stdout,
                    _ => Check::Certificate,
                };
                self.report.fail(check, describe(&error));
                None
            }
        }
    }

    fn ask_signatures(&mut self, certificate: &SignerCertificate) {
        let (mut good, mut lacking) = (Vec::new(), Vec::new());
        for scheme in schemes(certificate.key) {
            match scheme.sign(certificate, TEXT, &Cancel::default()) {
                Ok(_) => good.push(scheme.name()),
                Err(error) if error.to_string().contains("cannot do what it was asked") => {
                    lacking.push(format!("{}: {}", scheme.name(), describe(&error)));
                }
                Err(error) => {
                    let what = format!("{}: {}", scheme.name(), describe(&error));
                    self.report.fail(Check::Signatures, what);
                    // A signer that hangs or needs a person does so every time.
                    if !matches!(error.kind(), Kind::Failed | Kind::BadAnswer) {
                        break;
                    }
                }
            }
        }
        for what in lacking {
            if good.is_empty() {
                self.report.fail(Check::Signatures, what);
            } else {
                self.report.warn(Check::Signatures, what);
            }
        }
        self.report.pass(Check::Signatures, format!("right by {}", good.join(", ")));
    }

    /// The signer keeps running, unlocks first, signs more than once, and exits when its stdin
    /// closes.
    fn ask_resident(&mut self) {
        let talk = || -> Result<(), Error> {
            let Some(certificate) = self.open(true)? else { return Ok(()) };
            let stop = Cancel::default();
            certificate.unlock(&stop)?;
            for scheme in schemes(certificate.key).iter().take(2) {
                scheme.sign(&certificate, TEXT, &stop)?;
            }
            Ok(())
        };
        match talk() {
            Ok(()) => {}
            Err(error) if error.to_string().contains("ended before it answered") => {
                let what = "does not keep running: clients that set `resident` cannot use it";
                self.report.warn(Check::Resident, what);
                return;
            }
            Err(error) => self.report.fail(Check::Resident, describe(&error)),
        }
        let line = Request::Certificate(self.configuration.clone()).to_json();
        let lines = Zeroizing::new(format!("{0}\n{0}\n", line.expose()).into_bytes());
        let session = Request::Session.to_json();
        match self.run_once(session.expose(), Stdin::Request(lines)) {
            Err(failure) => {
                let what = format!("does not end when its stdin does: {failure}");
                self.report.fail(Check::Resident, what);
            }
            Ok(output) => {
                let lines: Vec<_> = output.stdout.trim_ascii().split(|b| *b == b'\n').collect();
                let right =
                    |line: &&[u8]| matches!(Response::read(line), Ok(Response::Certificate(_)));
                if lines.len() != 2 || !lines.iter().all(right) {
                    let what = "two lines on stdin are not answered by one line each";
                    self.report.fail(Check::Resident, what);
                } else if output.status != Status::Code(0) {
                    self.report.fail(Check::Resident, "does not end with 0 when its stdin ends");
                }
            }
        }
        self.report
            .pass(Check::Resident, "keeps running, unlocks, and exits when its stdin closes");
    }

    /// Unknown fields, and a stdin that belongs to somebody else, must not change anything.
    fn ask_variants(&mut self, certificate: &SignerCertificate) {
        let plain = Request::Certificate(self.configuration.clone()).to_json();
        let more = plain.expose().replacen('{', "{\"x-unknown\":[{\"deep\":1.5}],", 1);
        let what = "asked with unknown fields";
        self.expect_certificate(Check::Requests, what, &more, Stdin::Closed, certificate);
        let other = plain.expose().replacen("CertificateRequest", "NoSuchRequest", 1);
        for (what, text) in [
            ("asked something unreadable", "{\"kind\":"),
            ("asked in an unknown kind", other.as_str()),
        ] {
            let answered = format!("{what}, it answers as if it were something else");
            self.expect_refusal(Check::Requests, what, text, answered);
        }
        self.report.pass(Check::Requests, "accepts unknown fields, declines what it cannot read");
        let junk = Stdin::Request(Zeroizing::new(b"kind: ConfigMap\n".to_vec()));
        let what = "with something on stdin";
        self.expect_certificate(Check::Stdin, what, plain.expose(), junk, certificate);
        self.report.pass(Check::Stdin, "is not disturbed by it");
    }

    fn expect_certificate(
        &mut self,
        check: Check,
        what: &str,
        text: &str,
        stdin: Stdin,
        certificate: &SignerCertificate,
    ) {
        match self.ask(text, stdin) {
            Outcome::Answered(Response::Certificate(answer))
                if answer.certificate == certificate.chain[0] => {}
            Outcome::Answered(_) => {
                self.report.fail(check, format!("{what}, it answers something else"));
            }
            Outcome::Refused => self.report.fail(check, format!("{what}, it fails")),
            Outcome::Wrong(wrong) => self.report.fail(check, format!("{what}, it {wrong}")),
        }
    }

    /// Sends a request that must be refused; `answered` says what is wrong with an answer.
    fn expect_refusal(&mut self, check: Check, what: &str, text: &str, answered: String) {
        match self.ask(text, Stdin::Closed) {
            Outcome::Refused => {}
            Outcome::Answered(_) => self.report.fail(check, answered),
            Outcome::Wrong(wrong) => self.report.fail(check, format!("{what}, it {wrong}")),
        }
    }

    /// Asks for what a key of this kind cannot do.
    fn ask_impossible(&mut self, certificate: &SignerCertificate) {
        let (options, digest) = match certificate.key {
            KeyKind::Rsa => (Options::Message, vec![7; 130]),
            KeyKind::Ed25519 => (Options::Digest(Hash::Sha256), vec![7; 32]),
            _ => (Options::Pss(Hash::Sha256), vec![7; 32]),
        };
        let configuration = self.configuration.clone();
        let request = Request::Sign(SignRequest { configuration, digest, options }).to_json();
        let answered = format!(
            "signs as {} {}, which a key of kind {} cannot",
            options.kind(),
            options.value(),
            certificate.key.name()
        );
        let what = "asked for the impossible";
        self.expect_refusal(Check::Failure, what, request.expose(), answered);
        self.report.pass(Check::Failure, "every failure has an exit code and a reason");
    }

    /// Clients do not wait for each other.
    fn ask_crowd(&mut self, certificate: &SignerCertificate) {
        let request = Request::Certificate(self.configuration.clone()).to_json();
        let outputs = self.plugin.crowd(|| self.run_once(request.expose(), Stdin::Closed));
        let good = outputs.iter().flatten().filter(|output| {
            matches!(Response::read(&output.stdout), Ok(Response::Certificate(answer))
                if answer.certificate == certificate.chain[0])
        });
        let (good, all) = (good.count(), self.plugin.at_once);
        if good < all {
            let what = format!("of {all} at once, {good} returned the certificate");
            self.report.fail(Check::Concurrency, what);
        }
        self.report.pass(Check::Concurrency, format!("{all} at once do not disturb each other"));
    }

    fn check_secrets(&mut self) {
        let mut secrets: Vec<&str> = vec!["PRIVATE KEY-----"];
        let pins = self.configuration.iter().filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            ["pin", "secret", "password", "token"].iter().any(|word| name.contains(word))
        });
        secrets.extend(pins.map(|(_, value)| value.expose()).filter(|text| text.len() >= 4));
        let found = self.shown.iter().any(|shown| {
            let text = String::from_utf8_lossy(shown);
            secrets.iter().any(|secret| text.contains(secret))
        });
        if found {
            self.report.fail(Check::Secrets, "shows a PIN, or another secret of its configuration");
        } else if self.shown.is_empty() {
            self.report.skip(Check::Secrets, "there was nothing to look at");
        } else {
            self.report.pass(Check::Secrets, "shows none");
        }
    }

    /// The certificate, obtained with our own client.
    fn open(&self, resident: bool) -> Result<Option<Arc<SignerCertificate>>, Error> {
        let mut config: serde_json::Map<String, Value> = self
            .configuration
            .iter()
            .map(|(name, value)| (name.to_owned(), value.expose().into()))
            .collect();
        config.insert("resident".to_owned(), resident.to_string().into());
        let text = Zeroizing::new(
            json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{ "name": "test", "cluster": { "server": "https://127.0.0.1:9" } }],
                "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
                "users": [{ "name": "test", "user": {
                    "auth-provider": { "name": SignerPlugin::PROVIDER, "config": config },
                } }],
            })
            .to_string(),
        );
        let kubeconfig = Kubeconfig::from_bytes(text.as_bytes())?;
        let target = kubeconfig.resolve(&Overrides::default(), self.surroundings)?;
        let mut settings = PlanSettings::default();
        settings.unattended = self.plugin.budget;
        settings.stderr = StderrMode::Kept;
        let plan = Plan::new(target, &self.rules, self.surroundings, settings)?;
        let credential = Sources::global().open(&plan).credential_blocking()?;
        Ok(credential.signer().cloned())
    }

    fn ask(&mut self, text: &str, stdin: Stdin) -> Outcome {
        let output = match self.run_once(text, stdin) {
            Ok(output) => output,
            Err(failure) => return Outcome::Wrong(format!("does not end: {failure}")),
        };
        self.report.times.push(output.took);
        let answer = Response::read(&output.stdout);
        let silent = output.stderr.trim_ascii().is_empty();
        self.shown.push(output.stdout);
        self.shown.push(output.stderr);
        match (output.status, answer) {
            (Status::Code(0), Ok(Response::Error(_))) => {
                Outcome::Wrong("fails but exits with 0".to_owned())
            }
            (Status::Code(0), Ok(answer)) => Outcome::Answered(answer),
            (Status::Code(0), Err(wrong)) => {
                Outcome::Wrong(format!("exits with 0 and no answer: {wrong}"))
            }
            (Status::Signal(signal), _) => Outcome::Wrong(format!("is ended by signal {signal}")),
            (_, Ok(Response::Error(_))) => Outcome::Refused,
            _ if silent => Outcome::Wrong("fails without a reason".to_owned()),
            _ => Outcome::Refused,
        }
    }

    fn run_once(&self, text: &str, stdin: Stdin) -> Result<runner::Output, runner::Failure> {
        // A signer is started without arguments.
        let invocation = Invocation {
            stdin,
            args: Vec::new(),
            ..self.plugin.invocation(REQUEST_VARIABLE, Some(text))
        };
        runner::run(&invocation, &Cancel::default())
    }
}

/// An error and its causes, in one line.
fn describe(error: &Error) -> String {
    let noted = error.notes().iter().filter(|(label, _)| *label == "it says");
    let noted = noted.map(|(_, note)| note.as_str());
    let last = error.stderr().and_then(|said| said.trim().lines().last());
    let mut text = error.to_string();
    for said in noted.chain(last) {
        text.push_str("; it says: ");
        text.push_str(said);
    }
    keyward_protocol::text::clean(&text)
}
