use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::HeaderValue;
use jiff::Timestamp;
use keyward_protocol::Secret;
use zeroize::Zeroizing;

use crate::{Error, Kind, cell::CacheValue, pair::Pair, signer::SignerCertificate};

/// A credential in memory: a bearer token (or basic auth), a certificate with its key, or both.
///
/// It comes as `Arc<Credential>` from a [`crate::Source`]. Two of them are the same credential
/// when their [`Credential::serial`] is the same.
#[repr(align(128))] // A cache line, and the one fetched with it: neighbours do not share a count.
pub struct Credential {
    /// What all copies share.
    body: Arc<Body>,
    /// Each copy has its own header: eight copies spare the threads one contended reference count.
    authorization: Option<HeaderValue>,
}

struct Body {
    serial: u64,
    token: Option<Secret>,
    pair: Option<Arc<Pair>>,
    signer: Option<Arc<SignerCertificate>>,
    expires: Option<Timestamp>,
}

/// What goes into the `Authorization` header.
#[derive(Clone)]
pub(crate) enum Header {
    None,
    Bearer(Secret),
    Basic(String, Secret),
}

/// A token that contains a character which no header can contain, such as a line break (EX-21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unsendable;

impl Credential {
    /// Tells credentials of one process apart. Never reused.
    pub fn serial(&self) -> u64 {
        self.body.serial
    }

    /// The ready-made `Authorization` header, marked sensitive; `None` when there is neither token
    /// nor basic auth.
    pub fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// The bearer token.
    pub fn token(&self) -> Option<&Secret> {
        self.body.token.as_ref()
    }

    /// The client certificate with its key. Refreshes that bring the same certificate and key share
    /// one `Arc`, so pointer equality tells whether connections may be kept.
    pub fn pair(&self) -> Option<&Arc<Pair>> {
        self.body.pair.as_ref()
    }

    /// The client certificate whose key an external signer holds. As with [`Credential::pair`],
    /// pointer equality tells whether connections may be kept.
    pub fn signer(&self) -> Option<&Arc<SignerCertificate>> {
        self.body.signer.as_ref()
    }

    /// Until when the provider said it may be used.
    pub fn expires(&self) -> Option<Timestamp> {
        self.body.expires
    }

    /// A credential of a provider of one's own: a bearer token, a certificate with its key, or both.
    ///
    /// Fails when the token contains a character that no header can contain, such as a line break.
    pub fn of(
        token: Option<Secret>,
        pair: Option<Arc<Pair>>,
        expires: Option<Timestamp>,
    ) -> Result<Self, Error> {
        let header = token.map_or(Header::None, Header::Bearer);
        Self::new(header, pair, expires).map_err(|Unsendable| {
            Error::new(Kind::BadAnswer, "the token contains a character that no header can contain")
        })
    }

    pub(crate) fn new(
        header: Header,
        pair: Option<Arc<Pair>>,
        expires: Option<Timestamp>,
    ) -> Result<Self, Unsendable> {
        Self::make(header, pair, None, expires)
    }

    /// A certificate whose key an external signer holds.
    pub(crate) fn signed(
        header: Header,
        signer: Arc<SignerCertificate>,
        expires: Option<Timestamp>,
    ) -> Result<Self, Unsendable> {
        Self::make(header, None, Some(signer), expires)
    }

    fn make(
        header: Header,
        pair: Option<Arc<Pair>>,
        signer: Option<Arc<SignerCertificate>>,
        expires: Option<Timestamp>,
    ) -> Result<Self, Unsendable> {
        let (authorization, token) = match header {
            Header::None => (None, None),
            Header::Bearer(token) => {
                let text = join(&["Bearer ", token.expose()]);
                (Some(sensitive(text)?), Some(token))
            }
            Header::Basic(user, password) => {
                let plain = join(&[&user, ":", password.expose()]);
                let coded = Zeroizing::new(STANDARD.encode(&*plain));
                (Some(sensitive(join(&["Basic ", &coded]))?), None)
            }
        };
        let body = Arc::new(Body { serial: next_serial(), token, pair, signer, expires });
        Ok(Self { body, authorization })
    }

