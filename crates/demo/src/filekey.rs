//! A small external signer for `keyward demo`: an Ed25519 key in a file.

use std::{
    fs,
    io::Write,
    process::{self, ExitCode},
};

use keyward_plugin::{
    CertificateResponse, Configuration, Options, Refusal, SignRequest, Signer, serve_signer,
};
use keyward_protocol::{pem::Blocks, x509};
use rustls::{SignatureScheme, crypto::ring::sign::any_eddsa_type, pki_types::PrivatePkcs8KeyDer};

/// Answers the client that started this process. The signer's configuration names the files:
/// `certificate` and `key` in PEM, and `log`, which gets a line per request with its kind and our
/// process id. See [`keyward_plugin::serve_signer`] for the exit codes.
pub fn serve() -> ExitCode {
    serve_signer(FileKey)
}

struct FileKey;

impl Signer for FileKey {
    fn certificate(
        &mut self,
        configuration: &Configuration,
    ) -> Result<CertificateResponse, Refusal> {
        note(configuration, "CertificateRequest")?;
        let pem = read(configuration, "certificate")?;
        let certificate = x509::bundle(pem.as_bytes())
            .next()
            .ok_or_else(|| Refusal::failed("there is no certificate in the file"))?;
        Ok(CertificateResponse { certificate, chain: Vec::new(), prompt: None })
    }

    fn sign(&mut self, request: &SignRequest) -> Result<Vec<u8>, Refusal> {
        note(&request.configuration, "SignRequest")?;
        if request.options != Options::Message {
            return Err(Refusal::Unsupported("the key is for Ed25519 alone".to_owned()));
        }
        sign(&read(&request.configuration, "key")?, &request.digest)
    }
}

/// Reads the key, in PEM, and signs.
pub fn sign(pem: &str, message: &[u8]) -> Result<Vec<u8>, Refusal> {
    let block = Blocks::of(pem.as_bytes())
        .next()
        .ok_or_else(|| Refusal::failed("there is no key in the file"))?;
    let key = PrivatePkcs8KeyDer::from(block.content.as_slice());
    let signer = any_eddsa_type(&key)
        .map_err(Refusal::failed)?
        .choose_scheme(&[SignatureScheme::ED25519])
        .ok_or_else(|| Refusal::Unsupported("the key is for Ed25519 alone".to_owned()))?;
    signer.sign(message).map_err(Refusal::failed)
}

fn read(configuration: &Configuration, name: &str) -> Result<String, Refusal> {
    let path = configuration
        .get(name)
        .ok_or_else(|| Refusal::BadConfig(format!("`{name}` is missing in the configuration")))?;
    fs::read_to_string(path).map_err(|e| Refusal::Failed(format!("cannot read `{path}`: {e}")))
}

fn note(configuration: &Configuration, kind: &str) -> Result<(), Refusal> {
    let Some(path) = configuration.get("log") else { return Ok(()) };
    let line = format!("{kind} {}\n", process::id());
    fs::File::options()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|e| Refusal::Failed(format!("cannot write `{path}`: {e}")))
}
