use std::{fmt, sync::Arc};

use http::HeaderValue;
use jiff::Timestamp;
use keyward_protocol::Secret;

use crate::pair::Pair;

/// A credential in memory: a bearer token (or basic auth), a certificate with its key, or both.
///
/// It comes as `Arc<Credential>` from a [`crate::Source`]. Two of them are the same credential
/// when their [`Credential::serial`] is the same.
pub struct Credential {
    /// What all copies share.
    body: Arc<Body>,
    /// This copy's own header: eight copies spare the threads one contended reference count.
    authorization: Option<HeaderValue>,
}

struct Body {
    serial: u64,
    token: Option<Secret>,
    pair: Option<Arc<Pair>>,
    expires: Option<Timestamp>,
}

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

    /// Until when the provider said it may be used.
    pub fn expires(&self) -> Option<Timestamp> {
        self.body.expires
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("serial", &self.body.serial)
            .field("token", &self.body.token)
            .field("pair", &self.body.pair.is_some())
            .field("expires", &self.body.expires)
            .finish()
    }
}
