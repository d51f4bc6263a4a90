//! `aws-iam-authenticator verify`: checks a token by its form, and asks STS who signed it.

use std::process::ExitCode;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use keyward_plugin::{Refusal, Url};
use keyward_protocol::{text::inline, url::percent_decode};
use serde_json::{Value, json};

use super::{
    authenticator,
    token::{CLUSTER, PREFIX},
};
use crate::{
    Call,
    aws::{Aws, is_region},
    flags::Flags,
};

/// The longest token that the servers take.
const LONGEST: usize = 4096;

/// The names that the query may have, in lower case.
const NAMES: [&str; 9] = [
    "action",
    "version",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-security-token",
    "x-amz-signature",
    "x-amz-signedheaders",
];

/// How old a token may be.
const OLDEST: SignedDuration = SignedDuration::from_mins(15);

/// How far ahead the clock of whoever signed may be.
const SKEW: SignedDuration = SignedDuration::from_mins(15);

/// The partitions, with the domains of their STS.
const PARTITIONS: [(&str, &[&str]); 8] = [
    ("aws", &["amazonaws.com", "api.aws"]),
    ("aws-cn", &["amazonaws.com.cn", "api.amazonwebservices.com.cn"]),
    ("aws-us-gov", &["amazonaws.com", "api.aws"]),
    ("aws-iso", &["c2s.ic.gov"]),
    ("aws-iso-b", &["sc2s.sgov.gov"]),
    ("aws-iso-e", &["cloud.adc-e.uk"]),
    ("aws-iso-f", &["csp.hci.ic.gov"]),
    ("aws-eusc", &["amazonaws.eu", "api.amazonwebservices.eu"]),
];

pub(super) fn run(call: &Call, flags: &Flags) -> Result<ExitCode, Refusal> {
    let cluster = authenticator::cluster(call, flags)?;
    let token = flags.text("token").ok_or_else(|| {
        Refusal::bad_config(
            "no token is given\n\nhint: `aws-iam-authenticator verify -t TOKEN -i CLUSTER`",
        )
    })?;
    let partition = flags.text("partition").unwrap_or("aws");
    let url = check(token, partition, call.clock.now()).map_err(Refusal::NotAllowed)?;
    let aws = Aws::open(call, call.question()?, None, None)?;
    // With an endpoint configured for STS, that is asked instead of the token's host.
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let url = match aws.endpoint("STS") {
        Some(other) => format!("{}/?{query}", other.trim_end_matches('/')),
        None => url,
    };
    let answer =
        aws.send("GET", &url, &[("accept", "application/json"), (CLUSTER, &cluster)], "")?;
    if answer.status != 200 {
        return Err(Refusal::NotAllowed(format!(
            "STS refuses the token: status {}",
            answer.status
        )));
    }
    let caller = read(answer.body.expose())
        .ok_or_else(|| Refusal::failed("STS answered in a way that cannot be read"))?;
    match flags.text("output") {
        Some("json") => call.print(&format!("{caller:#}\n")),
        _ => call.print(&format!("{caller}\n")),
    }
}

/// The URL in a token, if a server would ask STS with it.
fn check(token: &str, partition: &str, now: Timestamp) -> Result<String, String> {
    if token.len() > LONGEST {
        return Err(format!("the token is longer than {LONGEST} bytes"));
    }
    let encoded = token
        .strip_prefix(PREFIX)
        .ok_or_else(|| format!("the token does not begin with `{PREFIX}`"))?;
    let bytes = URL_SAFE_NO_PAD
        .decode(encoded.trim_end_matches('='))
        .map_err(|_| "the token is not base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "the token is no text")?;
    let url = Url::parse(&text).map_err(|_| "the token contains no URL")?;
    if url.scheme() != "https" || url.path() != "/" || url.port().is_some() || url.user().is_some()
    {
        return Err("the token's URL is not `https://HOST/`".into());
    }
    let host = url.host().unwrap_or_default();
    if !is_sts(host, partition) {
        return Err(format!(
            "`{}` is no STS host of the partition `{}`",
            inline(host),
            inline(partition)
        ));
    }
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let mut seen: Vec<(String, String)> = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = name.to_ascii_lowercase();
        if !NAMES.contains(&name.as_str()) || seen.iter().any(|(known, _)| *known == name) {
            return Err(format!(
                "the token's URL has an unknown or repeated parameter `{}`",
                inline(&name)
            ));
        }
        let value = percent_decode(value).and_then(|bytes| String::from_utf8(bytes).ok());
        seen.push((name, value.ok_or("the token's URL has a parameter that is no text")?));
    }
    let get =
        |name: &str| seen.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    if get("action") != Some("GetCallerIdentity") {
        return Err("the token is for another action than `GetCallerIdentity`".into());
    }
    if !get("x-amz-signedheaders").unwrap_or_default().split(';').any(|name| name == CLUSTER) {
        return Err(format!("the token does not sign `{CLUSTER}`"));
    }
    let life: Option<i64> = get("x-amz-expires").and_then(|text| text.parse().ok());
    if !life.is_some_and(|life| (0..=900).contains(&life)) {
        return Err("the token's `X-Amz-Expires` is not between 0 and 900".into());
    }
    let date = get("x-amz-date").and_then(date).ok_or("the token has no `X-Amz-Date`")?;
    if now.duration_since(date) > OLDEST {
        return Err("the token is older than 15 minutes".into());
    }
    if date.duration_since(now) > SKEW {
        return Err("the token is from the future".into());
    }
    Ok(text)
}

