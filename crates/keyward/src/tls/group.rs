//! Key exchange on P-521, which ring does not support. In TLS 1.2 a client's groups also list the curves
//! that its own certificate may have, so a certificate on P-521 needs this group.

use p521::{PublicKey, Sec1Point, ecdh::EphemeralSecret, elliptic_curve::Generate};
use rustls::{
    Error, NamedGroup, PeerMisbehaved,
    crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup},
};

/// The group, for rustls.
#[derive(Debug)]
pub(super) struct P521;

impl SupportedKxGroup for P521 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let secret = EphemeralSecret::try_generate().map_err(|_| Error::FailedToGetRandomBytes)?;
        let public = Sec1Point::from(secret.public_key());
        Ok(Box::new(Exchange { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

struct Exchange {
    secret: EphemeralSecret,
    public: Sec1Point,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer = PublicKey::from_sec1_bytes(peer).map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = self.secret.diffie_hellman(&peer);
        Ok(shared.raw_secret_bytes().as_slice().into())
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}
