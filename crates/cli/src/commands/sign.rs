//! `keyward sign`: asks a configured signer for its certificate and a test signature.

use base64::{Engine, engine::general_purpose::STANDARD};
use keyward::tls;
use keyward_host::{Draft, SignerCertificate, Sources};
use keyward_process::{
    clock::{Clock, SystemClock},
    runner::Cancel,
};
use serde::Serialize;

use crate::{
    failure::Failure,
    globals::Globals,
    output::{self, inline},
};

/// Ask the external signer of a user for its certificate and a test signature
///
/// Opens no connection. The signed text is a test message, never a handshake; the signature is
/// verified with the certificate's key. A PIN is asked for as it would be for a connection.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # Does the token of the current context sign?
  keyward sign

  # With every scheme that TLS has for its key, for a script.
  keyward sign --all -o json")]
pub(crate) struct Args {
    /// Sign with every scheme that TLS has for the key, not only the first
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    output: output::Output,
}

/// The text to sign. A TLS 1.3 handshake begins with 64 spaces, and one of TLS 1.2 with two random
/// numbers of 32 bytes, so this cannot be mistaken for either.
const TEXT: &[u8] = b"keyward sign: a test, of no use to anybody";

/// Asks the signer, verifies the signatures and prints the result.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let target = globals.target()?;
    let plan = globals.plan(target.clone())?;
    let Some(plugin) = plan.signer() else {
        return Err(Failure::failed("the user has no external signer")
            .note("needed by", output::user(&target))
            .hint("`keyward plan` shows what it has"));
    };
    let started = SystemClock.elapsed();
    let credential = Sources::global().open(&plan).credential_blocking()?;
    let Some(signer) = credential.signer() else {
        return Err(Failure::failed("the signer has no certificate"));
    };
    let asked = SystemClock.elapsed();
    let stop = Cancel::default();
    signer.unlock(&stop)?;
    let mut signatures = Vec::new();
    for scheme in tls::schemes(signer.key).iter().take(if args.all { usize::MAX } else { 1 }) {
        let before = SystemClock.elapsed();
        let signature = scheme.sign(signer, TEXT, &stop)?;
        signatures.push(Signature {
            scheme: scheme.name(),
            bytes: signature.len(),
            base64: STANDARD.encode(&signature),
            milliseconds: milliseconds(SystemClock.elapsed().saturating_sub(before)),
        });
    }
    if signatures.is_empty() {
        return Err(Failure::failed("no signature of this key can be checked here"));
    }
    let proof = Proof {
        signer: inline(plugin.command()),
        resident: plugin.resident(),
        certificate: certificate(signer, milliseconds(asked.saturating_sub(started))),
        signatures,
    };
    args.output.print(&proof, || text(&proof, &plan))
}

/// The result.
#[derive(Debug, Serialize)]
struct Proof {
    signer: String,
    resident: bool,
    certificate: Certificate,
    signatures: Vec<Signature>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    #[serde(skip_serializing_if = "Option::is_none")]
    common_name: Option<String>,
    key: &'static str,
    not_before: String,
    not_after: String,
    /// Leaf first, DER in Base64.
    chain: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    milliseconds: f64,
}

/// A verified signature.
#[derive(Debug, Serialize)]
struct Signature {
    scheme: &'static str,
    bytes: usize,
    #[serde(rename = "signature")]
    base64: String,
    milliseconds: f64,
}

fn certificate(signer: &SignerCertificate, milliseconds: f64) -> Certificate {
    Certificate {
        common_name: signer.common_name.as_deref().map(inline),
        key: signer.key.name(),
        not_before: signer.not_before.to_string(),
        not_after: signer.not_after.to_string(),
        chain: signer.chain.iter().map(|der| STANDARD.encode(der)).collect(),
        prompt: signer.prompt.as_deref().map(inline),
        milliseconds,
    }
}

fn text(proof: &Proof, plan: &Draft) -> String {
    let mode = if proof.resident { "stays" } else { "run for each request" };
    let certificate = &proof.certificate;
    let name = certificate.common_name.as_deref().unwrap_or("no common name");
    let program = plan.signer().and_then(|plugin| plugin.preview.program.as_ref());
    let program =
        program.map_or(proof.signer.clone(), |program| program.path.display().to_string());
    let mut rows = vec![
        ("signer", format!("{} ({mode})", inline(&program))),
        ("certificate", format!("{name}, {}, until {}", certificate.key, certificate.not_after)),
    ];
    if certificate.chain.len() > 1 {
        rows.push(("chain", format!("{} certificates", certificate.chain.len())));
    }
    if let Some(prompt) = &certificate.prompt {
        rows.push(("prompt", prompt.clone()));
    }
    rows.push(("asked", format!("{} ms", certificate.milliseconds)));
    for signature in &proof.signatures {
        let Signature { scheme, bytes, milliseconds, .. } = signature;
        rows.push(("signed", format!("{scheme}, {bytes} bytes, good, {milliseconds} ms")));
    }
    rows.iter().fold(String::new(), |text, (label, fact)| text + &format!("{label:<13}{fact}\n"))
}

fn milliseconds(time: std::time::Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}
