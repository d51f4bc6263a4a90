//! The commands that people run by hand, and that `keyward enroll` runs with the kubeconfig's entries in the
//! environment.

use std::{io::Read as _, process::ExitCode};

use keyward_plugin::{Hash, Options, Refusal};
use keyward_process::file::{self, Limits};
use keyward_protocol::{
    der::Der,
    signer::{REQUEST_VARIABLE, Request},
    text::inline,
    x509::{CertificateRequest, Curve, PublicKey, PublicKeyInfo},
};
use ring::{
    digest::{SHA256, SHA384, SHA512, digest},
    signature::{self as algorithms, UnparsedPublicKey, VerificationAlgorithm},
};

use super::{
    Backend,
    certificate::{Chain, store},
    scheme::Scheme,
    target::Target,
};
use crate::{Call, flags::Flags};

/// The longest certificate that is stored.
const LONGEST: u64 = 1 << 20;

/// Prints a certificate request.
pub(super) fn print_csr(call: &Call, flags: &Flags) -> Result<ExitCode, Refusal> {
    let target = target(call, flags)?;
    let user = flags
        .filled("user")
        .ok_or_else(|| Refusal::bad_config("`--user` is missing: the user name in the cluster"))?;
    let backend = target.backend(call)?;
    call.print(&csr(&*backend, user, flags.list("group"))?)
}

/// Stores a certificate from a file, or from stdin.
pub(super) fn import(call: &Call, flags: &Flags, path: &str) -> Result<ExitCode, Refusal> {
    let target = target(call, flags)?;
    let pem = read(call, path)?;
    let chain = Chain::of(&pem).ok_or_else(|| {
        Refusal::BadConfig(format!("`{}` has no certificate in PEM", inline(path)))
    })?;
    belongs(&*target.backend(call)?, &chain)?;
    store(&target, &pem).map(|()| ExitCode::SUCCESS)
}

/// Shows the sources, and signs once.
pub(super) fn explain(call: &Call, flags: &Flags) -> Result<ExitCode, Refusal> {
    let target = target(call, flags)?;
    call.explain(|| {
        let backend = target.backend(call)?;
        call.note("key", backend.name());
        csr(&*backend, "nobody", &[])?;
        call.used("key", "it has signed");
        if target.certificate().is_ok() {
            belongs(&*backend, &Chain::read(&target)?)?;
            call.note("certificate", "it is the key's");
        }
        Ok(())
    })
}

/// The key of the flags or, if a client started this program, of its request.
fn target(call: &Call, flags: &Flags) -> Result<Target, Refusal> {
    match call.surroundings.var(REQUEST_VARIABLE) {
        Some(text) if flags.text("key").is_none() && !text.is_empty() => {
            let request = Request::read(text.as_encoded_bytes()).map_err(|fault| {
                Refusal::BadConfig(format!("cannot read `{REQUEST_VARIABLE}`: {fault}"))
            })?;
            let configuration = request.configuration().ok_or_else(|| {
                Refusal::BadConfig(format!("`{REQUEST_VARIABLE}` has no configuration"))
            })?;
            Target::of_configuration(call, configuration)
        }
        _ => Target::of_flags(call, flags),
    }
}

/// A certificate request that the key has signed. The signature is checked: a wrong one would be found much later.
fn csr(backend: &dyn Backend, user: &str, groups: &[String]) -> Result<String, Refusal> {
    let public = backend.public_key()?;
    let info = PublicKeyInfo::read(&mut Der(&public));
    let request = info.and_then(|info| CertificateRequest::new(user, groups, &info));
    let (Some(info), Some(request)) = (info, request) else {
        return Err(unsuitable(backend));
    };
    let Options::Digest(hash) = request.options() else { return Err(unsuitable(backend)) };
    let scheme = match info.key {
        PublicKey::Rsa { .. } => Scheme::Pkcs1(hash),
        _ => Scheme::Ecdsa(hash),
    };
    let algorithm = match hash {
        Hash::Sha256 => &SHA256,
        Hash::Sha384 => &SHA384,
        Hash::Sha512 => &SHA512,
    };
    let signature = backend.sign(scheme, digest(algorithm, request.body()).as_ref())?;
    let verifier: Option<&dyn VerificationAlgorithm> = match info.key {
        PublicKey::Rsa { .. } => Some(&algorithms::RSA_PKCS1_2048_8192_SHA256),
        PublicKey::Ec { curve: Curve::P256, .. } => Some(&algorithms::ECDSA_P256_SHA256_ASN1),
        PublicKey::Ec { curve: Curve::P384, .. } => Some(&algorithms::ECDSA_P384_SHA384_ASN1),
        // ring lacks P-521; the authority checks the request anyway.
        _ => None,
    };
    let is_good = verifier.is_none_or(|verifier| {
        UnparsedPublicKey::new(verifier, info.bits).verify(request.body(), &signature).is_ok()
    });
    if !is_good {
        return Err(Refusal::Failed(format!(
            "the signature of {} is not one of its own key",
            backend.name()
        )));
    }
    Ok(request.finish(&signature))
}

fn unsuitable(backend: &dyn Backend) -> Refusal {
    Refusal::BadConfig(format!(
        "{} is no key for TLS: it has to be RSA, P-256, P-384 or P-521, for signatures",
        backend.name()
    ))
}

/// Refuses a certificate of another key.
fn belongs(backend: &dyn Backend, chain: &Chain) -> Result<(), Refusal> {
    if chain.public_key() == Some(backend.public_key()?) {
        return Ok(());
    }
    Err(Refusal::BadConfig(format!("the certificate is not for the key {}", backend.name())))
}

fn read(call: &Call, path: &str) -> Result<Vec<u8>, Refusal> {
    if path == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().take(LONGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST {
            return Err(Refusal::bad_config("the certificate on stdin is longer than 1 MiB"));
        }
        return Ok(bytes);
    }
    let full = call.surroundings.absolute(path.as_ref());
    let bytes = file::read(&full, &Limits::GIVEN.at_most(LONGEST)).map_err(|error| {
        Refusal::BadConfig(format!("cannot read `{}`: {}", inline(path), file::reason(&error)))
    })?;
    Ok(bytes.to_vec())
}
