//! Every kind of key, made by the plugin and by others, judged by openssl.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use cryptoki::{
    context::{CInitializeArgs, CInitializeFlags, Pkcs11},
    object::{Attribute, AttributeType, ObjectClass},
    session::UserType,
    types::AuthPin,
};
use keyward_protocol::signer::{Hash, Options, Reason, Request, Response};
use support::{Lab, ok, sign_request};

/// Every kind, and every way it signs in TLS.
fn kinds() -> Vec<(&'static str, Vec<Options>)> {
    let rsa: Vec<_> = Hash::ALL
        .into_iter()
        .flat_map(|hash| [Options::Pss(hash), Options::Digest(hash)])
        .collect();
    vec![
        ("rsa2048", rsa.clone()),
        ("rsa3072", rsa.clone()),
        ("rsa4096", vec![Options::Pss(Hash::Sha256), Options::Digest(Hash::Sha512)]),
        ("p256", vec![Options::Digest(Hash::Sha256), Options::Digest(Hash::Sha512)]),
        ("p384", vec![Options::Digest(Hash::Sha384), Options::Digest(Hash::Sha256)]),
        ("p521", vec![Options::Digest(Hash::Sha512), Options::Digest(Hash::Sha256)]),
        ("ed25519", vec![Options::Message]),
    ]
}

/// Has openssl judge a signature by the plugin.
fn judge(soft: &Lab, object: &str, options: Options) {
    let configuration = soft.configuration(object);
    let certificate = soft.certificate(&configuration).certificate;
    fs::write(soft.path("found.der"), certificate).unwrap();
    soft.openssl(&[
        "x509",
        "-inform",
        "DER",
        "-in",
        "found.der",
        "-pubkey",
        "-noout",
        "-out",
        "pub",
    ]);
    fs::write(soft.path("message"), b"what a handshake would have signed").unwrap();
    let digest = match options.hash() {
        None => fs::read(soft.path("message")).unwrap(),
        Some(hash) => {
            soft.openssl(&["dgst", &name(hash), "-binary", "-out", "digest", "message"]);
            fs::read(soft.path("digest")).unwrap()
        }
    };
    let signature = soft.sign(&configuration, options, &digest);
    fs::write(soft.path("signature"), signature).unwrap();
    match options {
        Options::Message => soft.openssl(&[
            "pkeyutl",
            "-verify",
            "-pubin",
            "-inkey",
            "pub",
            "-rawin",
            "-in",
            "message",
            "-sigfile",
            "signature",
        ]),
        Options::Pss(hash) => {
            // The exact length, not whatever openssl finds in the signature.
            let length = format!("rsa_pss_saltlen:{}", hash.length());
            let hash = name(hash);
            soft.openssl(&[
                "dgst",
                &hash,
                "-sigopt",
                "rsa_padding_mode:pss",
                "-sigopt",
                &length,
                "-verify",
                "pub",
                "-signature",
                "signature",
                "message",
            ])
        }
        Options::Digest(hash) => soft.openssl(&[
            "dgst",
            &name(hash),
            "-verify",
            "pub",
            "-signature",
            "signature",
            "message",
        ]),
    };
}

fn name(hash: Hash) -> String {
    format!("-sha{}", hash.length() * 8)
}

#[test]
fn every_kind_of_key_signs_as_openssl_wants_it() {
    let soft = Lab::soft();
    for (kind, ways) in kinds() {
        soft.enrol(kind, kind);
        for options in ways {
            judge(&soft, kind, options);
        }
        let shown = soft.run("test", kind, &[]);
        assert!(shown.contains("good") && !shown.contains("no certificate"), "{shown}");
    }
}

