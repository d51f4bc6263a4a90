//! Somebody else's server as the judge: `openssl s_server`, which demands a certificate and says
//! whose it was.

use std::fs;

use keyward::Client;
use keyward_host::Kind as Why;
use keyward_testing::{authority::Authority, signer::Token};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    openssl::{SServer, openssl},
    support::{Desk, within},
};

/// Every kind of key, as `openssl genpkey` makes it.
const KEYS: [(&str, &[&str]); 6] = [
    ("RSA-2048", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]),
    ("RSA-3072", &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"]),
    ("P-256", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ("P-384", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]),
    ("P-521", &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"]),
    ("Ed25519", &["-algorithm", "ED25519"]),
];

/// An authority of openssl's own, and one of ours for the server.
struct Scene {
    folder: TempDir,
    servers: Authority,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            folder: tempfile::tempdir().unwrap(),
            servers: Authority::new("servers").unwrap(),
        };
        let folder = scene.folder.path();
        let issued = scene.servers.server(&["127.0.0.1"]).unwrap();
        fs::write(folder.join("server.pem"), issued.certificate_pem()).unwrap();
        fs::write(folder.join("server.key"), issued.key_pem()).unwrap();
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        let rest = ["-subj", "/CN=clients", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"];
        openssl(folder, &[&["req", "-x509"], &curve[..], &rest[..]].concat());
        scene
    }

    /// A token with a key of this kind and a certificate for `anna`, all made by openssl.
    fn token(&self, kind: &[&str]) -> Token {
        let folder = self.folder.path();
        openssl(folder, &[&["genpkey"], kind, &["-out", "anna.key"]].concat());
        let subject = ["-subj", "/O=dev/CN=anna", "-out", "anna.csr"];
        openssl(folder, &[&["req", "-new", "-key", "anna.key"], &subject[..]].concat());
        let sign = ["x509", "-req", "-in", "anna.csr", "-CA", "ca.pem", "-CAkey", "ca.key"];
        let rest = ["-CAcreateserial", "-days", "1", "-out", "anna.pem"];
        openssl(folder, &[&sign[..], &rest[..]].concat());
        // Whatever it was made with is replaced by what openssl made.
        let mut token = Token::new(&self.servers.client("nobody").issue().unwrap());
        for (name, file) in [("certificate", "anna.pem"), ("key", "anna.key")] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let path = token.write(file, &text);
            token.set(name, &path);
        }
        token
    }

    fn serve(&self, flags: &[&str]) -> SServer {
        let verify = ["-Verify", "2", "-verify_return_error", "-CAfile", "ca.pem"];
        SServer::start(self.folder.path(), "127.0.0.1", &[&verify[..], flags].concat())
    }

    fn client(&self, server: &SServer, token: &Token) -> Client {
        Desk::new().client_of(&self.kubeconfig(server, &token.user()), Client::builder())
    }

    fn kubeconfig(&self, server: &SServer, user: &Value) -> String {
        use base64::Engine as _;
        let authority = base64::engine::general_purpose::STANDARD.encode(self.servers.pem());
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "clusters": [{ "name": "c", "cluster": {
                "server": server.url(),
                "certificate-authority-data": authority,
            } }],
            "users": [{ "name": "u", "user": user }],
        })
        .to_string()
    }
}

/// Versions of openssl differ in the spaces.
fn shows_anna(page: &str) -> bool {
    page.replace(" = ", "=").contains("Subject: O=dev, CN=anna")
}

#[tokio::test]
async fn openssl_accepts_every_key_by_both_versions() {
    let scene = Scene::new();
    for (name, kind) in KEYS {
        let token = scene.token(kind);
        for version in ["-tls1_2", "-tls1_3"] {
            let server = scene.serve(&[version]);
            let client = scene.client(&server, &token);
            let response = within(client.get("/")).await.unwrap();
            let page = within(response.into_body().text()).await.unwrap();
            assert!(page.contains("Client certificate"), "{name} {version}: {page}");
            assert!(shows_anna(&page), "{name} {version}: {page}");
        }
        assert_eq!(token.asked("SignRequest"), 2, "{name}");
    }
}

#[tokio::test]
async fn openssl_accepts_every_rsa_signature_it_asks_for() {
    let scene = Scene::new();
    let token = scene.token(KEYS[0].1);
    let schemes = [
        ("-tls1_2", "RSA+SHA256", "crypto.Hash 5"),
        ("-tls1_2", "RSA+SHA384", "crypto.Hash 6"),
        ("-tls1_2", "RSA+SHA512", "crypto.Hash 7"),
        ("-tls1_2", "RSA-PSS+SHA384", "*rsa.PSSOptions {\"SaltLength\":-1,\"Hash\":6}"),
        ("-tls1_3", "RSA-PSS+SHA256", "*rsa.PSSOptions {\"SaltLength\":-1,\"Hash\":5}"),
        ("-tls1_3", "RSA-PSS+SHA512", "*rsa.PSSOptions {\"SaltLength\":-1,\"Hash\":7}"),
    ];
    for (version, scheme, asked) in schemes {
        let server = scene.serve(&[version, "-client_sigalgs", scheme]);
        let client = scene.client(&server, &token);
        let response = within(client.get("/")).await.unwrap();
        let page = within(response.into_body().text()).await.unwrap();
        assert!(shows_anna(&page), "{version} {scheme}: {page}");
        assert_eq!(token.log().last().unwrap(), &format!("SignRequest {asked}"), "{scheme}");
    }
}

#[tokio::test]
async fn a_key_that_can_sign_nothing_the_server_knows_is_an_error_and_nobody_is_anonymous() {
    let scene = Scene::new();
    let token = scene.token(KEYS[0].1);
    for version in ["-tls1_2", "-tls1_3"] {
        // A certificate is asked for and not demanded: without one it would let us in.
        let flags = [version, "-client_sigalgs", "ECDSA+SHA256", "-verify", "2"];
        let server = scene.serve(&flags);
        let client = scene.client(&server, &token);
        let error = within(client.get("/")).await.unwrap_err();
        let host = error.credential().unwrap();
        assert_eq!(host.kind(), Why::Failed);
        let said = host.to_string();
        assert!(said.contains("accepts none of the signatures that the RSA key"), "{said}");
        assert_eq!(token.asked("SignRequest"), 0);
    }
}
