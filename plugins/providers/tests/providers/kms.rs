//! `keyward-kms`: whole handshakes with keys in moto's KMS, and in a stand-in for OpenBao's transit engine.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use keyward_testing::{
    authority::Authority,
    plugin,
    server::{ClientCertificates, Server, Tls},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    judge,
    openssl::Openssl,
    program::{Ended, Run},
};

const SPECS: [&str; 3] = ["RSA_2048", "ECC_NIST_P256", "ECC_NIST_P384"];

/// A home, the link of the signer, and what says where the keys are.
struct Lab {
    directory: TempDir,
    environment: BTreeMap<String, String>,
}

impl Lab {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("bin");
        fs::create_dir(&bin).unwrap();
        Run::named("keyward-providers").args(["install"]).args([&bin]).run().printed();
        let prepared = judge::prepared();
        let (key, secret) = &prepared.users["alice"];
        let environment = [
            ("AWS_ACCESS_KEY_ID", key.as_str()),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_ENDPOINT_URL_KMS", &prepared.moto),
            ("AWS_EC2_METADATA_DISABLED", "true"),
            ("BAO_ADDR", &prepared.stand_in),
            ("BAO_TOKEN", "s.marked-transit-token"),
            ("KEYWARD_AGENT", "off"),
            ("HOME", directory.path().to_str().unwrap()),
            ("XDG_RUNTIME_DIR", directory.path().to_str().unwrap()),
            ("PATH", "/usr/bin:/bin"),
        ];
        let environment =
            environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { directory, environment }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command of the signer.
    fn run(&self, args: &[&str], input: &str) -> Ended {
        Run::named("keyward-kms")
            .envs(&self.environment)
            .directory(self.directory.path())
            .args(args)
            .with_input(input.as_bytes())
    }

    /// Gets a certificate for a key, for this user.
    fn enrol(&self, authority: &Authority, key: &[&str], user: &str) {
        let csr = [&["csr", "--user", user, "--group", "testers"], key].concat();
        let csr = self.run(&csr, "").printed();
        let certificate = authority.answer(&csr, Duration::from_hours(1)).unwrap();
        let file = format!("--certificate={user}.pem");
        self.run(&[&["import", "-", &file], key].concat(), &certificate).printed();
    }

    /// What the server answers to `keyward get`, with the signer in the kubeconfig.
    fn get(&self, server: &str, path: &str, user: &str, entries: &[(&str, &str)]) -> String {
        let mut config = json!({"pathExec": self.path("bin/keyward-kms"),
            "certificate": self.path(&format!("{user}.pem"))});
        for (name, value) in entries {
            config[*name] = (*value).into();
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": server, "certificate-authority": self.path("ca.pem")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {
                "auth-provider": {"name": "externalSigner", "config": config}}}],
        });
        fs::write(self.path("kubeconfig"), kubeconfig.to_string()).unwrap();
        let output = Command::new(plugin::keyward())
            .args(["get", "--raw", path, "--kubeconfig"])
            .arg(self.path("kubeconfig"))
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{user}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn keys(specs: &[&str]) -> Vec<String> {
    let answer = judge::judge().ask(&json!({"operation": "kms", "specs": specs}));
    serde_json::from_value(answer["keys"].clone()).unwrap()
}

