//! An external signer with a key in a file: `certificate` and `key` of the kubeconfig's
//! configuration name the files, both in PEM, the key in PKCS#8.
//!
//! A key in a file is no safer here than in the kubeconfig. The example shows the
//! structure; use a token, a TPM or a key service instead.

mod key;

use std::{fs, process::ExitCode};

use keyward_plugin::{
    CertificateResponse, Configuration, Refusal, SignRequest, Signer, serve_signer,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use key::Key;

struct FileKey;

impl Signer for FileKey {
    fn certificate(
        &mut self,
        configuration: &Configuration,
    ) -> Result<CertificateResponse, Refusal> {
        let pem = read(configuration, "certificate")?;
        let mut chain = CertificateDer::pem_slice_iter(pem.as_bytes())
            .map(|found| found.map(|certificate| certificate.to_vec()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| Refusal::BadConfig("`certificate` is not in PEM".into()))?
            .into_iter();
        let certificate = chain.next().ok_or_else(|| {
            Refusal::BadConfig("the file `certificate` contains no certificate".into())
        })?;
        let prompt = configuration.get("prompt").map(str::to_owned);
        Ok(CertificateResponse { certificate, chain: chain.collect(), prompt })
    }

    fn sign(&mut self, request: &SignRequest) -> Result<Vec<u8>, Refusal> {
        Key::read(&read(&request.configuration, "key")?)?.sign(&request.digest, request.options)
    }
}

/// The content of the file in the configuration entry `name`.
fn read(configuration: &Configuration, name: &str) -> Result<String, Refusal> {
    let path = configuration
        .get(name)
        .ok_or_else(|| Refusal::BadConfig(format!("`{name}` is missing in the configuration")))?;
    fs::read_to_string(path).map_err(|e| Refusal::Failed(format!("cannot read `{path}`: {e}")))
}

fn main() -> ExitCode {
    serve_signer(FileKey)
}
