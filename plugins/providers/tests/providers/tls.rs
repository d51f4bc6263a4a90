//! A judge's stand-in behind TLS.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tempfile::TempDir;

use crate::judge::Judge;

/// The stand-in behind TLS.
pub(crate) struct Tls {
    pub(crate) url: String,
    /// The file with the authority of its certificate.
    pub(crate) authority: PathBuf,
    _directory: TempDir,
}

/// The stand-in of a judge behind TLS, and the authority of its certificate.
pub(crate) fn tls(judge: &mut Judge) -> Tls {
    let directory = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let leaf_key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .signed_by(&leaf_key, &issuer)
        .unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (certificate, key) =
        (write("leaf.pem", &leaf.pem()), write("key.pem", &leaf_key.serialize_pem()));
    let answer = judge.ask(&json!({"operation": "tls", "certificate": certificate, "key": key}));
    let authority = write("authority.pem", &authority.pem());
    Tls { url: answer["url"].as_str().unwrap().to_owned(), authority, _directory: directory }
}