/// Both versions of TLS, against openssl and a server of ours, with these keys.
fn shake_hands(keys: &[(&str, &[(&str, &str)])]) {
    let lab = Lab::new();
    let authority = Arc::new(Authority::new("kms tests").unwrap());
    fs::write(lab.path("ca.pem"), authority.pem()).unwrap();
    for (user, entries) in keys {
        let flags: Vec<String> =
            entries.iter().map(|(name, value)| format!("--{name}={value}")).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        lab.enrol(&authority, &flags, user);
    }
    for (tls, flag, name) in
        [(Tls::Only12, "-tls1_2", "TLSv1.2"), (Tls::Only13, "-tls1_3", "TLSv1.3")]
    {
        let openssl = Openssl::start(lab.directory.path(), &authority, flag);
        let ours = Server::setup()
            .authority(authority.clone())
            .certificates(ClientCertificates::Demanded)
            .tls(tls)
            .start()
            .unwrap();
        for (user, entries) in keys {
            let page = lab.get(&openssl.url, "/", user, entries).replace(" = ", "=");
            assert!(page.contains(name), "{user}: {page}");
            assert!(page.contains(&format!("Subject: CN={user}, O=testers")), "{user}: {page}");
            let seen = lab.get(&ours.url(), "/whoami", user, entries);
            let seen: Value = serde_json::from_str(&seen).unwrap();
            assert_eq!(seen["username"], *user, "{seen}");
            assert_eq!(seen["proof"], "certificate", "{seen}");
        }
    }
}

#[test]
fn keys_in_kms_shake_hands_in_both_versions_of_tls() {
    let keys = keys(&SPECS);
    let entries: Vec<[(&str, &str); 1]> = keys.iter().map(|key| [("key", key.as_str())]).collect();
    let resident = [("key", keys[1].as_str()), ("resident", "true")];
    let mut all: Vec<(&str, &[(&str, &str)])> =
        SPECS.into_iter().zip(&entries).map(|(spec, entries)| (spec, &entries[..])).collect();
    shake_hands(&all);
    // One that keeps running needs nothing else. The commands know no such word.
    all.clear();
    let lab = Lab::new();
    let authority = Arc::new(Authority::new("kms tests").unwrap());
    fs::write(lab.path("ca.pem"), authority.pem()).unwrap();
    lab.enrol(&authority, &[&format!("--key={}", keys[1])], "jane");
    let server = Server::setup()
        .authority(authority)
        .certificates(ClientCertificates::Demanded)
        .start()
        .unwrap();
    assert!(lab.get(&server.url(), "/whoami", "jane", &resident).contains("jane"));
}

#[test]
fn keys_in_a_transit_engine_shake_hands_in_both_versions_of_tls() {
    keys(&[]);
    shake_hands(&[
        ("rsa", &[("key", "transit:rsa")]),
        ("p256", &[("key", "transit:p256"), ("mount", "transit")]),
        // The certificate stays good after a rotation.
        ("p384", &[("key", "transit:p384"), ("version", "1")]),
    ]);
}

