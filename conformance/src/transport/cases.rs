//! The matrix: certificates, keys, authorities, versions of TLS, URLs, proxies, redirects, compression.

mod certificates;
mod ways;

use base64::{Engine, prelude::BASE64_STANDARD};
use keyward_testing::proxy::{Kind, Proxy};
use serde_json::{Value, json};

use super::{
    pki::{Issued, Leaf, Pki, USUAL},
    server::Server,
};

/// Where the parts of a case come from.
pub(super) struct Stage {
    pub(super) pki: Pki,
    pub(super) server: Server,
    pub(super) http: Proxy,
    pub(super) https: Proxy,
    pub(super) socks: Proxy,
    pub(super) locked: Proxy,
}

/// One kubeconfig and what is asked with it.
pub(super) struct Setting {
    pub(super) cluster: Value,
    pub(super) user: Value,
    pub(super) path: String,
    /// As `NAME=value`.
    pub(super) variables: Vec<String>,
    /// Written beside the kubeconfig.
    pub(super) files: Vec<(&'static str, String)>,
}

/// Opens the listeners of a case and writes its kubeconfig.
type Make = Box<dyn Fn(&Stage) -> Result<Setting, String>>;

/// A combination.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) make: Make,
}

const VERSIONS: [(&str, u16); 2] = [("1.2", 0x0303), ("1.3", 0x0304)];
const TOKEN: &str = "a-token";

/// How a listener is set up, beyond the certificate.
struct Listener {
    version: u16,
    curves: Vec<u16>,
    clients: String,
    address: &'static str,
}

impl Listener {
    fn of(version: u16) -> Self {
        Self { version, curves: Vec::new(), clients: String::new(), address: "127.0.0.1:0" }
    }
}

impl Stage {
    pub(super) fn new(server: Server) -> Result<Self, String> {
        let start = |setup: keyward_testing::proxy::Setup| setup.start().map_err(|e| e.to_string());
        Ok(Self {
            pki: Pki::new()?,
            server,
            http: start(Proxy::setup(Kind::Http))?,
            https: start(Proxy::setup(Kind::Https))?,
            socks: start(Proxy::setup(Kind::Socks5))?,
            locked: start(Proxy::setup(Kind::Http).password("anna", "secret"))?,
        })
    }

    fn open(&self, issued: &Issued, chain: &str, listener: &Listener) -> Result<u64, String> {
        self.server.listen(&json!({
            "listen": listener.address,
            "certificate": format!("{}{chain}", issued.certificate),
            "key": issued.key,
            "clients": listener.clients,
            "version": listener.version,
            "curves": listener.curves,
            "away": "https://127.0.0.1:1/version",
        }))
    }

    /// A server with the usual certificate, trusted, and a token.
    fn usual(&self, listener: &Listener) -> Result<Setting, String> {
        let leaf = self.pki.issue(&Leaf::server(USUAL, "p256"))?;
        let port = self.open(&leaf, "", listener)?;
        Ok(Setting::new(port, &self.pki.authority(USUAL)?))
    }

    /// The usual server, which lets clients of `authority` in, and a client of it.
    fn with_client(&self, version: u16, leaf: &Leaf) -> Result<(Setting, Issued), String> {
        let clients = self.pki.authority(&leaf.authority)?;
        let setting = self.usual(&Listener { clients, ..Listener::of(version) })?;
        Ok((setting, self.pki.issue(leaf)?))
    }
}

impl Setting {
    fn new(port: u64, authority: &str) -> Self {
        Self {
            cluster: json!({
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": BASE64_STANDARD.encode(authority),
            }),
            user: json!({ "token": TOKEN }),
            path: "/version".to_owned(),
            variables: Vec::new(),
            files: Vec::new(),
        }
    }

    /// With the authorities in this text, inline or in a file.
    fn trusting(mut self, bundle: &str, in_file: bool) -> Self {
        if in_file {
            self.cluster["certificate-authority-data"].take();
            self.cluster["certificate-authority"] = json!("bundle.pem");
            self.files.push(("bundle.pem", bundle.to_owned()));
        } else {
            self.cluster["certificate-authority-data"] = json!(BASE64_STANDARD.encode(bundle));
        }
        self
    }

    /// With this pair, inline or in files.
    fn showing(mut self, certificate: &str, key: &str, in_file: bool) -> Self {
        if in_file {
            self.user = json!({ "client-certificate": "client.crt", "client-key": "client.key" });
            self.files.push(("client.crt", certificate.to_owned()));
            self.files.push(("client.key", key.to_owned()));
        } else {
            self.user = json!({
                "client-certificate-data": BASE64_STANDARD.encode(certificate),
                "client-key-data": BASE64_STANDARD.encode(key),
            });
        }
        self
    }

    fn with(mut self, field: &str, value: Value) -> Self {
        self.cluster[field] = value;
        self
    }

    fn port(&self) -> String {
        let server = self.cluster["server"].as_str().unwrap_or_default();
        server.rsplit(':').next().unwrap_or_default().to_owned()
    }
}

/// Collects cases.
#[derive(Default)]
struct List(Vec<Case>);

impl List {
    fn add(&mut self, name: String, make: impl Fn(&Stage) -> Result<Setting, String> + 'static) {
        self.0.push(Case { name, make: Box::new(make) });
    }
}

/// All of them. `hybrid`: whether kubectl knows the post-quantum key exchange.
pub(super) fn all(hybrid: bool) -> Vec<Case> {
    let mut list = List::default();
    certificates::pairs(&mut list);
    certificates::faults(&mut list);
    certificates::bundles(&mut list);
    certificates::keys(&mut list);
    certificates::exchanges(&mut list, hybrid);
    ways::urls(&mut list);
    ways::proxies(&mut list);
    ways::answers(&mut list);
    list.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn there_are_four_hundred_combinations_and_no_two_have_one_name() {
        let all = all(true);
        let names: BTreeSet<_> = all.iter().map(|case| &case.name).collect();
        assert!(names.len() >= 400, "{}", names.len());
        assert_eq!(names.len(), all.len());
    }
}
