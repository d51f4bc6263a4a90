//! Certificates, keys and key exchanges as real clusters have them, judged by `openssl`.

use std::fs;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward::{Client, Error, Kind};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    openssl::{SServer, openssl},
    support::{Desk, status, within},
};

const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

/// A directory with an authority `ca`, and certificates that it signed.
struct Scene(TempDir);

impl Scene {
    /// An authority with a key on this curve.
    fn new(curve: &str) -> Self {
        Self::of("the authority", curve)
    }

    fn of(authority: &str, curve: &str) -> Self {
        let scene = Self(tempfile::tempdir().unwrap());
        scene.key("ca", curve);
        let name = format!("/O=test/CN={authority}");
        let subject = ["-subj", &name, "-days", "2", "-out", "ca.pem"];
        scene.openssl(&[&["req", "-x509", "-key", "ca.key"], &subject[..]].concat());
        scene
    }

    fn openssl(&self, args: &[&str]) {
        openssl(self.0.path(), args);
    }

    fn key(&self, name: &str, curve: &str) {
        let curve = format!("ec_paramgen_curve:{curve}");
        let file = format!("{name}.key");
        self.openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", &curve, "-out", &file]);
    }

    /// Signs a certificate for the key of this name. Without extensions openssl makes one of version 1.
    fn sign(&self, name: &str, hash: &str, extensions: &str) {
        let [key, csr, pem] = ["key", "csr", "pem"].map(|end| format!("{name}.{end}"));
        let subject = format!("/O=dev/CN={name}");
        self.openssl(&["req", "-new", "-key", &key, "-subj", &subject, "-out", &csr]);
        let hash = format!("-{hash}");
        let mut args = vec!["x509", "-req", "-in", &csr, "-CA", "ca.pem", "-CAkey", "ca.key"];
        args.extend(["-CAcreateserial", "-days", "1", &hash, "-out", &pem]);
        fs::write(self.0.path().join("extensions"), extensions).unwrap();
        if !extensions.is_empty() {
            args.extend(["-extfile", "extensions"]);
        }
        self.openssl(&args);
    }

    /// The server's certificate, with a key on P-256.
    fn server(&self, hash: &str) {
        self.key("server", "P-256");
        self.sign("server", hash, "subjectAltName=IP:127.0.0.1,DNS:localhost\n");
    }

    fn serve(&self, flags: &[&str]) -> SServer {
        SServer::start(self.0.path(), "127.0.0.1", flags)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.path().join(file)).unwrap()
    }

    fn data(&self, file: &str) -> String {
        STANDARD.encode(self.read(file))
    }

    fn client(&self, url: &str, user: &Value, cluster: &Value) -> Client {
        Desk::new().client_of(&self.kubeconfig(url, user, cluster), Client::builder())
    }

    fn kubeconfig(&self, url: &str, user: &Value, cluster: &Value) -> String {
        let mut entry = json!({ "server": url, "certificate-authority-data": self.data("ca.pem") });
        for (name, value) in cluster.as_object().unwrap() {
            entry[name] = value.clone();
        }
        json!({
            "current-context": "c",
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "clusters": [{ "name": "c", "cluster": entry }],
            "users": [{ "name": "u", "user": user }],
        })
        .to_string()
    }
}

/// An error with all its causes.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}\n{cause}");
        next = cause.source();
    }
    text
}

#[tokio::test]
async fn an_authority_on_any_curve_may_sign_with_any_hash() {
    for curve in ["P-256", "P-384", "P-521"] {
        let scene = Scene::new(curve);
        for hash in ["sha256", "sha384", "sha512"] {
            scene.server(hash);
            for version in VERSIONS {
                let server = scene.serve(&[version]);
                let client = scene.client(&server.url(), &json!({}), &json!({}));
                assert_eq!(status(&client, "/").await, 200, "{curve} {hash} {version}");
            }
        }
    }
}