#[test]
fn what_cannot_sign_is_refused_with_the_reason_and_no_secret() {
    let made = keys(&["RSA_2048", "ECC_NIST_P256", "SYMMETRIC_DEFAULT"]);
    let lab = Lab::new();
    let authority = Authority::new("kms tests").unwrap();
    let key: Vec<String> = made.iter().map(|arn| format!("--key={arn}")).collect();
    lab.enrol(&authority, &[&key[0]], "rsa");
    let pem = fs::read_to_string(lab.path("rsa.pem")).unwrap();
    fs::write(lab.path("other"), "not a certificate").unwrap();
    fs::write(lab.path("long"), "x".repeat(2 << 20)).unwrap();
    fs::write(lab.path("taken.pem.new"), "of somebody else").unwrap();
    let gone = key[0].replace("key/", "key/no");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["csr", "--user=u"], 2, "`key` is missing"),
        (&["csr", &key[0]], 2, "`--user` is missing"),
        (&["csr", "--user=u", "--key=arn:aws:s3:eu-west-1:1:x"], 2, "is no ARN of a key"),
        (&["csr", "--user=u", "--key=alias/jane"], 2, "no AWS region"),
        (&["csr", "--user=u", "--key=a b"], 2, "is no key of AWS KMS"),
        (
            &["csr", "--user=u", "--key=arn:aws:kms:evil.example/x:1:key/x"],
            2,
            "`evil.example/x` is no AWS region",
        ),
        (
            &["csr", "--user=u", "--key=alias/jane", "--region=evil.example/"],
            2,
            "`evil.example/` is no AWS region",
        ),
        (&["csr", "--user=u", "--key=alias/jane", "--region=a@b"], 2, "`a@b` is no AWS region"),
        (&["csr", "--user=u", &gone], 1, "refuses the key: NotFoundException"),
        (&["csr", "--user=u", &key[2]], 1, "refuses the key"),
        (&["csr", "--user=u", "--key=transit:nobody"], 2, "answered 404"),
        (&["csr", "--user=u", "--key=transit:../x"], 2, "is no name of OpenBao or Vault"),
        (&["csr", "--user=u", "--key=transit:rsa", "--version=9"], 2, "version 9"),
        (&["csr", "--user=u", "--key=transit:rsa", "--version=x"], 2, "`version` is a number"),
        (&["import", "-", &key[1], "--certificate=new.pem"], 2, "is not for the key"),
        (
            &["import", "-", &key[0], "--certificate=other"],
            2,
            "is no certificate, so it is not replaced",
        ),
        (
            &["import", "-", &key[0], "--certificate=long"],
            2,
            "cannot be read, so it is not replaced",
        ),
        (&["import", "-", &key[0], "--certificate=taken.pem"], 1, "cannot write"),
        (&["import", "-", &key[0]], 2, "`certificate` is missing"),
        (&["sing"], 2, "there is no command `sing`"),
    ];
    for (args, code, why) in cases {
        let ended = lab.run(args, &pem);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(*code), ""), "{args:?} {ended:?}");
        assert!(ended.stderr.contains(why), "{args:?}: {}", ended.stderr);
        let secret = &lab.environment["AWS_SECRET_ACCESS_KEY"];
        assert!(!ended.stderr.contains(secret.as_str()) && !ended.stderr.contains("s.marked"));
    }
    let ended =
        lab.run(&["import", "-", &key[0], "--certificate=new.pem"], &"x".repeat((1 << 20) + 1));
    assert!(ended.code == Some(2) && ended.stderr.contains("longer than 1 MiB"), "{ended:?}");
    assert!(!lab.path("new.pem").exists());
    assert_eq!(fs::metadata(lab.path("long")).unwrap().len(), 2 << 20);
    assert_eq!(fs::read_to_string(lab.path("taken.pem.new")).unwrap(), "of somebody else");
}

#[test]
fn an_answer_without_an_end_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        // The client hangs up; one that does not gets 16 MiB.
        let sent = stream
            .write_all(head)
            .and_then(|()| (0..2048).try_for_each(|_| stream.write_all(&[b' '; 8 << 10])));
        sent.is_err()
    });
    let mut lab = Lab::new();
    lab.environment.insert("AWS_ENDPOINT_URL_KMS".into(), address);
    let ended = lab.run(&["csr", "--user=u", "--key=alias/jane", "--region=eu-west-1"], "");
    assert!(
        ended.code == Some(1) && ended.stderr.contains("longer than 1048576 bytes"),
        "{ended:?}"
    );
    assert!(server.join().unwrap(), "all of the answer was read");
}

#[test]
fn no_message_shows_the_password_or_query_of_an_address() {
    let mut lab = Lab::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("//u:m4rk3d@{}/?q=m4rk3d", listener.local_addr().unwrap());
    drop(listener);
    lab.environment.insert("BAO_ADDR".into(), format!("http:{address}"));
    for args in [&["csr", "--user=u", "--key=transit:rsa"][..], &["--explain", "--key=transit:rsa"]]
    {
        let ended = lab.run(args, "");
        assert!(ended.code != Some(0), "{ended:?}");
        let shown = format!("{}{}", ended.stdout, ended.stderr);
        assert!(shown.contains("127.0.0.1") && !shown.contains("m4rk3d"), "{shown}");
    }
}

