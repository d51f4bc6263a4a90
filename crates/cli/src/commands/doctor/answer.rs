//! The credential that came: what it is, for whom, and until when. Never the secret itself.

use std::error::Error as _;

use jiff::{SignedDuration, Timestamp};
use keyward_host::{Credential, Error, ExecPlugin, Target};
use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::{
    exec::{AnswerError, Version},
    jwt::Claims,
    time::format_rfc3339,
    x509::Certificate,
};

use super::{
    credential::Got,
    fix,
    step::{Check, Report, State, Step},
};
use crate::{globals::Globals, output::inline};

/// A credential that ends sooner than this is worth a note.
const SOON: SignedDuration = SignedDuration::from_secs(60);

/// Adds the step. `offset` is how far the server's clock is ahead of ours.
pub(super) fn check(
    report: &mut Report,
    globals: &Globals,
    target: &Target,
    got: &Got,
    offset: Option<SignedDuration>,
) {
    let step = match (&got.credential, &got.bad_answer) {
        (Some(credential), _) => {
            for name in names(credential) {
                report.names.add("name", &name);
            }
            describe(credential, got, offset.unwrap_or_default()).at(&target.user.place)
        }
        (None, Some(error)) => unread(globals, target, error),
        (None, None) => Step::skipped(Check::Answer, Check::Run),
    };
    report.add(step);
}

fn unread(globals: &Globals, target: &Target, error: &Error) -> Step {
    let step = Step::failed(Check::Answer, &error.clone().into()).at(&target.user.place);
    let Some(wrong) = error.source().and_then(|cause| cause.downcast_ref::<AnswerError>()) else {
        return step;
    };
    let user = &target.user.name;
    match wrong {
        AnswerError::VersionMismatch { found: Some(found), .. } => {
            let version = format!("--exec-api-version={}", found.api_version());
            let mut words = vec!["set-credentials", user, &version];
            if *found == Version::V1 {
                words.push("--exec-interactive-mode=IfAvailable");
            }
            step.fix_alone(fix::kubectl_config(globals, &words))
        }
        AnswerError::Decode { .. } => step.advice(
            "the plugin must print only the `ExecCredential` to stdout, and all else to stderr; \
             `keyward plugin test` shows what it prints",
        ),
        _ => step.advice("`keyward plugin test` checks the plugin's answer"),
    }
}

fn describe(credential: &Credential, got: &Got, offset: SignedDuration) -> Step {
    let now = SystemClock.now();
    let mut kinds = Vec::new();
    let mut step = Step::ok(Check::Answer, "");
    let mut ends: Vec<(&str, Timestamp)> = Vec::new();
    let mut begins: Vec<(&str, Timestamp)> = Vec::new();
    let claims = credential.token().and_then(|token| Claims::read(token.expose()));
    if let Some(claims) = &claims {
        kinds.push("a token (JWT)");
        step = of_claims(step, claims);
        ends.extend(claims.time("exp").map(|time| ("token", time)));
        begins.extend(claims.time("nbf").map(|time| ("token", time)));
    } else if credential.token().is_some() {
        kinds.push("a token");
    } else if credential.authorization().is_some() {
        kinds.push("a user name with password");
    }
    if let Some(pair) = credential.pair() {
        kinds.push("a client certificate");
        step = of_certificate(step, pair.chain.first().map(Vec::as_slice));
        ends.push(("certificate", pair.not_after));
        begins.push(("certificate", pair.not_before));
    }
    if let Some(signer) = credential.signer() {
        kinds.push("a client certificate whose key a signer holds");
        step = of_certificate(step, signer.chain.first().map(Vec::as_slice));
        ends.push(("certificate", signer.not_after));
        begins.push(("certificate", signer.not_before));
    }
    let version = got.opened.as_ref().and_then(|(plan, _)| plan.plugin().map(ExecPlugin::version));
    let version = version.map(|version| format!(" in {}", version.name())).unwrap_or_default();
    step.message = match kinds.as_slice() {
        [] => "no credential: requests are anonymous".to_owned(),
        kinds => format!("{}{version}", kinds.join(" and ")),
    };
    if let Some(expires) = credential.expires() {
        ends.insert(0, ("credential", expires));
    }
    for (what, time) in &ends {
        step = step.detail(format!("{what} until"), until(*time, now));
    }
    judge(step, &ends, &begins, now, offset)
}

/// What the dates make of it.
fn judge(
    step: Step,
    ends: &[(&str, Timestamp)],
    begins: &[(&str, Timestamp)],
    now: Timestamp,
    offset: SignedDuration,
) -> Step {
    let really = now.saturating_add(offset).unwrap_or(now);
    if let Some((what, time)) = ends.iter().find(|(_, time)| *time <= now) {
        let when = format_rfc3339(*time);
        if *time > really {
            let message = format!("the {what} looks expired only because this clock is wrong");
            return step.turned(State::Note, message);
        }
        let message = format!("the {what} had already expired at {when}");
        return step.turned(State::Fault, message).advice(
            "the plugin, or what keeps its login, returned an old credential: log in again, or \
             delete the plugin's cache",
        );
    }
    if let Some((what, time)) = begins.iter().find(|(_, time)| *time > now) {
        let when = format_rfc3339(*time);
        return step.turned(State::Note, format!("the {what} is not valid before {when}"));
    }
    match ends.iter().find(|(_, time)| now.duration_until(*time) < SOON) {
        Some((what, _)) => step.turned(State::Note, format!("the {what} expires within a minute")),
        None => step,
    }
}

fn of_claims(mut step: Step, claims: &Claims) -> Step {
    for (label, name) in [("issuer", "iss"), ("subject", "sub")] {
        if let Some(text) = claims.text(name) {
            step = step.detail(label, inline(text));
        }
    }
    let audience = claims.audience();
    if !audience.is_empty() {
        step = step.detail("audience", inline(&audience.join(", ")));
    }
    match claims.time("iat") {
        Some(time) => step.detail("issued", format_rfc3339(time)),
        None => step,
    }
}

fn of_certificate(step: Step, der: Option<&[u8]>) -> Step {
    match der.and_then(Certificate::parse) {
        Some(certificate) => step
            .detail("subject", certificate.subject.to_string())
            .detail("issuer", certificate.issuer.to_string()),
        None => step,
    }
}

/// Names that a report should not show with `--redact`.
fn names(credential: &Credential) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(claims) = credential.token().and_then(|token| Claims::read(token.expose())) {
        names.extend(["iss", "sub"].iter().filter_map(|name| claims.text(name)).map(str::to_owned));
        names.extend(claims.audience().into_iter().map(str::to_owned));
    }
    let pair = credential.pair().and_then(|pair| pair.chain.first());
    let signed = credential.signer().and_then(|signer| signer.chain.first());
    for certificate in
        [pair, signed].into_iter().flatten().filter_map(|der| Certificate::parse(der))
    {
        names.push(certificate.subject.to_string());
        names.push(certificate.issuer.to_string());
    }
    names
}

/// A time, and how far away it is.
pub(super) fn until(time: Timestamp, now: Timestamp) -> String {
    let left = now.duration_until(time);
    let shown = span(left);
    let when = format_rfc3339(time);
    if left.is_negative() { format!("{when}, {shown} ago") } else { format!("{when}, in {shown}") }
}

/// A time span for people, whatever its sign: days, or less in Go's form.
pub(super) fn span(time: SignedDuration) -> String {
    let seconds = time.abs().as_secs().unsigned_abs();
    match seconds / 86_400 {
        days @ 2.. => format!("{days} days"),
        _ => crate::duration::show(std::time::Duration::from_secs(seconds)),
    }
}
