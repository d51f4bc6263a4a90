//! Certificates and keys: what belongs together, and what is said about what does not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_host::{KeyDer, Pair};
use keyward_protocol::{Node, Secret, node::Value};

/// Throw-away pairs of the vectors: PEM of the certificate and of the key.
fn given(name: &str) -> (String, String) {
    let cases = Node::from_json(include_bytes!("../../../vectors/exec-output.json")).unwrap();
    let Value::List(cases) = &cases.value else { panic!("the vectors are a list") };
    let named = |case: &&Node| case.get("name").unwrap().text("").unwrap() == Some(name);
    let stdout = cases.iter().find(named).unwrap().get("stdout").unwrap();
    let answer = Node::from_json(stdout.text("").unwrap().unwrap().as_bytes()).unwrap();
    let field = |field| {
        let status = answer.get("status").unwrap();
        status.get(field).unwrap().text("").unwrap().unwrap().to_owned()
    };
    (field("clientCertificateData"), field("clientKeyData"))
}

fn parse(certificate: &str, key: &str) -> Result<Pair, String> {
    Pair::parse(certificate, &Secret::new(key)).map_err(|error| error.to_string())
}

/// The DER of a block's only element.
fn der(pem: &str) -> Vec<u8> {
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    STANDARD.decode(lines.collect::<String>()).unwrap()
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

#[test]
fn every_kind_of_key_is_matched_with_its_certificate() {
    for (name, common_name) in
        [("v1-cert", "vec-ec"), ("cert-p384", "vec-p384"), ("cert-rsa-pkcs8", "vec-rsa")]
    {
        let (certificate, key) = given(name);
        let pair = parse(&certificate, &key).unwrap();
        assert_eq!(pair.common_name.as_deref(), Some(common_name));
        assert!(matches!(pair.key, KeyDer::Pkcs8(_)));
        assert!(pair.not_before < pair.not_after);
    }
    let (certificate, key) = given("cert-ec-sec1");
    assert!(matches!(parse(&certificate, &key).unwrap().key, KeyDer::Pkcs8(_)));
}

#[test]
fn a_public_key_that_is_no_point_of_its_curve_is_refused() {
    for name in ["v1-cert", "cert-p384"] {
        let (certificate, key) = given(name);
        assert!(parse(&certificate, &key).is_ok());
        let mut der = der(&certificate);
        // The bit string of the key: no unused bits, an uncompressed point.
        let at = der.windows(4).position(|b| b[0] == 3 && b[2..] == [0, 4]).unwrap();
        der[at + 10] ^= 1;
        let refused = parse(&pem("CERTIFICATE", &der), &key).unwrap_err();
        assert!(refused.contains("certificate"), "{refused}");
        assert!(!refused.contains("the private key is not"), "{refused}");
    }
}

#[test]
fn ed25519_keys_are_matched_too() {
    let made = || {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let ((certificate, key), (_, other)) = (made(), made());
    assert!(parse(&certificate, &key).is_ok());
    let error = parse(&certificate, &other).unwrap_err();
    assert_eq!(error, "the private key is not the certificate's");
}

#[test]
fn the_content_of_a_key_counts_and_not_its_label() {
    let (certificate, key) = given("cert-rsa-pkcs8");
    // PKCS#8 wraps PKCS#1 in its last field; both lengths take four bytes here.
    let pkcs8 = der(&key);
    let start = pkcs8.windows(2).rposition(|two| two == [0x30, 0x82]).unwrap();
    let pkcs1 = &pkcs8[start..];
    for label in ["RSA PRIVATE KEY", "PRIVATE KEY", "ANY PRIVATE KEY"] {
        let pair = parse(&certificate, &pem(label, pkcs1)).unwrap();
        assert!(matches!(pair.key, KeyDer::Pkcs1(_)));
    }
    let error = parse(&certificate, &pem("PUBLIC KEY", pkcs1)).unwrap_err();
    assert_eq!(error, "there is no private key among the PEM blocks");
}

#[test]
fn a_broken_rsa_key_is_refused_before_anybody_signs_with_it() {
    let (certificate, key) = given("cert-rsa-pkcs8");
    let mut broken = der(&key);
    // The last byte belongs to the last number of the key.
    *broken.last_mut().unwrap() ^= 2;
    let error = parse(&certificate, &pem("PRIVATE KEY", &broken)).unwrap_err();
    assert_eq!(error, "the private key cannot be read: its RSA numbers do not fit together");
}

#[test]
fn a_key_of_another_certificate_is_noticed() {
    let (ec, ec_key) = given("v1-cert");
    let (rsa, rsa_key) = given("cert-rsa-pkcs8");
    let (p384, p384_key) = given("cert-p384");
    for (certificate, key) in [(&ec, &rsa_key), (&rsa, &ec_key)] {
        let error = parse(certificate, key).unwrap_err();
        assert_eq!(error, "the private key is of another kind than the certificate's");
    }
    for (certificate, key) in [(&ec, &p384_key), (&p384, &ec_key)] {
        let error = parse(certificate, key).unwrap_err();
        assert_eq!(error, "the private key is not the certificate's");
    }
}

#[test]
fn the_first_certificate_is_the_leaf_and_only_that_is_parsed() {
    let (certificate, key) = given("v1-cert");
    let garbage = pem("CERTIFICATE", b"not DER");
    let pair = parse(&format!("{certificate}{garbage}"), &key).unwrap();
    assert_eq!(pair.chain.len(), 2);
    let error = parse(&format!("{garbage}{certificate}"), &key).unwrap_err();
    assert_eq!(error, "the first certificate is malformed");
}

#[test]
fn what_stands_around_the_blocks_does_not_matter() {
    let (certificate, key) = given("v1-cert");
    let parameters = pem("EC PARAMETERS", &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]);
    let around = format!("subject: me\n{certificate}\nmore\n").replace('\n', "\r\n");
    let pair = parse(&around, &format!("text\n{parameters}{key}")).unwrap();
    assert_eq!(pair.chain.len(), 1);
    assert_eq!(parse(&certificate.replace('\n', ""), &key).unwrap_err(), NO_BLOCK);
    let indented = format!(" {certificate}");
    assert_eq!(parse(&indented, &key).unwrap_err(), NO_BLOCK);
}

const NO_BLOCK: &str = "there is no PEM block where the certificate should be";

#[test]
fn inputs_that_were_swapped_or_encrypted_are_named_so() {
    let (certificate, key) = given("v1-cert");
    assert_eq!(
        parse(&key, &certificate).unwrap_err(),
        "there is a private key where the certificate should be"
    );
    assert_eq!(
        parse(&certificate, &certificate).unwrap_err(),
        "there is a certificate where the private key should be"
    );
    let encrypted = "the private key cannot be read: it is encrypted";
    let modern = pem("ENCRYPTED PRIVATE KEY", b"anything");
    assert_eq!(parse(&certificate, &modern).unwrap_err(), encrypted);
    let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n\
               AAAA\n-----END RSA PRIVATE KEY-----\n";
    assert_eq!(parse(&certificate, old).unwrap_err(), encrypted);
}

#[test]
fn nothing_of_a_pair_shows_its_key() {
    let (certificate, key) = given("v1-cert");
    let pair = parse(&certificate, &key).unwrap();
    let secret: String = key.lines().nth(1).unwrap().chars().skip(20).take(20).collect();
    assert!(!format!("{pair:?} {:?}", pair.key).contains(&secret));
}

#[test]
fn a_text_of_blocks_that_never_end_their_headers_is_no_work() {
    let text = "-----BEGIN A:-----\na: b\n-----END A:-----\n".repeat(60_000);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(parse(&text, &text).unwrap_err()));
    let error = receive.recv_timeout(std::time::Duration::from_secs(60)).expect("it is read");
    assert_eq!(error, "there is no PEM block where the certificate should be");
}

#[test]
fn an_rsa_key_beyond_all_measure_is_refused_before_it_is_checked() {
    let (certificate, _) = given("cert-rsa-pkcs8");
    let integer = |bytes: &[u8]| {
        let mut out = vec![2, 0x82];
        out.extend(u16::try_from(bytes.len()).unwrap().to_be_bytes());
        out.extend(bytes);
        out
    };
    let mut content = vec![2, 1, 0];
    content.extend(integer(&[1; 4000]));
    content.extend([2, 3, 1, 0, 1]);
    for _ in 0..3 {
        content.extend(integer(&[1; 3000]));
    }
    let mut key = vec![0x30, 0x82];
    key.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
    key.extend(content);
    let error = parse(&certificate, &pem("RSA PRIVATE KEY", &key)).unwrap_err();
    assert!(error.ends_with("its modulus is larger than 16384 bits"), "{error}");
}
