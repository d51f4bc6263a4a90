//! X25519MLKEM768: key exchange that protects recorded traffic from later quantum computers.
//!
//! Both secrets are used, so it is at least as strong as X25519 alone. ring has no ML-KEM; the `ml-kem`
//! crate has. See `docs/decisions/0025`.

use ml_kem::{
    DecapsulationKey768, EncapsulationKey768,
    kem::{Decapsulate as _, Encapsulate as _, Generate as _, KeyExport as _},
};
use rustls::{
    Error, NamedGroup, PeerMisbehaved, ProtocolVersion,
    crypto::{
        ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup,
        ring::kx_group::X25519,
    },
};
use zeroize::Zeroizing;

/// The lengths of what a client and a server send for ML-KEM-768. X25519's 32 bytes follow it.
const CLIENT_SHARE: usize = 1184;
const SERVER_SHARE: usize = 1088;
const CLASSICAL_SHARE: usize = 32;

/// The group, for rustls. It exists in TLS 1.3 only.
#[derive(Debug)]
pub(super) struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let classical = X25519.start()?;
        let secret =
            DecapsulationKey768::try_generate().map_err(|_| Error::FailedToGetRandomBytes)?;
        let share = [&secret.encapsulation_key().to_bytes()[..], classical.pub_key()].concat();
        Ok(Box::new(Exchange { classical, secret, share }))
    }

    fn start_and_complete(&self, client: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (post_quantum, classical) = split(client, CLIENT_SHARE)?;
        let key = post_quantum.try_into().ok().and_then(|key| EncapsulationKey768::new(key).ok());
        let key = key.ok_or(PeerMisbehaved::InvalidKeyShare)?;
        let classical = X25519.start_and_complete(classical)?;
        let (ciphertext, secret) = key.encapsulate();
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: [&ciphertext[..], &classical.pub_key].concat(),
            secret: join(&Zeroizing::new(secret.into()), &classical.secret),
        })
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// A client's half of an exchange. Both keys are wiped when it is dropped.
struct Exchange {
    classical: Box<dyn ActiveKeyExchange>,
    secret: DecapsulationKey768,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, server: &[u8]) -> Result<SharedSecret, Error> {
        let (post_quantum, classical) = split(server, SERVER_SHARE)?;
        let ciphertext = post_quantum.try_into().map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let classical = self.classical.complete(classical)?;
        let secret = self.secret.decapsulate(ciphertext);
        Ok(join(&Zeroizing::new(secret.into()), &classical))
    }

    /// X25519 is offered by itself too, so that servers without ML-KEM need no second round trip.
    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.classical.group(), self.classical.pub_key()))
    }

    fn complete_hybrid_component(self: Box<Self>, server: &[u8]) -> Result<SharedSecret, Error> {
        self.classical.complete(server)
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

/// The two halves of a share, the post-quantum one first.
fn split(share: &[u8], post_quantum: usize) -> Result<(&[u8], &[u8]), Error> {
    share
        .split_at_checked(post_quantum)
        .filter(|(_, classical)| classical.len() == CLASSICAL_SHARE)
        .ok_or(Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare))
}

fn join(post_quantum: &Zeroizing<[u8; 32]>, classical: &SharedSecret) -> SharedSecret {
    let both = Zeroizing::new([&post_quantum[..], classical.secret_bytes()].concat());
    SharedSecret::from(both.as_slice())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn both_sides_end_with_one_secret() {
        let client = X25519MlKem768.start().unwrap();
        let server = X25519MlKem768.start_and_complete(client.pub_key()).unwrap();
        let secret = client.complete(&server.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
        assert_eq!(secret.secret_bytes().len(), 64);
    }

    #[test]
    fn the_classical_half_serves_alone() {
        let client = X25519MlKem768.start().unwrap();
        let (group, share) = client.hybrid_component().unwrap();
        assert_eq!(group, NamedGroup::X25519);
        let server = X25519.start_and_complete(share).unwrap();
        let secret = client.complete_hybrid_component(&server.pub_key).unwrap();
        assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
    }

    #[test]
    fn a_share_of_another_length_is_rejected() {
        for length in [0, 32, SERVER_SHARE, SERVER_SHARE + 31, SERVER_SHARE + 33] {
            let client = X25519MlKem768.start().unwrap();
            assert!(client.complete(&vec![9; length]).is_err(), "{length}");
            assert!(X25519MlKem768.start_and_complete(&vec![9; length]).is_err(), "{length}");
        }
    }
}
