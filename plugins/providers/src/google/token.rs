//! An access token, and the form in which the agent keeps it.

use jiff::{SignedDuration, Timestamp};
use keyward_protocol::Secret;
use serde_json::Value;

/// How long before its end a token is no longer used.
pub(super) const MARGIN: SignedDuration = SignedDuration::from_secs(10);

/// For how long a token is printed that does not say when it ends. Clients keep a credential without an end for as
/// long as they run.
const UNKNOWN: SignedDuration = SignedDuration::from_mins(5);

/// An access token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) text: Secret,
    /// When it ends, if that is known.
    pub(crate) end: Option<Timestamp>,
}

impl Token {
    /// Until when it may be given away; `None` if it must not be kept.
    pub(super) fn usable_until(&self) -> Option<Timestamp> {
        self.end?.checked_sub(MARGIN).ok()
    }

    /// The end to print.
    pub(crate) fn stated_end(&self, now: Timestamp) -> Timestamp {
        self.end.unwrap_or_else(|| now.checked_add(UNKNOWN).unwrap_or(now))
    }

    /// The form that the agent keeps.
    pub(super) fn to_secret(&self) -> Secret {
        let end = self.end.map(Timestamp::as_second);
        Secret::new(serde_json::json!({ "token": self.text.expose(), "end": end }).to_string())
    }

    /// Reads what the agent kept; `None` if another version wrote it.
    pub(super) fn from_secret(secret: &Secret) -> Option<Self> {
        let json: Value = serde_json::from_slice(secret.expose_bytes()).ok()?;
        let end = json.get("end")?.as_i64().and_then(|end| Timestamp::from_second(end).ok());
        Some(Self { text: Secret::new(json.get("token")?.as_str()?), end })
    }
}
