#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::{
    Error as TlsError,
    client::danger::ServerCertVerifier,
    pki_types::{CertificateDer, UnixTime},
};

use super::{Trust, server_name};

/// In 2030, which is within the dates of what is made here.
const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_900_000_000));

fn authority(names: &[&str]) -> Certificate {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap()
}

fn trust(pem: &str) -> Trust {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Trust::authorities(provider, pem.as_bytes()).unwrap()
}

fn check(
    trust: &Trust,
    shown: &CertificateDer<'_>,
    name: &str,
    now: UnixTime,
) -> Result<(), TlsError> {
    let name = server_name(name).unwrap();
    trust.verifier.verify_server_cert(shown, &[], &name, &[], now).map(drop)
}

#[test]
fn a_server_may_show_a_configured_authority_itself() {
    let authority = authority(&["api.example", "10.0.0.1"]);
    let trust = trust(&authority.pem());
    for name in ["api.example", "10.0.0.1"] {
        assert_eq!(check(&trust, authority.der(), name, NOW), Ok(()));
    }
}

#[test]
fn such_a_server_is_still_checked_for_its_name_and_its_dates() {
    let authority = authority(&["api.example"]);
    let trust = trust(&authority.pem());
    assert!(check(&trust, authority.der(), "other.example", NOW).is_err());
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    for (seconds, what) in [(4_000_000_000, "has expired"), (1_000_000_000, "is not valid yet")] {
        let error = check(&trust, authority.der(), "api.example", at(seconds)).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn another_certificate_of_the_same_name_is_not_that_authority() {
    let trust = trust(&authority(&["api.example"]).pem());
    let error = check(&trust, authority(&["api.example"]).der(), "api.example", NOW).unwrap_err();
    assert!(error.to_string().contains("authority that is not a trusted one"), "{error}");
}

#[test]
fn blocks_that_are_no_certificates_are_passed_over() {
    let authority = authority(&["api.example"]);
    let key = KeyPair::generate().unwrap().serialize_pem();
    let pem = authority.pem();
    for before in [format!("some text\n{key}\n"), format!("{}\n", &pem[..200])] {
        let trust = trust(&format!("{before}{pem}"));
        assert_eq!(check(&trust, authority.der(), "api.example", NOW), Ok(()), "{before}");
    }
}

#[test]
fn authorities_without_a_certificate_are_refused() {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    for pem in
        ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
    {
        assert!(Trust::authorities(provider.clone(), pem.as_bytes()).is_err(), "{pem:?}");
    }
}

#[test]
fn the_systems_authorities_are_not_read_before_they_are_needed() {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = Trust::system(provider);
    trust.client_config(None).unwrap();
    assert!(!trust.verifier.is_ready());
    let shown = authority(&["api.example"]);
    assert!(check(&trust, shown.der(), "api.example", NOW).is_err());
    assert!(trust.verifier.is_ready());
}
