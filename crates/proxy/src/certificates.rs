//! Temporary certificates: an authority that exists only in memory, the listener's certificate, and
//! a client certificate for each context.
//!
//! The authority's key is dropped as soon as everything is signed; that of a service, whose contexts may
//! become more, when it ends. Client certificates of an earlier start are not accepted by a later one.

use jiff::{ToSpan, civil::Date, tz::TimeZone};
use keyward_host::kubeconfig::User;
use keyward_process::clock::{Clock, SystemClock};
use keyward_protocol::{
    Secret, der, pem,
    x509::{Certificate, oid},
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _};
use zeroize::Zeroizing;

/// The names of the authority and of clients in certificates.
const AUTHORITY: &str = "keyward proxy";
const CLIENT: &str = "keyward proxy client";
const GRANT: &str = "keyward grant ";

/// P-256 everywhere: every client supports it, and of the curves that all support it is the
/// fastest.
fn key() -> Result<KeyPair, Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

/// Signs the certificates of one start.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The authority's own certificate, which clients are told to trust.
    pub(crate) pem: String,
    pub(crate) der: CertificateDer<'static>,
}

/// What a listener shows, and what its clients check it against.
pub(crate) struct ListenerIdentity {
    /// The certificate of the authority that signed it, for clients.
    pub(crate) authority: String,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

/// A listener's certificate is made anew when it ends this soon.
const RENEW: jiff::SignedDuration = jiff::SignedDuration::from_hours(30 * 24);

impl ListenerIdentity {
    /// A new one with its text for a file, signed by an authority whose key is dropped.
    pub(crate) fn make(names: Vec<SanType>) -> Result<(Self, Secret), Error> {
        let authority = Authority::new()?;
        let (certificate, key) = authority.listener(names)?;
        let mut text = pem::encode("PRIVATE KEY", key.secret_der());
        text += &pem::encode("CERTIFICATE", &certificate);
        text += &authority.pem;
        Ok((Self { authority: authority.pem, certificate, key }, Secret::new(text)))
    }

    /// The one in this file's text; `None` if it is damaged or about to end.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let key = PrivateKeyDer::from_pem_slice(text).ok()?;
        let mut found = CertificateDer::pem_slice_iter(text).map_while(Result::ok);
        let (certificate, authority) = (found.next()?, found.next()?);
        let soon = SystemClock.now().checked_add(RENEW).ok()?;
        let lasts = Certificate::parse(&certificate)?.not_after > soon;
        let authority = pem::encode("CERTIFICATE", &authority);
        let ours = lasts && is_authority(authority.as_bytes());
        ours.then_some(Self { authority, certificate, key })
    }
}

/// A client's certificate with its key.
pub(crate) struct ClientCertificate {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: Secret,
}

impl ClientCertificate {
    /// The user of a kubeconfig who shows it.
    pub(crate) fn user(&self) -> User {
        User {
            client_certificate_data: self.certificate_pem.as_bytes().to_vec(),
            client_key_data: self.key_pem.clone(),
            ..User::default()
        }
    }
}

impl Authority {
    pub(crate) fn new() -> Result<Self, Error> {
        let key = key()?;
        let mut params = params(AUTHORITY);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?;
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Ok(Self { issuer: Issuer::new(params, key), pem, der })
    }

    /// The listener's certificate, for these names.
    pub(crate) fn listener(
        &self,
        names: Vec<SanType>,
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), Error> {
        let mut params = params("keyward proxy listener");
        params.subject_alt_names = names;
        let (certificate, key) = self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok((certificate.der().clone(), key.into()))
    }

    /// A certificate for the clients of a context.
    pub(crate) fn client(&self) -> Result<ClientCertificate, Error> {
        self.client_named(CLIENT)
    }

    /// A certificate for the consumer of a grant.
    pub(crate) fn grant(&self, name: &str) -> Result<ClientCertificate, Error> {
        self.client_named(&format!("{GRANT}{name}"))
    }

