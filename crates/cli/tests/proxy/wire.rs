//! A client that says exactly what it is told to, over TLS.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::Value;

/// No answer is meant to take so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a kubeconfig of the proxy says.
pub(crate) struct Card {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Vec<u8>,
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) server_name: String,
}

impl Card {
    /// Of a context, by its place in the file.
    pub(crate) fn read(kubeconfig: &Path, place: usize) -> Self {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let config: Value = serde_json::from_str(&text).unwrap();
        let cluster = &config["clusters"][place]["cluster"];
        let user = &config["users"][place]["user"];
        let bytes = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        let address: SocketAddr =
            cluster["server"].as_str().unwrap()["https://".len()..].parse().unwrap();
        Self {
            address,
            authority: bytes(&cluster["certificate-authority-data"]),
            certificate: bytes(&user["client-certificate-data"]),
            key: bytes(&user["client-key-data"]),
            server_name: address.ip().to_string(),
        }
    }

    /// TLS settings of a client that shows the certificate, or none.
    pub(crate) fn settings(&self, shown: bool) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.authority).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(if shown {
            let chain = vec![CertificateDer::from_pem_slice(&self.certificate).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(&self.key).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        })
    }

    pub(crate) fn connect(
        &self,
        settings: Arc<ClientConfig>,
        name: &str,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        StreamOwned::new(ClientConnection::new(settings, name).unwrap(), stream)
    }

    /// Says this and reads to the end; what the other side said, or how it broke off.
    pub(crate) fn say(&self, text: &str) -> std::io::Result<String> {
        exchange(&mut self.connect(self.settings(true), &self.server_name), text)
    }

    /// A GET with these header lines beside the host.
    pub(crate) fn get(&self, path: &str, lines: &str) -> String {
        let host = self.address;
        let text =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n");
        self.say(&text).unwrap()
    }
}

pub(crate) fn exchange(stream: &mut (impl Read + Write), text: &str) -> std::io::Result<String> {
    stream.write_all(text.as_bytes())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}
