use std::{fmt, time::Duration};

use jiff::Timestamp;
use keyward_protocol::{
    Secret,
    exec::{Answer, PemPair, Request},
};

use crate::Refusal;

/// The credential that a plugin returns: a bearer token, a certificate with its key, or both.
///
/// ```
/// use std::time::Duration;
/// use keyward_plugin::Credential;
///
/// let credential = Credential::token("s3cr3t").expires_in(Duration::from_secs(600));
/// assert!(!format!("{credential:?}").contains("s3cr3t"));
/// ```
#[derive(Clone)]
pub struct Credential {
    token: Option<Secret>,
    pair: Option<PemPair>,
    expires: Option<Timestamp>,
}

impl Credential {
    /// A bearer token, without the word `Bearer`.
    pub fn token(token: impl Into<String>) -> Self {
        Self { token: Some(Secret::new(token)), pair: None, expires: None }
    }

    /// A certificate chain in PEM, leaf first, and the key of its leaf in PEM, not encrypted.
    pub fn certificate(chain: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            token: None,
            pair: Some(PemPair { certificate: chain.into(), key: Secret::new(key) }),
            expires: None,
        }
    }

    /// Adds a token to a certificate: the client then sends both.
    #[must_use]
    pub fn and_token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Secret::new(token));
        self
    }

    /// Sets until when the client may use the credential. Without this the client uses it until it exits
    /// or a server refuses it; no client looks for an expiry in the certificate or the token.
    #[must_use]
    pub fn expires_at(mut self, end: Timestamp) -> Self {
        self.expires = Some(end);
        self
    }

    /// Sets the expiry by a lifetime that begins now. Set a little less than the real one: the answer takes
    /// time, and clocks differ.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "a plugin lives by the real clock")]
    pub fn expires_in(self, lifetime: Duration) -> Self {
        self.expires_at(expiry(Timestamp::now(), lifetime))
    }

    /// The answer in the version and form of the question, or why it would be invalid.
    pub(crate) fn answer(self, request: &Request, now: Timestamp) -> Result<Secret, Refusal> {
        self.check(now)?;
        let answer = Answer {
            version: request.version,
            token: self.token,
            pair: self.pair,
            expires: self.expires,
        };
        Ok(answer.to_json(request.form))
    }

    /// Checks the credential: one that no client could use is not printed.
    fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        if let Some(token) = &self.token {
            let token = token.expose();
            if token.is_empty() {
                return Err(Refusal::failed("the token is empty"));
            }
            if !token.bytes().all(|b| (b'!'..=b'~').contains(&b)) {
                return Err(Refusal::failed(
                    "the token has a blank, a line break or another character that no header can contain",
                ));
            }
        }
        if let Some(pair) = &self.pair {
            if !pair.certificate.contains("-----BEGIN CERTIFICATE-----") {
                return Err(Refusal::failed("the certificate is not in PEM"));
            }
            if !pair.key.expose().contains("PRIVATE KEY-----") {
                return Err(Refusal::failed("the certificate's key is not in PEM"));
            }
        }
        match self.expires {
            Some(end) if end <= now => Err(Refusal::Failed(format!(
                "the credential expired at {}",
                keyward_protocol::time::format_rfc3339(end)
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("token", &self.token)
            .field("pair", &self.pair.is_some())
            .field("expires", &self.expires)
            .finish()
    }
}

/// The end of a lifetime that began at `start`, truncated to whole seconds as the protocol writes it. An
/// end beyond the calendar becomes the last moment of the calendar.
pub fn expiry(start: Timestamp, lifetime: Duration) -> Timestamp {
    let end =
        start.as_second().saturating_add(i64::try_from(lifetime.as_secs()).unwrap_or(i64::MAX));
    Timestamp::from_second(end).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use keyward_protocol::exec::Version;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn printed(credential: Credential) -> Result<String, String> {
        let request = Request::new(Version::V1);
        let answer = credential.answer(&request, NOW).map_err(|refusal| refusal.to_string())?;
        Ok(answer.expose().to_owned())
    }

    #[test]
    fn a_credential_that_no_client_could_use_is_rejected() {
        let key = "-----BEGIN PRIVATE KEY-----";
        let chain = "-----BEGIN CERTIFICATE-----";
        for (credential, why) in [
            (Credential::token(""), "empty"),
            (Credential::token("a\nb"), "no header can contain"),
            (Credential::token("a").expires_at(NOW), "expired at 1970-01-01T00:00:00Z"),
            (Credential::certificate("x", key), "the certificate is not in PEM"),
            (Credential::certificate(chain, "x"), "key is not in PEM"),
            (Credential::certificate(chain, key).and_token(""), "empty"),
        ] {
            let refusal = printed(credential).unwrap_err();
            assert!(refusal.contains(why), "`{refusal}` does not say `{why}`");
        }
    }

    #[test]
    fn token_certificate_and_expiry_go_out_together() {
        let answer = printed(
            Credential::certificate("-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----")
                .and_token("t")
                .expires_at(expiry(NOW, Duration::from_secs(90))),
        )
        .unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"]["token"], "t");
        assert_eq!(answer["status"]["clientKeyData"], "-----BEGIN PRIVATE KEY-----");
        assert_eq!(answer["status"]["expirationTimestamp"], "1970-01-01T00:01:30Z");
    }

    #[test]
    fn a_lifetime_beyond_the_calendar_ends_with_it() {
        assert_eq!(expiry(NOW, Duration::MAX), Timestamp::MAX);
        assert_eq!(expiry(NOW, Duration::from_millis(1999)).as_second(), 1);
    }
}