fn date(text: &str) -> Option<Timestamp> {
    let date = DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
    date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// Whether a host is STS in this partition: global, regional, FIPS or dual-stack.
fn is_sts(host: &str, partition: &str) -> bool {
    if partition == "aws" && host == "sts.amazonaws.com" {
        return true;
    }
    let Some((_, domains)) = PARTITIONS.iter().find(|(name, _)| *name == partition) else {
        return false;
    };
    let Some((service, rest)) = host.split_once('.') else { return false };
    let Some((region, domain)) = rest.split_once('.') else { return false };
    let is_government = region.starts_with("us-gov-");
    matches!(service, "sts" | "sts-fips")
        && is_region(region)
        && domains.contains(&domain)
        && (partition != "aws" || !is_government)
        && (partition != "aws-us-gov" || is_government)
}

/// The caller in STS's answer, in JSON or, from test servers, in XML.
fn read(answer: &str) -> Option<Value> {
    let tag = |name: &str| {
        let start = answer.find(&format!("<{name}>"))? + name.len() + 2;
        let end = answer[start..].find(&format!("</{name}>"))? + start;
        Some(answer[start..end].to_owned())
    };
    let (arn, account, user) = match serde_json::from_str::<Value>(answer) {
        Ok(value) => {
            let result = &value["GetCallerIdentityResponse"]["GetCallerIdentityResult"];
            let text = |name: &str| result[name].as_str().map(str::to_owned);
            (text("Arn")?, text("Account")?, text("UserId")?)
        }
        Err(_) => (tag("Arn")?, tag("Account")?, tag("UserId")?),
    };
    let resource = arn.rsplit(':').next().unwrap_or_default();
    let mut parts = resource.split('/');
    let (kind, name, session) = (parts.next()?, parts.next().unwrap_or_default(), parts.next());
    let canonical = match (kind, session) {
        ("assumed-role", Some(_)) => {
            let head = arn.trim_end_matches(resource).replacen(":sts:", ":iam:", 1);
            format!("{head}role/{name}")
        }
        _ => arn.clone(),
    };
    let (id, session_name) = match user.split_once(':') {
        Some((id, session)) => (id.to_owned(), session.to_owned()),
        None => (user.clone(), String::new()),
    };
    Some(json!({
        "ARN": arn,
        "CanonicalARN": canonical,
        "AccountID": account,
        "UserID": id,
        "SessionName": session_name,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const NOW: &str = "2026-01-01T00:10:00Z";

    fn token(url: &str) -> String {
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(url))
    }

    fn good(host: &str) -> String {
        format!(
            "https://{host}/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256\
             &X-Amz-Credential=A%2F20260101%2Fus-east-1%2Fsts%2Faws4_request&X-Amz-Date=20260101T000000Z\
             &X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Signature=00"
        )
    }

    #[test]
    fn what_a_server_would_refuse_is_refused_before_sts_is_asked() {
        let check = |url: &str| check(&token(url), "aws", NOW.parse().unwrap());
        let url = good("sts.us-east-1.amazonaws.com");
        assert_eq!(check(&url).unwrap(), url);
        for (bad, why) in [
            (url.replace("https:", "http:"), "https"),
            (url.replace("sts.us-east-1.amazonaws.com", "sts.evil.example"), "no STS host"),
            (
                url.replace("sts.us-east-1.amazonaws.com", "sts.cn-north-1.amazonaws.com.cn"),
                "no STS host",
            ),
            (url.replace("/?", "/x?"), "https://HOST/"),
            (format!("{url}&action=x"), "repeated"),
            (format!("{url}&x=y"), "unknown"),
            (url.replace("GetCallerIdentity", "GetSessionToken"), "another action"),
            (url.replace("%3Bx-k8s-aws-id", ""), "does not sign"),
            (url.replace("Expires=60", "Expires=901"), "Expires"),
            (url.replace("20260101T000000Z", "20251231T235459Z"), "older"),
            (url.replace("20260101T000000Z", "20260101T002501Z"), "future"),
        ] {
            let error = check(&bad).unwrap_err();
            assert!(error.contains(why), "`{error}` does not say `{why}`");
        }
    }

    #[test]
    fn hosts_belong_to_one_partition() {
        for (host, partition) in [
            ("sts.amazonaws.com", "aws"),
            ("sts-fips.us-east-1.amazonaws.com", "aws"),
            ("sts.eu-west-1.api.aws", "aws"),
            ("sts.us-gov-west-1.amazonaws.com", "aws-us-gov"),
            ("sts.cn-north-1.amazonaws.com.cn", "aws-cn"),
            ("sts.us-iso-east-1.c2s.ic.gov", "aws-iso"),
        ] {
            let of: Vec<_> = PARTITIONS
                .iter()
                .filter(|(name, _)| is_sts(host, name))
                .map(|(name, _)| *name)
                .collect();
            assert_eq!(of, [partition], "{host}");
        }
    }

    #[test]
    fn pitfall_39_callers_are_read_from_json_and_xml() {
        let arn = "arn:aws:sts::123456789012:assumed-role/Dev/alice";
        let json = json!({"GetCallerIdentityResponse": {"GetCallerIdentityResult":
            {"Arn": arn, "Account": "123456789012", "UserId": "AROA1:alice"}}});
        let xml = format!(
            "<r><Arn>{arn}</Arn><UserId>AROA1:alice</UserId><Account>123456789012</Account></r>"
        );
        for answer in [json.to_string(), xml] {
            let caller = read(&answer).unwrap();
            assert_eq!(caller["CanonicalARN"], "arn:aws:iam::123456789012:role/Dev");
            assert_eq!(caller["UserID"], "AROA1");
            assert_eq!(caller["SessionName"], "alice");
        }
    }
}