    /// Nobody in particular.
    pub(crate) fn anonymous() -> Self {
        let body =
            Body { serial: next_serial(), token: None, pair: None, signer: None, expires: None };
        Self { body: Arc::new(body), authorization: None }
    }
}

impl CacheValue for Credential {
    /// Copies the credential with a separate header.
    fn copy(&self) -> Self {
        let authorization = self.authorization.as_ref().map(|header| {
            let own = Zeroizing::new(header.as_bytes().to_vec());
            // The bytes were a header before, so this is never the other one.
            sensitive(own).unwrap_or_else(|Unsendable| header.clone())
        });
        Self { body: Arc::clone(&self.body), authorization }
    }

    fn serial(&self) -> u64 {
        self.body.serial
    }

    fn secrets(&self, tell: &mut dyn FnMut(&Secret)) {
        self.body.token.iter().for_each(&mut *tell);
        self.body.pair.iter().for_each(|pair| tell(&pair.pem.key));
        let header = self.authorization.as_ref().and_then(|header| header.to_str().ok());
        if let Some(coded) = header.and_then(|header| header.strip_prefix("Basic ")) {
            tell(&Secret::new(coded));
            let plain = STANDARD.decode(coded).map(Secret::from_bytes).unwrap_or_default();
            if let Some((_, password)) = plain.expose().split_once(':') {
                tell(&Secret::new(password));
            }
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("serial", &self.body.serial)
            .field("token", &self.body.token)
            .field("pair", &self.body.pair.is_some())
            .field("signer", &self.body.signer)
            .field("expires", &self.body.expires)
            .finish_non_exhaustive()
    }
}

fn next_serial() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Joins texts in one allocation, so that no half of a secret is left behind by growing.
fn join(parts: &[&str]) -> Zeroizing<Vec<u8>> {
    let size = parts.iter().map(|part| part.len()).sum();
    let mut out = Zeroizing::new(Vec::with_capacity(size));
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
    out
}

/// A header that is wiped with its last clone, and that HTTP/2 does not put into its tables.
fn sensitive(text: Zeroizing<Vec<u8>>) -> Result<HeaderValue, Unsendable> {
    let mut header =
        HeaderValue::from_maybe_shared(Bytes::from_owner(Line(text))).map_err(|_| Unsendable)?;
    header.set_sensitive(true);
    Ok(header)
}

/// The text of a header, its reference count on cache lines of its own.
#[repr(align(128))]
struct Line(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for Line {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(token: &str) -> Result<Credential, Unsendable> {
        Credential::new(Header::Bearer(Secret::new(token)), None, None)
    }

    #[test]
    fn copies_share_the_credential_and_not_the_header() {
        let first = bearer("t0ken").expect("sendable");
        let second = first.copy();
        assert_eq!(first.serial(), second.serial());
        let (a, b) = (first.authorization().expect("a"), second.authorization().expect("b"));
        assert_eq!(a, "Bearer t0ken");
        assert_eq!(a, b);
        assert_ne!(a.as_bytes().as_ptr(), b.as_bytes().as_ptr());
        assert!(a.is_sensitive() && b.is_sensitive());
    }

    #[test]
    fn two_credentials_differ_even_with_one_token() {
        assert_ne!(
            bearer("t").expect("sendable").serial(),
            bearer("t").expect("sendable").serial()
        );
    }

    #[test]
    fn a_token_with_a_line_break_cannot_be_sent() {
        assert_eq!(bearer("to\nken").map(drop), Err(Unsendable));
    }

    #[test]
    fn basic_auth_is_coded() {
        let header = Header::Basic("Aladdin".into(), Secret::new("open sesame"));
        let credential = Credential::new(header, None, None).expect("sendable");
        assert_eq!(
            credential.authorization().expect("header"),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
        );
        assert!(credential.token().is_none());
    }

    #[test]
    fn debug_hides_everything() {
        let credential = bearer("s3cr3t").expect("sendable");
        let shown = format!("{credential:?} {:?}", credential.authorization());
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}