#[test]
fn a_key_cannot_be_taken_out_of_the_token() {
    let soft = Lab::soft();
    soft.run("keygen", "kept", &["--kind", "p256"]);
    let listed = soft.pkcs11_tool(&["--list-objects", "--type", "privkey"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("sensitive, always sensitive, never extractable"), "{listed}");
    // The module finds its tokens by a variable, which a test cannot set for itself.
    let myself = std::env::current_exe().unwrap();
    let mut asking = soft.tool(myself.to_str().unwrap(), "keyward-pkcs11");
    let output =
        ok(asking.args(["--ignored", "--exact", "asking_for_the_key_gives_its_label_alone"]));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
}

#[test]
#[ignore = "the test above runs it, with a token"]
fn asking_for_the_key_gives_its_label_alone() {
    let module = Pkcs11::new(support::module("libsofthsm2.so", "softhsm2")).unwrap();
    module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).unwrap();
    let slot = module.get_slots_with_initialized_token().unwrap()[0];
    let session = module.open_ro_session(slot).unwrap();
    session.login(UserType::User, Some(&AuthPin::from(support::PIN.to_owned()))).unwrap();
    let keys = session.find_objects(&[Attribute::Class(ObjectClass::PRIVATE_KEY)]).unwrap();
    let asked = session.get_attributes(keys[0], &[AttributeType::Label, AttributeType::Value]);
    let [Attribute::Label(label)] = &asked.unwrap()[..] else { panic!("it gave the key away") };
    assert_eq!(label, b"kept");
}

#[test]
fn keys_and_certificates_of_other_tools_work() {
    let soft = Lab::soft();
    soft.authority();
    // A key made by pkcs11-tool, a certificate for it stored under another id: the public key ties
    // them together.
    soft.pkcs11_tool(&[
        "--keypairgen",
        "--key-type",
        "EC:prime256v1",
        "--id",
        "0a",
        "--label",
        "ec",
    ]);
    soft.pkcs11_tool(&["--keypairgen", "--key-type", "rsa:2048", "--id", "0b", "--label", "rsa"]);
    for (name, id) in [("ec", "5a"), ("rsa", "5b")] {
        let request = soft.run("csr", name, &["--user", name]);
        fs::write(soft.path("csr"), request).unwrap();
        issue(&soft, "csr", name);
        let der = format!("{name}.der");
        soft.pkcs11_tool(&["--write-object", &der, "--type", "cert", "--id", id, "--label", "c"]);
    }
    judge(&soft, "ec", Options::Digest(Hash::Sha256));
    judge(&soft, "rsa", Options::Pss(Hash::Sha256));

    // A key made by openssl, put into the token by softhsm2-util: the token has no certificate yet.
    soft.openssl(&[
        "genpkey",
        "-algorithm",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-384",
        "-out",
        "k",
    ]);
    let mut import = soft.tool("softhsm2-util", "softhsm2");
    import.args(["--import", "k", "--token", "lab", "--label", "made", "--id", "0c"]);
    ok(import.args(["--pin", support::PIN]));
    soft.openssl(&["req", "-new", "-key", "k", "-subj", "/O=testers/CN=made", "-out", "made.csr"]);
    issue(&soft, "made.csr", "made");
    ok(soft.plugin().arg("import").arg("made.der").arg(soft.uri("made")));
    judge(&soft, "made", Options::Digest(Hash::Sha384));
}

fn issue(soft: &Lab, csr: &str, name: &str) {
    soft.issue("ca", csr, "2", "9", &["-outform", "DER", "-out", &format!("{name}.der")]);
}

#[test]
fn the_proposals_numbers_find_slot_and_key() {
    let soft = Lab::soft();
    soft.enrol("first", "p256");
    soft.enrol("second", "p256");
    let listed = soft.run("list", "second", &[]);
    let slot = listed.split("in slot ").nth(1).unwrap();
    let slot: String = slot.chars().take_while(char::is_ascii_digit).collect();
    let second = fs::read(soft.path("second.pem")).unwrap();
    // By its index, and by its id: SoftHSM's ids change, an index does not.
    for slot in ["0", slot.as_str()] {
        let configuration = [
            ("pathExec", "/path/to/externalSigner"),
            ("pathLib", soft.module.to_str().unwrap()),
            ("slotId", slot),
            ("objectId", "2"),
            ("pin", support::PIN),
        ]
        .into_iter()
        .collect();
        let found = soft.certificate(&configuration).certificate;
        fs::write(soft.path("second.der"), &found).unwrap();
        let pem = soft.openssl(&["x509", "-inform", "DER", "-in", "second.der"]).stdout;
        assert_eq!(pem, second);
        let signature = soft.sign(&configuration, Options::Digest(Hash::Sha256), &[7; 32]);
        assert_eq!(signature[0], 0x30);
    }
}

