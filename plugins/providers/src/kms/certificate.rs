//! The file with the certificate.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::x509::{Certificate, bundle};

use super::target::Target;

/// The limits for a certificate file.
const LIMITS: Limits = Limits::NAMED.at_most(1 << 20);

/// A certificate and its intermediates, in DER.
pub(super) struct Chain {
    pub(super) leaf: Vec<u8>,
    pub(super) rest: Vec<Vec<u8>>,
}

impl Chain {
    /// Reads the file that the kubeconfig names.
    pub(super) fn read(target: &Target) -> Result<Self, Refusal> {
        let path = target.certificate()?;
        let bytes = file::read(path, &LIMITS).map_err(|error| {
            Refusal::BadConfig(format!(
                "cannot read the certificate `{}`: {}\n\nhint: `keyward enroll` gets one, and so do `keyward-kms csr` \
                 and an authority of yours",
                path.display(),
                file::reason(&error)
            ))
        })?;
        Self::of(&bytes).ok_or_else(|| {
            Refusal::BadConfig(format!("`{}` has no certificate in PEM", path.display()))
        })
    }

    /// The certificates in a PEM text, the leaf first.
    pub(super) fn of(pem: &[u8]) -> Option<Self> {
        let mut all = bundle(pem);
        Some(Self { leaf: all.next()?, rest: all.collect() })
    }

    /// The public key of the certificate, as a `SubjectPublicKeyInfo` in DER.
    pub(super) fn public_key(&self) -> Option<Vec<u8>> {
        Some(Certificate::parse(&self.leaf)?.public_key.der.to_vec())
    }
}

/// Stores a certificate where the kubeconfig names it. A file that is not known to be a certificate is kept.
pub(super) fn store(target: &Target, pem: &[u8]) -> Result<(), Refusal> {
    let path = target.certificate()?;
    match file::read(path, &LIMITS) {
        Ok(old) if !old.is_empty() && Chain::of(&old).is_none() => {
            return Err(Refusal::BadConfig(format!(
                "`{}` exists and is no certificate, so it is not replaced",
                path.display()
            )));
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Refusal::BadConfig(format!(
                "`{}` exists and cannot be read, so it is not replaced: {}",
                path.display(),
                file::reason(&error)
            )));
        }
        _ => (),
    }
    let failed = |path: &Path, error: &io::Error| {
        Refusal::Failed(format!("cannot write `{}`: {error}", path.display()))
    };
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // If it exists, it is somebody else's.
    let mut file = fs::File::create_new(&new).map_err(|error| failed(&new, &error))?;
    let written = file.write_all(pem).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&new, path)).map_err(|error| {
        _ = fs::remove_file(&new);
        failed(path, &error)
    })
}