    fn client_named(&self, name: &str) -> Result<ClientCertificate, Error> {
        let (certificate, key) = self.sign(params(name), ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(ClientCertificate {
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key_pem: sec1_pem(&key).ok_or(Error::CouldNotParseKeyPair)?,
        })
    }

    /// A certificate with a new key, for one side of a connection.
    fn sign(
        &self,
        mut params: CertificateParams,
        side: ExtendedKeyUsagePurpose,
    ) -> Result<(rcgen::Certificate, KeyPair), Error> {
        let key = key()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![side];
        Ok((params.signed_by(&key, &self.issuer)?, key))
    }
}

/// A P-256 key as `BEGIN EC PRIVATE KEY` (RFC 5915), which every client reads; fabric8 takes the
/// PKCS#8 form for an RSA key.
fn sec1_pem(key: &KeyPair) -> Option<Secret> {
    /// A PKCS#8 key ends with an `ECPrivateKey` without the curve: its version, the private key of
    /// 32 bytes and, tagged `[1]`, the public key.
    const BEFORE_KEY: [u8; 5] = [2, 1, 1, 4, 32];
    const PUBLIC: usize = 70;
    let pkcs8 = Zeroizing::new(key.serialize_der());
    let (rest, public) = pkcs8.split_last_chunk::<PUBLIC>()?;
    let (rest, private) = rest.split_last_chunk::<32>()?;
    if !rest.ends_with(&BEFORE_KEY) || !public.starts_with(&[0xa1, 68, 3, 66, 0, 4]) {
        return None;
    }
    let curve = der::element(der::wrapped(0), &[&der::element(der::OID, &[oid::P256])]);
    let sec1 = der::element(der::SEQUENCE, &[&BEFORE_KEY, private, &curve, public]);
    Some(Secret::new(pem::encode("EC PRIVATE KEY", &Zeroizing::new(sec1))))
}

/// Whether this is the certificate of an authority that a proxy created.
pub(crate) fn is_authority(pem: &[u8]) -> bool {
    names(pem, AUTHORITY)
}

/// Whether this is a client certificate that a proxy created.
pub(crate) fn is_client(pem: &[u8]) -> bool {
    names(pem, CLIENT)
}

/// Whether this is the certificate of a grant, of whatever proxy.
pub(crate) fn is_grant(certificate: &CertificateDer<'_>) -> bool {
    contains(certificate, GRANT)
}

fn names(pem: &[u8], name: &str) -> bool {
    pem::Blocks::of(pem).next().is_some_and(|block| contains(&block.content, name))
}

/// Whether a certificate contains a name, which is stored as plain bytes.
fn contains(der: &[u8], name: &str) -> bool {
    der.windows(name.len()).any(|part| part == name.as_bytes())
}

/// The certificates are useless after the process ends, so their expiry only has to be far away.
fn params(name: &str) -> CertificateParams {
    let today = SystemClock.now().to_zoned(TimeZone::UTC).date();
    let moment = |date: Date| {
        let part = |part: i8| u8::try_from(part).unwrap_or(1);
        date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = moment(today.saturating_sub(2.days()));
    params.not_after = moment(today.saturating_add(10.years()));
    params
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn a_clients_key_is_in_sec1_form_and_fits_its_certificate() {
        let client =
            Authority::new().and_then(|authority| authority.client()).expect("a certificate");
        let pem = client.key_pem.expose();
        assert!(pem.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "its form");
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key");
        assert!(matches!(key, PrivateKeyDer::Sec1(_)));
        let key = rustls::crypto::ring::sign::any_ecdsa_type(&key).expect("a P-256 key");
        let public = key.public_key().expect("its public key");
        let certificate = client.certificate.as_ref();
        assert!(certificate.windows(public.len()).any(|part| part == public.as_ref()));
    }

    #[test]
    fn every_client_certificate_is_another_one() {
        let authority = Authority::new().expect("an authority");
        let (one, two) = (
            authority.client().expect("a certificate"),
            authority.client().expect("a certificate"),
        );
        assert_ne!(one.certificate, two.certificate);
        assert_ne!(one.key_pem.expose(), two.key_pem.expose());
    }
}
