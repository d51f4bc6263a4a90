//! Lists the certificates in a PEM file: whom they are for, who signed them, and until when they are
//! valid. `cargo run -p keyward-protocol --example certificates -- ca.crt`
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use std::{env, error::Error, fs};

use keyward_protocol::{
    time::format_rfc3339,
    x509::{self, Certificate},
};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args_os().nth(1).ok_or("usage: certificates FILE")?;
    for line in list(&fs::read(path)?) {
        println!("{line}");
    }
    Ok(())
}

/// A line for each certificate; other blocks, and text between them, are skipped.
pub(crate) fn list(pem: &[u8]) -> Vec<String> {
    x509::bundle(pem)
        .filter_map(|der| {
            let certificate = Certificate::parse(&der)?;
            let until = format_rfc3339(certificate.not_after);
            let (subject, issuer) = (&certificate.subject, &certificate.issuer);
            Some(format!("`{subject}`, signed by `{issuer}`, valid until {until}"))
        })
        .collect()
}
