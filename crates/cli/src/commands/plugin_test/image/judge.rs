//! Judges whether a node could use an answer.

use jiff::Timestamp;
use keyward_image::{Keyring, Pattern};
use keyward_protocol::{
    duration,
    image::{CacheKey, Login, Response, token_expiry},
};

use crate::{
    commands::plugin_test::report::{Check, Report},
    output::count,
};

const SECOND: i64 = 1_000_000_000;
/// More must be a mistake in the unit.
const TOO_LONG: i64 = 366 * 86_400 * SECOND;
/// More is longer than most registries let a login live.
const LONG: i64 = 24 * 3600 * SECOND;
/// Less makes a node run the provider all the time.
const SHORT: i64 = 10 * SECOND;

/// Judges an answer for an image that the provider should know; `proposal` if it came in the original proposal's form.
pub(super) fn response(
    response: &Response,
    image: &str,
    proposal: bool,
    now: Timestamp,
    report: &mut Report,
) {
    key(response, report);
    logins(response, image, report);
    match (proposal, response.duration) {
        (true, Some(0)) => {
            let what = "answers without `expirationTimestamp`: it is run for every pull";
            report.warn(Check::Expiry, what);
            report.pass(Check::Expiry, "no `expirationTimestamp`: not kept");
        }
        (true, Some(..0)) => report.fail(Check::Expiry, "`expirationTimestamp` is in the past"),
        (true, _) => kept(response, "expirationTimestamp", now, report),
        (false, _) => kept(response, "cacheDuration", now, report),
    }
}

fn key(response: &Response, report: &mut Report) {
    let with_path = |(pattern, _): &(String, _)| pattern.contains('/');
    match &response.key {
        CacheKey::Other(_) => report.fail(
            Check::Credential,
            "answers without a `cacheKeyType` of `Image`, `Registry` or `Global`",
        ),
        CacheKey::Registry | CacheKey::Global
            if !response.auth.is_empty() && response.auth.iter().all(with_path) =>
        {
            let what = format!(
                "is kept under `{}`, but has logins for some paths only: other images would be \
                 pulled without one",
                response.key.name()
            );
            report.warn(Check::Credential, what);
        }
        _ => {}
    }
}

fn logins(response: &Response, image: &str, report: &mut Report) {
    if response.auth.is_empty() {
        let what = format!("answers without a login for `{image}`: name an image that it knows");
        report.fail(Check::Credential, what);
        return;
    }
    for (pattern, login) in &response.auth {
        let shown = keyward_protocol::text::clean(pattern);
        if pattern.contains("://") || Pattern::parse(pattern).is_err() {
            let what =
                format!("`{shown}` is not a registry pattern: use the form `host[:port][/path]`");
            report.fail(Check::Credential, what);
        }
        // A provider says with an empty login that an image may also be pulled anonymously.
        if login.username.is_empty() != login.password.is_empty() {
            let what = format!("the user name or the password for `{shown}` is empty");
            report.fail(Check::Credential, what);
        } else if login.username.contains(':') {
            let what = format!(
                "the user name for `{shown}` has a colon, which cannot be sent to a registry"
            );
            report.fail(Check::Credential, what);
        }
    }
    let mut keyring = Keyring::default();
    let is_login = |login: &Login| !login.username.is_empty() || !login.password.is_empty();
    let real = response.auth.iter().filter(|(_, login)| is_login(login));
    keyring.add(real.clone().cloned());
    if keyring.lookup(image).is_empty() {
        let what = format!("has logins, but none of their patterns matches `{image}`");
        report.fail(Check::Credential, what);
    }
    let count = count(real.count(), "login");
    report.pass(Check::Credential, format!("{count} under `{}`", response.key.name()));
}

/// Judges how long an answer is kept; `field` says so in it.
fn kept(response: &Response, field: &str, now: Timestamp, report: &mut Report) {
    let own =
        response.auth.iter().filter_map(|(_, login)| token_expiry(login.password.expose())).min();
    let Some(nanos) = response.duration else {
        if own.is_some() {
            let what = "the password is a token that expires and the answer has no `cacheDuration`: \
                        the node's default may keep it for longer";
            report.warn(Check::Expiry, what);
        }
        report.pass(Check::Expiry, "no `cacheDuration`: the node's default applies");
        return;
    };
    let shown = duration::format(nanos);
    if nanos < 0 {
        report.fail(Check::Expiry, format!("`{field}` is negative: {shown}"));
    } else if nanos == 0 {
        report.warn(Check::Expiry, format!("`{field}` is zero: it is run for every pull"));
    } else if nanos < SHORT {
        report.warn(Check::Expiry, format!("`{field}` is only {shown}: it is run all the time"));
    } else if nanos > TOO_LONG {
        report.fail(Check::Expiry, format!("`{field}` is absurdly long: {shown}"));
    } else if nanos > LONG {
        report.warn(Check::Expiry, format!("`{field}` is longer than a day: {shown}"));
    }
    if let Some(own) = own {
        let left = own - now.as_second();
        if left <= 0 {
            report.fail(Check::Expiry, "the password is a token that has already expired");
        } else if nanos / SECOND > left {
            let late = nanos / SECOND - left;
            let what = format!(
                "`{field}` ends {late} s after the token expires: nodes would cache an expired one"
            );
            report.fail(Check::Expiry, what);
        }
    }
    report.pass(Check::Expiry, format!("kept for {shown}"));
}