#[test]
fn pitfall_18_the_server_and_its_token_come_from_the_environment_alone() {
    keys(&[]);
    let mut lab = Lab::new();
    let args = ["csr", "--user=u", "--key=transit:rsa"];
    // No entry of a kubeconfig can name a server or a token.
    for flag in ["--url=https://evil.example", "--token-file=x", "--endpoint=x"] {
        let ended = lab.run(&[&args[..], &[flag]].concat(), "");
        assert!(ended.code == Some(2) && ended.stderr.contains("there is no flag"), "{ended:?}");
    }
    let request = json!({"apiVersion": "external-signer.authentication.k8s.io/v1alpha1",
        "kind": "CertificateRequest",
        "configuration": {"key": "transit:rsa", "url": "https://evil.example"}});
    lab.environment.insert("EXTERNAL_SIGNER_PLUGIN_CONFIG".into(), request.to_string());
    let ended = lab.run(&[], "");
    assert!(ended.stderr.contains("the entry `url` is not known"), "{ended:?}");
    lab.environment.remove("EXTERNAL_SIGNER_PLUGIN_CONFIG");

    let address = lab.environment.insert("BAO_ADDR".into(), "http://bao.example".into()).unwrap();
    let ended = lab.run(&args, "");
    assert!(ended.stderr.contains("must begin with `https://`"), "{ended:?}");
    lab.environment.remove("BAO_ADDR");
    let ended = lab.run(&args, "");
    assert!(ended.stderr.contains("`BAO_ADDR` or `VAULT_ADDR` has to name"), "{ended:?}");
    // Vault's variables and file work, too.
    lab.environment.insert("VAULT_ADDR".into(), address);
    let token = lab.environment.remove("BAO_TOKEN").unwrap();
    let ended = lab.run(&args, "");
    assert!(ended.stderr.contains("there is no token"), "{ended:?}");
    fs::write(lab.path(".vault-token"), "s.wrong").unwrap();
    let ended = lab.run(&args, "");
    assert!(ended.code == Some(4) && ended.stderr.contains("permission denied"), "{ended:?}");
    assert!(!ended.stderr.contains("s.wrong"), "{ended:?}");
    fs::write(lab.path(".vault-token"), token + "\n").unwrap();
    assert!(lab.run(&args, "").printed().starts_with("-----BEGIN CERTIFICATE REQUEST-----"));
}

#[test]
fn the_explanation_names_the_key_and_the_sources_and_no_secret() {
    let made = keys(&["ECC_NIST_P256"]);
    let lab = Lab::new();
    let authority = Authority::new("kms tests").unwrap();
    for (key, endpoint) in [(made[0].as_str(), "AWS KMS"), ("transit:p256", "engine `transit`")] {
        let key = format!("--key={key}");
        lab.enrol(&authority, &[&key], "jane");
        let report = lab.run(&["--explain", &key, "--certificate=jane.pem"], "").printed();
        for part in
            [endpoint, "it has signed", "certificate: it is the key's", "used     environment"]
        {
            assert!(report.contains(part), "{part}: {report}");
        }
        let secret = &lab.environment["AWS_SECRET_ACCESS_KEY"];
        assert!(!report.contains(secret.as_str()) && !report.contains("s.marked"), "{report}");
        fs::remove_file(lab.path("jane.pem")).unwrap();
    }
}

#[test]
fn the_api_of_every_partition_is_where_botocore_has_it() {
    let regions = [
        "eu-west-1",
        "us-gov-west-1",
        "cn-north-1",
        "us-iso-east-1",
        "us-isob-east-1",
        "us-isof-east-1",
        "eu-isoe-west-1",
        "eusc-de-east-1",
    ];
    let cases: Vec<Value> = regions.iter().map(|region| json!([region, false, false])).collect();
    let answer =
        judge::judge().ask(&json!({"operation": "hosts", "service": "kms", "cases": cases}));
    let hosts: Vec<String> = regions.iter().map(|r| keyward_providers::kms::api_host(r)).collect();
    assert_eq!(json!(hosts), answer["hosts"]);
}
