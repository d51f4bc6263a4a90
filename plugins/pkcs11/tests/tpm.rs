//! The plugin with keys in a TPM, by tpm2-pkcs11.
#![allow(clippy::unwrap_used)]

mod support;

use keyward_protocol::signer::{Hash, Options};
use support::Lab;

#[test]
fn keys_in_a_tpm_are_made_tested_certified_and_sign() {
    let lab = Lab::tpm();
    for (kind, options) in
        [("rsa2048", Options::Pss(Hash::Sha256)), ("p256", Options::Digest(Hash::Sha256))]
    {
        lab.enrol(kind, kind);
        let shown = lab.run("test", kind, &[]);
        assert!(shown.contains("good") && !shown.contains("no certificate"), "{shown}");
        let configuration = lab.configuration(kind);
        assert!(!lab.certificate(&configuration).certificate.is_empty());
        lab.sign(&configuration, options, &[7; 32]);
    }
    let listed = lab.run("list", "p256", &["--login"]);
    assert!(listed.contains("key RSA-2048") && listed.contains("key P-256"), "{listed}");
    assert!(!listed.contains("extractable"), "{listed}");
}
