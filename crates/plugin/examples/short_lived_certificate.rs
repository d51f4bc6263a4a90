//! Creates a key and a certificate for it that is valid for ten minutes, signed with a certificate
//! authority's key: `short_lived_certificate CA-KEY CA-NAME USER [GROUP…]`.
//!
//! Each call creates a new key, which is never stored. Kubernetes reads the user from
//! the common name and the groups from the organisations.

use std::{env, error::Error, fs, path::Path, process::ExitCode, time::Duration, time::SystemTime};

use keyward_plugin::{Credential, Plugin, Question, Refusal, serve};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};

/// How long the certificate lasts, and the lifetime we report: a little less, because clocks differ.
const LIFETIME: Duration = Duration::from_secs(600);
const TOLD: Duration = Duration::from_secs(570);

/// The certificate is valid from a little before now, for the same reason.
const LEEWAY: Duration = Duration::from_secs(30);

struct ShortLivedCertificate;

impl Plugin for ShortLivedCertificate {
    fn credential(&self, _question: &Question) -> Result<Credential, Refusal> {
        let mut args = env::args().skip(1);
        let (Some(key), Some(name), Some(user)) = (args.next(), args.next(), args.next()) else {
            return Err(Refusal::BadConfig(
                "usage: short_lived_certificate CA-KEY CA-NAME USER [GROUP…]".into(),
            ));
        };
        let groups: Vec<String> = args.collect();
        let authority = fs::read_to_string(Path::new(&key))
            .map_err(|e| Refusal::Failed(format!("cannot read `{key}`: {e}")))?;
        let (certificate, key) = issue(&authority, &name, &user, &groups)?;
        Ok(Credential::certificate(certificate, key).expires_in(TOLD))
    }
}

/// A new certificate and its key, both in PEM.
fn issue(
    authority_key: &str,
    authority: &str,
    user: &str,
    groups: &[String],
) -> Result<(String, String), Box<dyn Error + Send + Sync>> {
    let mut name = CertificateParams::default();
    name.distinguished_name = rcgen::DistinguishedName::new();
    name.distinguished_name.push(DnType::CommonName, authority);
    let issuer = Issuer::new(name, KeyPair::from_pem(authority_key)?);

    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params.distinguished_name.push(DnType::CommonName, user);
    #[expect(clippy::disallowed_methods, reason = "a plugin lives by the real clock")]
    let now = SystemTime::now();
    params.not_before = (now - LEEWAY).into();
    params.not_after = (now + LIFETIME).into();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn main() -> ExitCode {
    serve(ShortLivedCertificate)
}
