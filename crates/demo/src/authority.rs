//! A temporary certificate authority: created in memory, trusted only by the demo and the tests.

mod signing;

pub use signing::SigningRequest;

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;

use crate::{Error, clock};

/// The RSA key of every RSA certificate: generating one takes longer than a test should.
const RSA_KEY: &str = include_str!("../fixtures/rsa-2048.pem");

/// The default lifetime of a certificate.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Certificates are valid from a minute ago, so that a clock that is slightly behind accepts them.
const LEEWAY: Duration = Duration::from_secs(60);

/// Issues certificates for servers and clients.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: CertificateDer<'static>,
    serial: AtomicU64,
}

impl Authority {
    /// Creates an authority with its own key, named `name`.
    pub fn new(name: &str) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(Error::of("make the authority's key"))?;
        let now = clock::now();
        let mut params = params(name, now - LEEWAY, now + 10 * LIFETIME)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate =
            params.self_signed(&key).map_err(Error::of("sign the authority's certificate"))?;
        Ok(Self {
            pem: certificate.pem(),
            der: certificate.der().clone(),
            issuer: Issuer::new(params, key),
            serial: AtomicU64::new(1),
        })
    }

    /// The authority's own certificate as PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The authority's own certificate as DER.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The authority's own key as PEM (PKCS#8), for a program that signs in its place.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A certificate for a server with these `names` (DNS names and IP addresses).
    pub fn server(&self, names: &[&str]) -> Result<Issued, Error> {
        let now = clock::now();
        let name = names.first().copied().unwrap_or("server");
        let mut params = params(name, now - LEEWAY, now + LIFETIME)?;
        params.subject_alt_names =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map_err(Error::of("use the server's names"))?
                .subject_alt_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, KeyKind::default())
    }

    /// Starts a certificate for the client `user` (its common name).
    pub fn client(&self, user: &str) -> Request<'_> {
        let now = clock::now();
        Request {
            authority: self,
            user: user.to_owned(),
            groups: Vec::new(),
            from: now - LEEWAY,
            until: now + LIFETIME,
            key: KeyKind::default(),
        }
    }

    fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    fn sign(&self, mut params: CertificateParams, key: KeyKind) -> Result<Issued, Error> {
        let serial = self.next_serial();
        params.serial_number = Some(serial.into());
        let key = key.pair()?;
        let certificate =
            params.signed_by(&key, &self.issuer).map_err(Error::of("sign a certificate"))?;
        Ok(Issued {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
            serial,
        })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A request for a client certificate.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    authority: &'a Authority,
    user: String,
    groups: Vec<String>,
    from: SystemTime,
    until: SystemTime,
    key: KeyKind,
}

impl Request<'_> {
    /// Adds a group (an organisation of the subject). At most two.
    #[must_use]
    pub fn group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// The first moment of validity, to the second (a fraction is cut off).
    #[must_use]
    pub fn from(mut self, from: SystemTime) -> Self {
        self.from = from;
        self
    }

    /// The last second of validity (a fraction is cut off).
    #[must_use]
    pub fn until(mut self, until: SystemTime) -> Self {
        self.until = until;
        self
    }

    /// The kind of the key; ECDSA P-256 by default.
    #[must_use]
    pub fn key(mut self, key: KeyKind) -> Self {
        self.key = key;
        self
    }

    /// Creates the key and signs the certificate.
    pub fn issue(self) -> Result<Issued, Error> {
        let params = client_params(&self.user, &self.groups, self.from, self.until)?;
        self.authority.sign(params, self.key)
    }
}

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyKind {
    /// ECDSA on P-256.
    #[default]
    P256,
    /// ECDSA on P-384.
    P384,
    /// Ed25519.
    Ed25519,
    /// RSA of 2048 bits. Always the same key: it is a fixture.
    Rsa,
}

impl KeyKind {
    fn pair(self) -> Result<KeyPair, Error> {
        match self {
            Self::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            Self::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
            Self::Rsa => KeyPair::from_pkcs8_pem_and_sign_algo(RSA_KEY, &rcgen::PKCS_RSA_SHA256),
        }
        .map_err(Error::of("make a key"))
    }
}

/// A certificate with its key.
#[derive(Clone)]
pub struct Issued {
    certificate_pem: String,
    key_pem: String,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    serial: u64,
}

impl Issued {
    /// The certificate as PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The key as PEM (PKCS#8).
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The certificate as DER.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The key as DER (PKCS#8).
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    /// The certificate's serial number, as the server reports and revokes it.
    pub fn serial(&self) -> u64 {
        self.serial
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("serial", &self.serial).finish_non_exhaustive()
    }
}

/// Kubernetes reads every organisation as a group. The library that writes the certificate keeps
/// one value per type; writing the identifier in two ways makes room for a second.
fn organisations() -> [DnType; 2] {
    [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])]
}

fn client_params(
    name: &str,
    groups: &[String],
    from: SystemTime,
    until: SystemTime,
) -> Result<CertificateParams, Error> {
    if groups.len() > organisations().len() {
        return Err(Error::of("sign a certificate")("more than two groups"));
    }
    let mut params = params(name, from, until)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for (group, kind) in groups.iter().zip(organisations()) {
        params.distinguished_name.push(kind, group.as_str());
    }
    Ok(params)
}

fn params(name: &str, from: SystemTime, until: SystemTime) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = moment(from)?;
    params.not_after = moment(until)?;
    Ok(params)
}

fn moment(time: SystemTime) -> Result<OffsetDateTime, Error> {
    let seconds =
        time.duration_since(UNIX_EPOCH).map_err(Error::of("use a time before 1970"))?.as_secs();
    OffsetDateTime::from_unix_timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
        .map_err(Error::of("use a time so far away"))
}
