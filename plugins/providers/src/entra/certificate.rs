//! The certificate of an application, with which it signs assertions.

use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::{pem::Blocks, text::inline};
use rustls::{
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};

use super::login::Login;
use crate::client_auth::SigningKey;

/// The key of a certificate, which signs assertions, and the certificate in DER.
pub(super) fn read(
    login: &Login,
    path: &std::path::Path,
) -> Result<(SigningKey, Vec<u8>), Refusal> {
    let shown = inline(&path.display().to_string());
    let bad = |why: &str| Refusal::BadConfig(format!("the certificate `{shown}`: {why}"));
    let bytes = file::read(path, &Limits::NAMED.at_most(1 << 20))
        .map_err(|error| bad(&format!("cannot be read: {}", file::reason(&error))))?;
    if path.extension().is_some_and(|extension| extension == "pfx" || extension == "p12") {
        let password =
            if login.certificate_password.is_some() { "" } else { " (its password is empty)" };
        return Err(bad(&format!(
            "pfx is not read{password}\n\n\
             hint: convert it with `openssl pkcs12 -in FILE.pfx -nodes -out FILE.pem`"
        )));
    }
    let encrypted = Blocks::of(&bytes).any(|block| block.label == "ENCRYPTED PRIVATE KEY");
    let key = PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| {
        bad(if encrypted {
            "its key is encrypted\n\nhint: decrypt it with `openssl pkey -in FILE -out FILE.key`"
        } else {
            "it has no private key in PEM"
        })
    })?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&bytes).filter_map(Result::ok).collect();
    let provider = rustls::crypto::ring::default_provider();
    let fits = |leaf: &&CertificateDer<'static>| {
        CertifiedKey::from_der(vec![(*leaf).clone()], key.clone_key(), &provider).is_ok()
    };
    let leaf = chain.iter().find(fits).ok_or_else(|| bad("no certificate in it fits its key"))?;
    let leaf = leaf.to_vec();
    let key = SigningKey::from_pem(&bytes, None).and_then(|key| key.with_certificate(leaf.clone()));
    Ok((key.map_err(bad)?, leaf))
}
