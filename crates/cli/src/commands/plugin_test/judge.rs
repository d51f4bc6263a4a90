//! Judges whether a client could use an answer.

use std::error::Error as _;

use jiff::Timestamp;
use keyward::tls::check_pair;
use keyward_host::Pair;
use keyward_protocol::{
    exec::{Answer, PemPair},
    image::token_expiry,
    time::format_rfc3339,
};

use super::report::{Check, Report};

/// Less expires before the client has used it.
const TOO_SHORT: i64 = 5;
/// Less makes clients run the plugin all the time.
const SHORT: i64 = 30;
/// More must be a mistake in the unit.
const TOO_LONG: i64 = 10 * 365 * 86_400;
/// More is not short-lived.
const LONG: i64 = 366 * 86_400;

/// Judges everything in an answer.
pub(super) fn answer(answer: &Answer, now: Timestamp, report: &mut Report) {
    credential(answer, report);
    expiry(answer, now, report);
    if let Some(pair) = &answer.pair {
        certificate(pair, answer, now, report);
    }
}

fn credential(answer: &Answer, report: &mut Report) {
    if let Some(token) = &answer.token {
        let token = token.expose();
        if token.get(..7).is_some_and(|t| t.eq_ignore_ascii_case("bearer ")) {
            report.fail(Check::Credential, "the token begins with `Bearer`, which clients add");
        } else if !token.bytes().all(|b| (b'!'..=b'~').contains(&b)) {
            report.fail(
                Check::Credential,
                "the token has a blank, a line break or another character that no header can \
                 contain",
            );
        }
    }
    let what = match (&answer.token, &answer.pair) {
        (Some(_), Some(_)) => "a token and a certificate",
        (Some(_), None) => "a token",
        _ => "a certificate",
    };
    report.pass(Check::Credential, what);
}

fn expiry(answer: &Answer, now: Timestamp, report: &mut Report) {
    let own = answer.token.as_ref().and_then(|token| token_expiry(token.expose()));
    let Some(end) = answer.expires else {
        if own.is_some() {
            let what = "the token expires but the answer has no expiry: clients notice only when it is rejected";
            report.warn(Check::Expiry, what);
        }
        report.pass(Check::Expiry, "none: clients keep it until they exit or it is rejected");
        return;
    };
    let left = end.as_second() - now.as_second();
    let when = format_rfc3339(end);
    if left <= 0 {
        report.fail(Check::Expiry, format!("it has already expired: {when}"));
    } else if left <= TOO_SHORT {
        report.fail(Check::Expiry, format!("it expires in {left} s, before it can be used"));
    } else if left < SHORT {
        let what = format!("it is only {left} s away: clients will run the plugin all the time");
        report.warn(Check::Expiry, what);
    } else if left >= TOO_LONG {
        report.fail(Check::Expiry, format!("it is absurdly far away: {when}"));
    } else if left >= LONG {
        report.warn(Check::Expiry, format!("it is more than a year away: {when}"));
    } else {
        report.pass(Check::Expiry, "in a sensible future");
    }
    if let Some(own) = own
        && own < end.as_second()
    {
        report.fail(
            Check::Expiry,
            format!(
                "it is {} s after the token expires: clients would keep an expired token",
                end.as_second() - own
            ),
        );
    }
}

fn certificate(pair: &PemPair, answer: &Answer, now: Timestamp, report: &mut Report) {
    let pair = match Pair::parse(&pair.certificate, &pair.key) {
        Ok(pair) => pair,
        Err(error) => {
            let what = format!("certificate and key do not match: {error}");
            report.fail(Check::Certificate, what);
            return;
        }
    };
    // The checks that a client makes before its first handshake.
    if let Err(error) = check_pair(&pair) {
        let cause = error.source().map(|cause| format!(" ({cause})")).unwrap_or_default();
        report.fail(Check::Certificate, format!("{error}{cause}"));
        return;
    }
    if now >= pair.not_after {
        let what = format!("the certificate expired at {}", format_rfc3339(pair.not_after));
        report.fail(Check::Certificate, what);
    } else if now < pair.not_before {
        let what =
            format!("the certificate is not valid before {}", format_rfc3339(pair.not_before));
        report.fail(Check::Certificate, what);
    } else if answer.expires.is_some_and(|end| end > pair.not_after) {
        let what = format!(
            "the certificate expires at {}, before the answer's `expirationTimestamp`",
            format_rfc3339(pair.not_after)
        );
        report.fail(Check::Certificate, what);
    }
    report.pass(Check::Certificate, "it is valid and matches the key");
}