#[test]
fn several_keys_or_tokens_that_could_be_meant_are_listed() {
    let soft = Lab::soft();
    soft.enrol("one", "p256");
    soft.enrol("two", "p256");
    let module = soft.module.display().to_string();
    let any = [("uri", format!("pkcs11:token=lab?module-path={module}"))].into_iter().collect();
    let refused = refusal(&soft, &Request::Certificate(any), Reason::BadConfig);
    assert!(refused.contains("object=one") && refused.contains("object=two"), "{refused}");

    let none = [("uri", format!("pkcs11:object=three?module-path={module}"))].into_iter().collect();
    let refused = refusal(
        &soft,
        &sign_request(&none, Options::Digest(Hash::Sha256), &[7; 32]),
        Reason::NeedsTerminal,
    );
    assert!(refused.contains("no terminal"), "{refused}");

    soft.init("spare");
    let token = [("uri", format!("pkcs11:object=one?module-path={module}"))].into_iter().collect();
    let refused = refusal(&soft, &Request::Certificate(token), Reason::BadConfig);
    assert!(refused.contains("token=lab") && refused.contains("token=spare"), "{refused}");
}

fn refusal(soft: &Lab, request: &Request, reason: Reason) -> String {
    match soft.ask(request).0 {
        Response::Error(error) if error.reason == reason => error.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn intermediates_come_with_the_certificate_and_roots_do_not() {
    let soft = Lab::soft();
    soft.authority();
    soft.openssl(&[
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-keyout",
        "mid.key",
        "-out",
        "mid.csr",
        "-subj",
        "/CN=middle",
    ]);
    issue(&soft, "mid.csr", "mid");
    soft.openssl(&["x509", "-inform", "DER", "-in", "mid.der", "-out", "mid.pem"]);
    soft.run("keygen", "leaf", &[]);
    fs::write(soft.path("leaf.csr"), soft.run("csr", "leaf", &["--user", "leaf"])).unwrap();
    soft.issue("mid", "leaf.csr", "2", "3", &["-out", "leaf.pem"]);
    let files = ["leaf.pem", "mid.pem", "ca.pem"].map(|name| fs::read(soft.path(name)).unwrap());
    fs::write(soft.path("all.pem"), files.concat()).unwrap();
    ok(soft.plugin().arg("import").arg("all.pem").arg(soft.uri("leaf")));
    let response = soft.certificate(&soft.configuration("leaf"));
    assert_eq!(response.chain, [fs::read(soft.path("mid.der")).unwrap()]);

    // Of two certificates for one key, the one that holds longer is shown.
    soft.issue("ca", "leaf.csr", "9", "4", &["-outform", "DER", "-out", "new.der"]);
    ok(soft.plugin().arg("import").arg("new.der").arg(soft.uri("leaf")));
    let response = soft.certificate(&soft.configuration("leaf"));
    assert_eq!(response.certificate, fs::read(soft.path("new.der")).unwrap());
    assert_eq!(response.chain, Vec::<Vec<u8>>::new());
}

#[test]
fn a_certificate_for_another_key_is_not_stored() {
    let soft = Lab::soft();
    soft.run("keygen", "mine", &[]);
    soft.authority();
    let output = soft.plugin().arg("import").arg("ca.pem").arg(soft.uri("mine")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("for a key that is not in token `lab`"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn every_attribute_of_a_uri_counts() {
    let soft = Lab::soft();
    soft.enrol("me", "p256");
    let listed = soft.run("list", "me", &[]);
    let uri = listed.lines().find(|line| line.contains("object=me")).unwrap().trim();
    assert!(uri.contains("serial=") && uri.contains("manufacturer="), "{uri}");
    let query =
        format!("?module-path={}&pin-source={}", soft.module.display(), soft.path("pin").display());
    let more = "library-manufacturer=SoftHSM;library-version=2;slot-manufacturer=SoftHSM%20project";
    for uri in [uri.to_owned(), format!("{uri};{more}")] {
        let tested = ok(soft.plugin().arg("test").arg(format!("{uri}{query}")));
        assert!(String::from_utf8_lossy(&tested.stdout).contains("good"));
    }
    for wrong in ["library-version=1", "slot-description=x", "library-description=x", "model=x"] {
        let uri = format!("pkcs11:object=me;{wrong}{query}");
        let output = soft.plugin().arg("test").arg(&uri).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("no token of the module"), "{wrong}: {said}");
        assert_eq!(output.status.code(), Some(2));
    }
}
