//! Credentials of AWS.

use aws_credential_types::Credentials;
use jiff::Timestamp;
use keyward_protocol::Secret;

/// An access key, its secret and, for temporary ones, their session token and end.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: Secret,
    pub(crate) session: Option<Secret>,
    pub(crate) expires: Option<Timestamp>,
    /// What identifies their owner, for the name of what is derived from them. For temporary keys this is where
    /// they come from: their access key changes while the owner stays the same.
    pub(crate) origin: String,
}

impl Keys {
    /// Keys without an end.
    pub(crate) fn new(id: String, secret: String, session: Option<String>, origin: String) -> Self {
        let session = session.filter(|session| !session.is_empty()).map(Secret::new);
        Self { id, secret: Secret::new(secret), session, expires: None, origin }
    }

    /// Takes over what a provider of the SDK returned.
    pub(crate) fn from_sdk(found: &Credentials, origin: String) -> Self {
        let session = found.session_token().map(Secret::new);
        let expires = found.expiry().and_then(|end| Timestamp::try_from(end).ok());
        let (id, secret) =
            (found.access_key_id().to_owned(), Secret::new(found.secret_access_key()));
        Self { id, secret, session, expires, origin }
    }

    /// For the SDK.
    pub(crate) fn to_sdk(&self) -> Credentials {
        let session = self.session.as_ref().map(|session| session.expose().to_owned());
        Credentials::new(&self.id, self.secret.expose(), session, None, "keyward")
    }

    /// The text that the agent keeps. Keys contain no line breaks.
    pub(crate) fn to_secret(&self) -> Secret {
        let expires = self.expires.map_or(String::new(), |end| end.as_second().to_string());
        let session = self.session.as_ref().map_or("", Secret::expose);
        Secret::new(format!("{}\n{}\n{session}\n{expires}", self.id, self.secret.expose()))
    }

    /// Reads what [`Keys::to_secret`] wrote.
    pub(crate) fn from_secret(text: &Secret, origin: String) -> Option<Self> {
        let mut lines = text.expose().split('\n');
        let (id, secret) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        let session = lines.next()?.to_owned();
        let expires = match lines.next()? {
            "" => None,
            seconds => Some(Timestamp::from_second(seconds.parse().ok()?).ok()?),
        };
        let mut keys = Self::new(id, secret, Some(session), origin);
        keys.expires = expires;
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn keys_come_back_from_the_agent_as_they_were() {
        let mut keys = Keys::new("A".into(), "s".into(), Some("t".into()), "o".into());
        keys.expires = Timestamp::from_second(1_700_000_000).ok();
        let back = Keys::from_secret(&keys.to_secret(), "o".into()).unwrap();
        assert_eq!((back.id, back.secret, back.session), (keys.id, keys.secret, keys.session));
        assert_eq!(back.expires, keys.expires);
        assert!(Keys::from_secret(&Secret::new("A\ns"), "o".into()).is_none());
    }

    #[test]
    fn debug_shows_no_secret() {
        let keys = Keys::new("AKIA".into(), "s3cr3t".into(), Some("t0k3n".into()), "o".into());
        let shown = format!("{keys:?}");
        assert!(!shown.contains("s3cr3t") && !shown.contains("t0k3n"), "{shown}");
    }
}
