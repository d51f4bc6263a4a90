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
    names::Names,
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
            let offset = offset.unwrap_or_default();
            describe(credential, got, offset, &mut report.names).at(&target.user.place)
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
    match wrong {
        AnswerError::VersionMismatch { found: Some(found), .. } => {
            let version = format!("--exec-api-version={}", found.api_version());
            let mut flags = vec![version.as_str()];
            if *found == Version::V1 {
                flags.push("--exec-interactive-mode=IfAvailable");
            }
            step.fix_alone(fix::set_user(globals, &target.user.name, &flags))
        }
        AnswerError::Decode { .. } => step.advice(
            "the plugin must print only the `ExecCredential` to stdout, and all else to stderr; \
             `keyward plugin test` shows what it prints",
        ),
        _ => step.advice("`keyward plugin test` checks the plugin's answer"),
    }
}

/// Describes the credential, and learns the names that `--redact` hides.
fn describe(credential: &Credential, got: &Got, offset: SignedDuration, names: &mut Names) -> Step {
    let now = SystemClock.now();
    let mut kinds = Vec::new();
    let mut step = Step::ok(Check::Answer, "");
    let mut ends: Vec<(&str, Timestamp)> = Vec::new();
    let mut begins: Vec<(&str, Timestamp)> = Vec::new();
    let claims = credential.token().and_then(|token| Claims::read(token.expose()));
    if let Some(claims) = &claims {
        kinds.push("a token (JWT)");
        step = of_claims(step, claims, names);
        ends.extend(claims.time("exp").map(|time| ("token", time)));
        begins.extend(claims.time("nbf").map(|time| ("token", time)));
    } else if credential.token().is_some() {
        kinds.push("a token");
    } else if credential.authorization().is_some() {
        kinds.push("a user name with password");
    }
    let pair = credential
        .pair()
        .map(|pair| ("a client certificate", pair.chain.first(), pair.not_before, pair.not_after));
    let signer = credential.signer().map(|signer| {
        let kind = "a client certificate whose key a signer holds";
        (kind, signer.chain.first(), signer.not_before, signer.not_after)
    });
    for (kind, der, not_before, not_after) in pair.into_iter().chain(signer) {
        kinds.push(kind);
        step = of_certificate(step, der, names);
        ends.push(("certificate", not_after));
        begins.push(("certificate", not_before));
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

fn of_claims(mut step: Step, claims: &Claims, names: &mut Names) -> Step {
    for (label, name) in [("issuer", "iss"), ("subject", "sub")] {
        if let Some(text) = claims.text(name) {
            names.add("name", text);
            step = step.detail(label, inline(text));
        }
    }
    let audience = claims.audience();
    for name in &audience {
        names.add("name", name);
    }
    if !audience.is_empty() {
        step = step.detail("audience", inline(&audience.join(", ")));
    }
    match claims.time("iat") {
        Some(time) => step.detail("issued", format_rfc3339(time)),
        None => step,
    }
}

fn of_certificate(mut step: Step, der: Option<&Vec<u8>>, names: &mut Names) -> Step {
    let Some(certificate) = der.and_then(|der| Certificate::parse(der)) else { return step };
    for (label, name) in [("subject", certificate.subject), ("issuer", certificate.issuer)] {
        let name = name.to_string();
        names.add("name", &name);
        step = step.detail(label, name);
    }
    step
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
