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
use keyward_protocol::text::inline;

pub use self::aws::api_host;
use self::{
    aws::Kms,
    certificate::Chain,
    flags::{FLAGS, USAGE},
    scheme::Scheme,
    target::{Place, Target},
    transit::Transit,
};
use crate::Call;

/// A service that holds keys.
trait Backend {
    /// What the key is called, for people.
    fn name(&self) -> String;

    /// The public half of the key, as a `SubjectPublicKeyInfo` in DER.
    fn public_key(&self) -> Result<Vec<u8>, Refusal>;

    /// A signature over a digest: ECDSA in ASN.1 DER, RSA as it is.
    fn sign(&self, scheme: Scheme, digest: &[u8]) -> Result<Vec<u8>, Refusal>;
}

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let Some(flags) = call.flags(&[FLAGS], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    match flags.words().as_slice() {
        [] if call.explains => commands::explain(call, &flags),
        [] => Ok(serve_signer(KmsSigner { call })),
        ["csr"] => commands::print_csr(call, &flags),
        ["import", file] => commands::import(call, &flags, file),
        [word, ..] => Err(Refusal::BadConfig(format!(
            "there is no command `{}`, or it has too few or too many words\n\nhint: `{} --help`",
            inline(word),
            call.name
        ))),
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
        target.backend(self.call)?.sign(scheme, &request.digest)
    }
}

impl Target {
    /// Opens the service of the key.
    fn backend<'a>(&'a self, call: &'a Call) -> Result<Box<dyn Backend + 'a>, Refusal> {
        Ok(match &self.place {
            Place::Aws { key, region, profile } => {
                Box::new(Kms::open(call, key, region.as_deref(), profile.as_deref())?)
            }
            Place::Transit(key) => Box::new(Transit::open(call, key)?),
        })
    }
}
