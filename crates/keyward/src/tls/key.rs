//! The private key of a client certificate, for rustls.

use std::{fmt, sync::Arc};

use keyward_host::{KeyDer, Pair};
use keyward_protocol::{
    der::{self, Der},
    x509::oid,
};
use p521::ecdsa::{Signature, SigningKey as Secret, signature::Signer as _};
use rustls::{
    Error as TlsError, SignatureAlgorithm, SignatureScheme,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer},
    sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey},
};

use super::provider_or_default;
use crate::{Error, error::Kind};

/// Checks that a client can use this pair in a handshake: some keys are well-formed, but of a kind or
/// length that cannot sign one.
pub fn check_pair(pair: &Pair) -> Result<(), Error> {
    load(&*provider_or_default(None)?, pair).map(drop)
}

/// Shows the pair's certificate in every handshake that asks for one. rustls would parse the certificate
/// and reject version 1, which kubectl accepts; parsing the pair has proved that key and certificate
/// belong together.
pub(super) fn resolver(
    provider: &CryptoProvider,
    pair: &Pair,
) -> Result<Arc<SingleCertAndKey>, Error> {
    let chain = pair.chain.iter().cloned().map(CertificateDer::from).collect();
    Ok(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, load(provider, pair)?))))
}

fn load(provider: &CryptoProvider, pair: &Pair) -> Result<Arc<dyn SigningKey>, Error> {
    provider.key_provider.load_private_key(rustls_key(&pair.key)).or_else(|error| {
        // A pair holds the keys of all curves in one form.
        let own = match &pair.key {
            KeyDer::Pkcs8(der) => p521(der),
            KeyDer::Pkcs1(_) => None,
        };
        let own = own.map(|key| Arc::new(P521(Arc::new(key))) as Arc<dyn SigningKey>);
        own.ok_or_else(|| {
            let message = "the client certificate's key cannot be used to sign a handshake";
            Error::because(Kind::Credential, message, error)
        })
    })
}

fn rustls_key(key: &KeyDer) -> PrivateKeyDer<'static> {
    match key {
        KeyDer::Pkcs8(der) => PrivatePkcs8KeyDer::from(der.to_vec()).into(),
        KeyDer::Pkcs1(der) => PrivatePkcs1KeyDer::from(der.to_vec()).into(),
    }
}

/// A key on P-521, which ring does not support. Wiped on drop.
#[derive(Clone)]
struct P521(Arc<Secret>);

/// A key on P-521 from its PKCS#8 form.
pub(super) fn p521(pkcs8: &[u8]) -> Option<Secret> {
    let mut content = Der(pkcs8).read(der::SEQUENCE)?;
    content.integer()?;
    let mut algorithm = content.read(der::SEQUENCE)?;
    if (algorithm.oid()?, algorithm.oid()?) != (oid::EC, oid::P521) {
        return None;
    }
    let mut key = content.read(der::OCTET_STRING)?.read(der::SEQUENCE)?;
    key.integer()?;
    let Der(number) = key.read(der::OCTET_STRING)?;
    Secret::from_slice(number).ok()
}

impl SigningKey for P521 {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let known = offered.contains(&SignatureScheme::ECDSA_NISTP521_SHA512);
        known.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for P521 {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TlsError> {
        let signature: Signature = self
            .0
            .try_sign(message)
            .map_err(|_| TlsError::General("the key on P-521 could not sign".into()))?;
        Ok(signature.to_der().as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}

impl fmt::Debug for P521 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("P521([hidden])")
    }
}
