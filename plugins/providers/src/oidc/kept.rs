//! What outlives a login: the token that is printed, and the refresh token. They are kept in memory or in the
//! agent, the refresh token also in the keyring if the user asks for it.

use jiff::Timestamp;
use keyward_protocol::Secret;
use serde_json::Value;

/// A token to print.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) text: Secret,
    pub(crate) end: Timestamp,
    /// Whom it is for, for people.
    pub(super) who: String,
    /// Whom it is for, for the provider.
    pub(super) subject: String,
}

impl Token {
    pub(crate) fn new(text: String, end: Timestamp, who: String, subject: &str) -> Self {
        Self { text: Secret::new(text), end, who, subject: subject.to_owned() }
    }

    /// The form that the agent keeps.
    pub(crate) fn to_secret(&self) -> Secret {
        let json = serde_json::json!({
            "token": self.text.expose(), "end": self.end.as_second(), "who": self.who,
            "subject": self.subject,
        });
        Secret::new(json.to_string())
    }

    /// Reads what the agent kept; `None` if another version wrote it.
    pub(crate) fn from_secret(secret: &Secret) -> Option<Self> {
        let json: Value = serde_json::from_slice(secret.expose_bytes()).ok()?;
        Some(Self {
            text: Secret::new(text(&json, "token")?),
            end: Timestamp::from_second(json.get("end")?.as_i64()?).ok()?,
            who: text(&json, "who")?,
            subject: text(&json, "subject")?,
        })
    }
}

/// A refresh token, and whose it is.
#[derive(Debug, Clone)]
pub(super) struct Refresh {
    pub(super) text: Secret,
    pub(super) subject: String,
}

impl Refresh {
    pub(super) fn to_secret(&self) -> Secret {
        let json =
            serde_json::json!({ "refresh_token": self.text.expose(), "subject": self.subject });
        Secret::new(json.to_string())
    }

    pub(super) fn from_secret(secret: &Secret) -> Option<Self> {
        let json: Value = serde_json::from_slice(secret.expose_bytes()).ok()?;
        Some(Self {
            text: Secret::new(text(&json, "refresh_token")?),
            subject: text(&json, "subject")?,
        })
    }
}

fn text(json: &Value, name: &str) -> Option<String> {
    Some(json.get(name)?.as_str()?.to_owned())
}
