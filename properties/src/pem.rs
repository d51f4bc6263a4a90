//! Certificates and keys, in PEM and in DER.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_host::pair::{KeyDer, Pair};
use keyward_protocol::Secret;

use crate::{budget, mark};

/// Text is PEM, with a certificate and a key in any order. What begins as DER does is the two as
/// they are, one after the other, so that a fuzzer can change single bytes of them.
pub(crate) fn check(input: &[u8]) {
    let text = match input {
        [0x30, ..] => from_der(input),
        _ => String::from_utf8_lossy(input).into_owned(),
    };
    let key = Secret::new(text.as_str());
    match budget::within(text.as_bytes(), || Pair::parse(&text, &key)) {
        Err(error) => mark::hidden(&format!("{error} {error:?}")),
        Ok(pair) => accepted(&pair),
    }
}

/// A pair that was accepted is accepted again in the plainest form that says the same.
fn accepted(pair: &Pair) {
    assert!(!pair.chain.is_empty());
    let chain: String = pair.chain.iter().map(|der| block("CERTIFICATE", der)).collect();
    let (label, key) = match &pair.key {
        KeyDer::Pkcs8(der) => ("PRIVATE KEY", der),
        KeyDer::Pkcs1(der) => ("RSA PRIVATE KEY", der),
    };
    let again = Pair::parse(&chain, &Secret::new(block(label, key))).expect("it was accepted");
    assert_eq!(again.chain, pair.chain);
    assert_eq!((again.not_before, again.not_after), (pair.not_before, pair.not_after));
    assert_eq!(again.common_name, pair.common_name);
    let same = match (&again.key, &pair.key) {
        (KeyDer::Pkcs8(one), KeyDer::Pkcs8(other)) | (KeyDer::Pkcs1(one), KeyDer::Pkcs1(other)) => {
            one == other
        }
        _ => false,
    };
    assert!(same, "another key after writing");
}

fn from_der(input: &[u8]) -> String {
    let length = match input {
        [_, 0x82, high, low, ..] => 4 + usize::from(*high) * 256 + usize::from(*low),
        [_, 0x81, length, ..] => 3 + usize::from(*length),
        [_, length, ..] => 2 + usize::from(*length),
        _ => 0,
    };
    let (certificate, key) = input.split_at(length.min(input.len()));
    block("CERTIFICATE", certificate) + &block("PRIVATE KEY", key)
}

fn block(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}
