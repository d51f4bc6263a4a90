//! `keyward-kms`: an external signer for TLS client keys in AWS KMS and in the transit engine of OpenBao and Vault.
//!
//! ```text
//! kubeconfig ──► Target ──► certificate: a file
//!                   └─────► Backend: AWS KMS or transit ──► signature
//! ```
//!
//! The key never leaves its service. The address of the service and the credentials come from the environment and from
//! the files of the service's own tools, never from the kubeconfig, which may be somebody else's. (It may select one of
//! your AWS profiles.)

mod aws;
mod certificate;
mod commands;
mod flags;
mod scheme;
mod target;
mod transit;

use std::process::ExitCode;

use keyward_plugin::{
    CertificateResponse, Configuration, Refusal, SignRequest, Signer, serve_signer,
};

use self::{
    aws::Kms,
    certificate::Chain,
    commands::Command,
    flags::{FLAGS, USAGE},
    scheme::Scheme,
    target::{Place, Target},
    transit::Transit,
};
use crate::{Call, explain::Explain, flags::Flags};

/// The host of the API of AWS KMS in a region.
pub fn api_host(region: &str) -> String {
    aws::host(region)
}

/// A service that holds keys.
trait Backend {
    /// What the key is called, for people.
    fn name(&self) -> String;

    /// The public half of the key, as a `SubjectPublicKeyInfo` in DER.
    fn public_key(&self) -> Result<Vec<u8>, Refusal>;

    /// A signature over a digest: ECDSA in ASN.1 DER, RSA as it is.
    fn sign(&self, scheme: Scheme, digest: &[u8]) -> Result<Vec<u8>, Refusal>;
}

/// Runs the family.
pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let flags = Flags::read(&[FLAGS], &call.args)?;
    if flags.is_set("help") {
        return call.print(USAGE);
    }
    match Command::of(call, &flags)? {
        Some(command) => command.run(call, &flags),
        None => Ok(serve_signer(KmsSigner { call })),
    }
}

struct KmsSigner<'a> {
    call: &'a Call,
}

impl Signer for KmsSigner<'_> {
    fn certificate(
        &mut self,
        configuration: &Configuration,
    ) -> Result<CertificateResponse, Refusal> {
        let target = Target::of_configuration(self.call, configuration)?;
        let Chain { leaf, rest } = Chain::read(&target)?;
        Ok(CertificateResponse { certificate: leaf, chain: rest, prompt: None })
    }

    fn sign(&mut self, request: &SignRequest) -> Result<Vec<u8>, Refusal> {
        let target = Target::of_configuration(self.call, &request.configuration)?;
        let scheme = Scheme::of(&Chain::read(&target)?, request.options)?;
        let explain = Explain::default();
        target.backend(self.call, &explain)?.sign(scheme, &request.digest)
    }
}

impl Target {
    /// Opens the service of the key.
    fn backend<'a>(
        &'a self,
        call: &'a Call,
        explain: &'a Explain,
    ) -> Result<Box<dyn Backend + 'a>, Refusal> {
        Ok(match &self.place {
            Place::Aws { key, region, profile } => {
                Box::new(Kms::open(call, explain, key, region.as_deref(), profile.as_deref())?)
            }
            Place::Transit(key) => Box::new(Transit::open(call, explain, key)?),
        })
    }
}
