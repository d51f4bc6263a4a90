//! Explains why a server's certificate was rejected, so that the reader can see which side is wrong.

use std::{error::Error as StdError, fmt, sync::Arc};

use keyward_protocol::{time::format_rfc3339, x509::Certificate};
use rustls::{
    CertificateError, Error as TlsError, OtherError,
    pki_types::{CertificateDer, ServerName},
};

/// The most names of a certificate, or authorities of a bundle, that a message lists.
const MOST: usize = 5;

/// Why a server's certificate was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The certificate is for other names. The chain is good.
    Name,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYet,
    /// No trusted authority signed it, or it is malformed.
    Untrusted,
}

/// What is wrong with a server's certificate, what it says, and who was trusted.
#[derive(Debug)]
pub(crate) struct Rejected {
    pub(crate) kind: Rejection,
    /// In DER.
    pub(crate) certificate: Vec<u8>,
    reason: String,
    shown: Detail,
}

/// A fact that is the next cause of an error.
#[derive(Debug)]
struct Detail {
    text: String,
    next: Option<Box<Detail>>,
}

/// Adds an explanation to a rejection. rustls passes it on unchanged.
pub(super) fn explain(
    error: TlsError,
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    trusted: String,
) -> TlsError {
    let TlsError::InvalidCertificate(cause) = &error else { return error };
    let rejected = Rejected {
        kind: kind(cause),
        certificate: certificate.to_vec(),
        reason: reason(cause, name),
        shown: Detail {
            text: shown(certificate),
            next: Some(Box::new(Detail { text: trusted, next: None })),
        },
    };
    CertificateError::Other(OtherError(Arc::new(rejected))).into()
}

/// The explanation in a failed handshake, where there is one.
pub(crate) fn rejection(error: &std::io::Error) -> Option<Arc<dyn StdError + Send + Sync>> {
    match error.get_ref()?.downcast_ref()? {
        TlsError::InvalidCertificate(CertificateError::Other(OtherError(inner))) => {
            inner.is::<Rejected>().then(|| Arc::clone(inner))
        }
        _ => None,
    }
}

fn kind(cause: &CertificateError) -> Rejection {
    use CertificateError as Cause;

    match cause {
        Cause::NotValidForName | Cause::NotValidForNameContext { .. } => Rejection::Name,
        Cause::Expired | Cause::ExpiredContext { .. } => Rejection::Expired,
        Cause::NotValidYet | Cause::NotValidYetContext { .. } => Rejection::NotYet,
        _ => Rejection::Untrusted,
    }
}

fn reason(cause: &CertificateError, name: &ServerName<'_>) -> String {
    use CertificateError as Cause;

    match (kind(cause), cause) {
        (Rejection::Name, _) => {
            format!("the server's certificate is not for `{}`", name.to_str())
        }
        (Rejection::Expired, _) => "the server's certificate has expired".into(),
        (Rejection::NotYet, _) => "the server's certificate is not valid yet".into(),
        (_, Cause::UnknownIssuer) => {
            "the server's certificate is signed by none of the trusted authorities".into()
        }
        (_, Cause::BadSignature) => {
            "the server's certificate names a trusted authority that did not sign it".into()
        }
        // Most often a self-signed certificate that was made anew since the kubeconfig was written.
        (_, Cause::Other(OtherError(inner)))
            if inner.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity) =>
        {
            "the server showed the certificate of an authority that is not a trusted one".into()
        }
        (_, other) => TlsError::from(other.clone()).to_string(),
    }
}

/// Names, issuer and validity of the server's certificate.
fn shown(certificate: &CertificateDer<'_>) -> String {
    let Some(read) = Certificate::parse(certificate) else {
        return "the server showed a malformed certificate".into();
    };
    let names = list(read.alternative_names.iter().map(ToString::to_string));
    let names = if names.is_empty() { "no server".into() } else { names };
    format!(
        "the server showed `{}`, signed by `{}`, for {names}, valid from {} to {}",
        read.subject,
        read.issuer,
        format_rfc3339(read.not_before),
        format_rfc3339(read.not_after)
    )
}

/// The configured authorities, and where they come from.
pub(super) fn trusted(authorities: &[CertificateDer<'_>], source: &str) -> String {
    let subjects = authorities
        .iter()
        .filter_map(|der| Certificate::parse(der))
        .map(|certificate| certificate.subject.to_string());
    format!("trusted is {}, from {source}", list(subjects))
}

fn list(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<_> = texts.map(|text| format!("`{text}`")).collect();
    match texts.len().checked_sub(MOST) {
        Some(more @ 1..) => format!("{} and {more} more", texts[..MOST].join(", ")),
        _ => texts.join(", "),
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl StdError for Rejected {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.shown)
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl StdError for Detail {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.next.as_deref().map(|next| next as &(dyn StdError + 'static))
    }
}
