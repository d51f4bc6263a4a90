//! The example as its reader runs it.
#![allow(clippy::unwrap_used, missing_docs)]

#[allow(dead_code, reason = "its `main` reads the arguments of a process")]
#[path = "../examples/certificates.rs"]
mod certificates;

#[test]
fn the_example_lists_the_certificates_of_a_file() {
    let pem = include_bytes!("../../keyward/fixtures/p521-authority.pem");
    let lines = certificates::list(&[&b"some text\n"[..], pem].concat());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("signed by") && lines[0].contains("valid until 2"), "{lines:?}");
}
