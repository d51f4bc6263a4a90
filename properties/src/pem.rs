//! Certificates and keys, in PEM and in DER.

use keyward_host::{KeyDer, Pair};
use keyward_protocol::{
    Secret,
    pem::{Blocks, encode},
    x509::{self, Certificate},
};

use crate::{budget, mark};

/// Text is PEM, with a certificate and a key in any order. What begins as DER does is the two as
/// they are, one after the other, so that a fuzzer can change single bytes of them.
pub(crate) fn check(input: &[u8]) {
    let text = match input {
        [0x30, ..] => from_der(input),
        _ => String::from_utf8_lossy(input).into_owned(),
    };
    blocks(input);
    let key = Secret::new(text.as_str());
    match budget::within(text.as_bytes(), || Pair::parse(&text, &key)) {
        Err(error) => mark::hidden(&format!("{error} {error:?}")),
        Ok(pair) => accepted(&pair),
    }
}

/// A block that is written reads back the same, and what a bundle is made of are certificates.
fn blocks(input: &[u8]) {
    let read = || Blocks::of(input).collect::<Vec<_>>();
    for block in budget::within(input, read) {
        let text = encode(&block.label, &block.content);
        // A label of odd characters, or one that a reader takes for a header, is for nobody.
        let plain = |byte: u8| byte == b' ' || byte.is_ascii_uppercase();
        if !block.label.bytes().all(plain) {
            continue;
        }
        let mut again = Blocks::of(text.as_bytes());
        let again = again.next().expect("it was written by us");
        assert_eq!(again.label, block.label);
        assert!(again.content == block.content, "another block after writing");
    }
    for der in budget::within(input, || x509::bundle(input).collect::<Vec<_>>()) {
        assert!(Certificate::parse(&der).is_some(), "a bundle has something else in it");
    }
}

/// A pair that was accepted is accepted again in the plainest form that says the same.
fn accepted(pair: &Pair) {
    assert!(!pair.chain.is_empty());
    let chain: String = pair.chain.iter().map(|der| encode("CERTIFICATE", der)).collect();
    let (label, key) = match &pair.key {
        KeyDer::Pkcs8(der) => ("PRIVATE KEY", der),
        KeyDer::Pkcs1(der) => ("RSA PRIVATE KEY", der),
    };
    let again = Pair::parse(&chain, &Secret::new(encode(label, key))).expect("it was accepted");
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
    encode("CERTIFICATE", certificate) + &encode("PRIVATE KEY", key)
}
