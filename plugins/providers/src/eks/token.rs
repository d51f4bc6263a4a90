//! The token itself: a presigned request for STS that the cluster sends to learn who signed it.

use std::time::Duration;

use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use keyward_plugin::{Refusal, expiry};
use keyward_protocol::Secret;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    aws::{Endpoint, Keys},
    sigv4::sign,
};

/// What every token begins with.
pub(super) const PREFIX: &str = "k8s-aws-v1.";

/// The header that binds a token to its cluster.
pub(super) const CLUSTER: &str = "x-k8s-aws-id";

/// The request that is signed.
pub(super) const QUERY: &str = "Action=GetCallerIdentity&Version=2011-06-15";

/// How long the URL says to be valid, in seconds. STS ignores it; old servers want it.
const URL_LIFE: u64 = 60;

/// How long a token is used. STS accepts it for a minute longer.
const LIFE: Duration = Duration::from_mins(14);

/// What stays as it is in a URL's query.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A token for a cluster.
#[derive(Debug, Clone)]
pub struct Token {
    /// The token.
    pub text: Secret,
    /// Until when to use it: 14 minutes, or less if the credentials end earlier.
    pub expires: Timestamp,
}

impl Token {
    /// Signs a token.
    pub(super) fn sign(
        cluster: &str,
        endpoint: &Endpoint,
        keys: &Keys,
        now: Timestamp,
    ) -> Result<Self, Refusal> {
        if let Some(end) = keys.expires.filter(|end| *end <= now) {
            return Err(Refusal::Failed(format!(
                "the AWS credentials expired at {}",
                keyward_protocol::time::format_rfc3339(end)
            )));
        }
        let mut settings = SigningSettings::default();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(Duration::from_secs(URL_LIFE));
        // As botocore: the session token is in the URL, and all headers that are given are signed.
        settings.excluded_headers = None;
        let url = format!("https://{}/?{QUERY}", endpoint.host);
        let headers = [("host", endpoint.host.as_str()), (CLUSTER, cluster)];
        let body = SignableBody::Bytes(b"");
        let request = SignableRequest::new("GET", url.as_str(), headers.into_iter(), body);
        let request = request.map_err(|_| {
            Refusal::bad_config("the name of the cluster cannot be in an HTTP header")
        })?;
        let place = ("sts", endpoint.region.as_str());
        let signed = sign(keys.to_sdk(), place, now, settings, request)?.into_parts().1;
        // In botocore's order, so that the token is the same to the byte.
        let text = [
            "X-Amz-Algorithm",
            "X-Amz-Credential",
            "X-Amz-Date",
            "X-Amz-Expires",
            "X-Amz-SignedHeaders",
            "X-Amz-Security-Token",
            "X-Amz-Signature",
        ]
        .into_iter()
        .filter_map(|name| signed.iter().find(|(found, _)| *found == name))
        .fold(url, |url, (name, value)| {
            format!("{url}&{name}={}", utf8_percent_encode(value, UNRESERVED))
        });
        let life = expiry(now, LIFE);
        Ok(Self {
            text: Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(text))),
            expires: keys.expires.map_or(life, |end| end.min(life)),
        })
    }
}