#[tokio::test]
async fn a_signature_of_another_authority_is_not_believed_on_any_curve() {
    for curve in ["P-256", "P-384", "P-521"] {
        for hash in ["sha256", "sha512"] {
            let (scene, other) = (Scene::new(curve), Scene::new(curve));
            scene.server(hash);
            let server = scene.serve(&[]);
            let cluster = json!({ "certificate-authority-data": other.data("ca.pem") });
            let client = scene.client(&server.url(), &json!({}), &cluster);
            let error = within(client.get("/")).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Connect, "{curve} {hash}");
        }
    }
}

#[tokio::test]
async fn a_server_with_a_key_on_p521_may_sign_with_any_hash_in_tls_1_2() {
    let scene = Scene::new("P-256");
    scene.key("server", "P-521");
    scene.sign("server", "sha256", "subjectAltName=IP:127.0.0.1\n");
    for flags in [
        &["-tls1_2", "-sigalgs", "ECDSA+SHA256"][..],
        &["-tls1_2", "-sigalgs", "ECDSA+SHA384"],
        &["-tls1_2", "-sigalgs", "ECDSA+SHA512"],
        &["-tls1_3"],
    ] {
        let server = scene.serve(flags);
        let client = scene.client(&server.url(), &json!({}), &json!({}));
        assert_eq!(status(&client, "/").await, 200, "{flags:?}");
    }
}

