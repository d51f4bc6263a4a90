use std::{fmt::Write as _, time::Instant};

use clap::Args;
use keyward_plugin::{Options, Refusal};

use super::{Place, print};
use crate::{
    open::Open,
    sign::{Failure, schemes},
    signer::choose,
    verify,
};

/// `keyward-pkcs11 test`
#[derive(Args)]
pub(super) struct Test {
    #[command(flatten)]
    place: Place,
}

/// What is signed. Nothing that could be taken for a handshake.
const MESSAGE: &[u8] = b"keyward-pkcs11 test";

impl Test {
    pub(super) fn run(&self) -> Result<(), Refusal> {
        let mut wrong_pins = Vec::new();
        let mut out = String::new();
        let clock = start();
        let mut open = Open::new(self.place.target()?, false)?;
        let _ = writeln!(out, "open    {:>8.1?}", clock.elapsed());
        let clock = start();
        open.login(&mut wrong_pins)?;
        let _ = writeln!(out, "login   {:>8.1?}", clock.elapsed());
        let contents = open.contents()?;
        let identity = choose(&open, &contents)?;
        let uri = identity.uri(&open.token);
        let unusable = |what: &str| Refusal::BadConfig(format!("the key `{uri}` {what}"));
        let key = identity.private.ok_or_else(|| unusable("cannot be seen"))?;
        let public = identity.public.ok_or_else(|| unusable("has no public half to check with"))?;
        let mut failed = 0;
        for options in schemes(public.kind) {
            let clock = start();
            let digest = verify::to_sign(options, MESSAGE);
            let outcome = open.sign(key, options, &digest, &mut wrong_pins);
            let took = clock.elapsed();
            let verdict = match outcome {
                Ok(signature) if verify::verify(public, options, MESSAGE, &signature) => {
                    "good".to_owned()
                }
                Ok(_) => "BAD: the signature is not one of this key".to_owned(),
                // What the token does not do is no reason to spoil what it does; a PIN is.
                Err(failure @ Failure::Module(_)) => format!("FAILED: {}", failure.refusal()),
                Err(Failure::Final(refusal)) => return Err(refusal),
            };
            failed += usize::from(verdict != "good");
            let _ =
                writeln!(out, "sign    {took:>8.1?}  {} {}  {verdict}", public.kind, name(options));
        }
        if !identity.certificates.iter().any(|(_, found)| found.public == *public) {
            out.push_str("there is no certificate for this key yet\n");
        }
        print(&out)?;
        if failed > 0 {
            return Err(Refusal::failed(format!("{failed} of the signatures did not come out")));
        }
        Ok(())
    }
}

/// The start of a measurement.
#[expect(clippy::disallowed_methods, reason = "a plugin lives by the real clock")]
fn start() -> Instant {
    Instant::now()
}

fn name(options: Options) -> String {
    match options {
        Options::Pss(hash) => format!("PSS {hash}"),
        Options::Digest(hash) => hash.to_string(),
        Options::Message => "message".to_owned(),
    }
}