#[tokio::test]
async fn client_certificates_of_version_1_and_keys_on_p521_are_shown() {
    let scene = Scene::new("P-256");
    scene.server("sha256");
    for curve in ["P-256", "P-384", "P-521"] {
        for extensions in ["", "extendedKeyUsage=clientAuth\n"] {
            scene.key("anna", curve);
            scene.sign("anna", "sha256", extensions);
            scene.openssl(&["ec", "-in", "anna.key", "-out", "anna.sec1"]);
            scene.openssl(&["ec", "-in", "anna.key", "-no_public", "-out", "anna.bare"]);
            for key in ["anna.key", "anna.sec1", "anna.bare"] {
                let user = json!({
                    "client-certificate-data": scene.data("anna.pem"),
                    "client-key-data": scene.data(key),
                });
                for version in VERSIONS {
                    let what = format!("{curve} {extensions:?} {key} {version}");
                    let verify = ["-Verify", "2", "-verify_return_error", "-CAfile", "ca.pem"];
                    let server = scene.serve(&[&verify[..], &[version]].concat());
                    let client = scene.client(&server.url(), &user, &json!({}));
                    let response = within(client.get("/")).await;
                    let response =
                        response.unwrap_or_else(|error| panic!("{what}: {}", told(&error)));
                    let page = within(response.into_body().text()).await.unwrap();
                    // Versions of openssl differ in the spaces.
                    let page = page.replace(" = ", "=");
                    assert!(page.contains("Subject: O=dev, CN=anna"), "{what}: {page}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_server_with_a_single_group_is_reached() {
    let scene = Scene::new("P-256");
    scene.server("sha256");
    for group in ["P-256", "P-384", "P-521", "X25519"] {
        for version in VERSIONS {
            let server = scene.serve(&[version, "-groups", group]);
            let client = scene.client(&server.url(), &json!({}), &json!({}));
            assert_eq!(status(&client, "/").await, 200, "{group} {version}");
        }
    }
}

#[tokio::test]
async fn a_block_that_is_cut_off_does_not_hide_the_authority_after_it() {
    let scene = Scene::new("P-256");
    scene.server("sha256");
    let server = scene.serve(&[]);
    let pem = scene.read("ca.pem");
    let bundle = STANDARD.encode(format!("{}\n{pem}", &pem[..200]));
    let cluster = json!({ "certificate-authority-data": bundle });
    let client = scene.client(&server.url(), &json!({}), &cluster);
    assert_eq!(status(&client, "/").await, 200);
}

#[tokio::test]
async fn an_address_with_a_zone_is_reached_where_a_name_is_given_for_it() {
    let scene = Scene::new("P-256");
    scene.server("sha256");
    let server = SServer::start(scene.0.path(), "[::1]", &[]);
    let url = format!("https://[::1%25lo]:{}", server.port);
    let named = scene.client(&url, &json!({}), &json!({ "tls-server-name": "localhost" }));
    assert_eq!(status(&named, "/").await, 200);
    let client = scene.client(&url, &json!({}), &json!({}));
    let error = told(&within(client.get("/")).await.unwrap_err());
    assert!(error.contains("`tls-server-name`"), "{error}");
}

#[tokio::test]
async fn a_wrong_authority_is_named_beside_what_the_server_showed() {
    let (scene, other) = (Scene::new("P-256"), Scene::of("another", "P-384"));
    scene.server("sha256");
    let server = scene.serve(&[]);
    let file = other.0.path().join("ca.pem");
    let cluster = json!({ "certificate-authority-data": null, "certificate-authority": file });
    let client = scene.client(&server.url(), &json!({}), &cluster);
    let error = told(&within(client.get("/")).await.unwrap_err());
    for part in [
        "signed by none of the trusted authorities",
        "the server showed `O=dev, CN=server`, signed by `O=test, CN=the authority`",
        "for `127.0.0.1`, `localhost`, valid from 20",
        "trusted is `O=test, CN=another`, from `certificate-authority` `",
        &file.display().to_string(),
        "line 1",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn a_wrong_name_is_told_with_the_names_of_the_certificate() {
    let scene = Scene::new("P-256");
    scene.server("sha256");
    let server = scene.serve(&[]);
    let cluster = json!({ "tls-server-name": "other.example" });
    let client = scene.client(&server.url(), &json!({}), &cluster);
    let error = told(&within(client.get("/")).await.unwrap_err());
    assert!(error.contains("is not for `other.example`"), "{error}");
    assert!(error.contains("for `127.0.0.1`, `localhost`"), "{error}");
}

#[tokio::test]
async fn plain_http_where_tls_is_expected_is_told_and_the_other_way_round() {
    let scene = Scene::new("P-256");
    scene.server("sha256");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let plain = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        // Until the client leaves.
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let client = scene.client(&format!("https://{address}"), &json!({}), &json!({}));
    let error = told(&within(client.get("/")).await.unwrap_err());
    assert!(error.contains("does not answer in TLS"), "{error}");
    assert!(error.contains(&format!("its URL is `http://{address}`")), "{error}");
    plain.await.unwrap();

    // openssl hangs up on HTTP, others send an alert.
    let server = scene.serve(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let alerting = listener.local_addr().unwrap();
    let alert = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(&[0x15, 3, 3, 0, 2, 2, 70]).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    for (url, what) in [
        (server.url(), "hung up without an answer"),
        (format!("https://{alerting}"), "does not answer in HTTP"),
    ] {
        let cluster = json!({ "certificate-authority-data": null });
        let client = scene.client(&url.replace("https", "http"), &json!({}), &cluster);
        let error = told(&within(client.get("/")).await.unwrap_err());
        assert!(error.contains(what), "{error}");
        assert!(error.contains(&format!("its URL is `{url}`")), "{error}");
    }
    alert.await.unwrap();
}

#[test]
fn a_pair_is_judged_as_a_client_would_judge_it() {
    let scene = Scene::new("P-256");
    let rsa = |bits: &str| {
        let bits = format!("rsa_keygen_bits:{bits}");
        scene.openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", &bits, "-out", "anna.key"]);
    };
    let judged = || {
        scene.sign("anna", "sha256", "");
        let key = keyward_protocol::Secret::new(scene.read("anna.key"));
        let pair = keyward_host::Pair::parse(&scene.read("anna.pem"), &key).unwrap();
        keyward::tls::check_pair(&pair)
    };
    scene.key("anna", "P-521");
    judged().unwrap();
    rsa("2048");
    judged().unwrap();
    rsa("1024");
    assert_eq!(judged().unwrap_err().kind(), Kind::Credential);
    scene.key("anna", "P-224");
    assert_eq!(judged().unwrap_err().kind(), Kind::Credential);
}
