//! A client of the proxy that says exactly what it is told to.

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

use crate::Failure;

pub type Stream = StreamOwned<ClientConnection, TcpStream>;

/// What the proxy's kubeconfig says of a context.
pub struct Card {
    pub address: SocketAddr,
    pub host: String,
    /// What stands before every path.
    pub prefix: String,
    settings: Arc<ClientConfig>,
    server_name: String,
}

impl Card {
    /// The context's, by its place in the file.
    pub fn read(kubeconfig: &Path, place: usize) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(kubeconfig)?;
        let config: Value = serde_json::from_str(&text)?;
        let cluster = &config["clusters"][place]["cluster"];
        let user = &config["users"][place]["user"];
        let bytes = |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default());
        let url = cluster["server"].as_str().unwrap_or_default();
        let rest = url.strip_prefix("https://").unwrap_or_default();
        let (host, prefix) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let mut roots = RootCertStore::empty();
        let authority = bytes(&cluster["certificate-authority-data"])?;
        roots.add(CertificateDer::from_pem_slice(&authority)?)?;
        let chain =
            vec![CertificateDer::from_pem_slice(&bytes(&user["client-certificate-data"])?)?];
        let key = PrivateKeyDer::from_pem_slice(&bytes(&user["client-key-data"])?)?;
        let settings = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        let address: SocketAddr = host.parse()?;
        let name = cluster["tls-server-name"].as_str();
        Ok(Self {
            address,
            host: host.to_owned(),
            prefix: prefix.trim_end_matches('/').to_owned(),
            settings: Arc::new(settings),
            server_name: name.map_or_else(|| address.ip().to_string(), str::to_owned),
        })
    }

    /// A connection of HTTP/1.1 whose handshake is done.
    pub fn connect(&self) -> Result<Stream, Failure> {
        self.connect_with(&self.settings)
    }

    /// A connection of HTTP/2.
    pub fn connect_h2(&self) -> Result<Stream, Failure> {
        let mut settings = self.settings.clone();
        Arc::make_mut(&mut settings).alpn_protocols = vec![b"h2".to_vec()];
        self.connect_with(&settings)
    }

    fn connect_with(&self, settings: &Arc<ClientConfig>) -> Result<Stream, Failure> {
        let name = ServerName::try_from(self.server_name.clone())?;
        let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(10))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        let mut session = ClientConnection::new(settings.clone(), name)?;
        let mut stream = stream;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(session, stream))
    }

    /// Says this and reads to the end; empty when nothing came.
    pub fn say(&self, text: &str) -> Result<String, Failure> {
        let mut stream = self.connect()?;
        stream.write_all(text.as_bytes())?;
        Ok(read_to_end(&mut stream))
    }

    /// A GET with these header lines beside the host.
    pub fn get(&self, path: &str, lines: &str) -> Result<String, Failure> {
        let (host, prefix) = (&self.host, &self.prefix);
        self.say(&format!(
            "GET {prefix}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n"
        ))
    }

    /// Whether a plain request is answered with 200.
    pub fn is_served(&self, path: &str) -> bool {
        self.get(path, "").is_ok_and(|answer| status(&answer) == 200)
    }
}

/// What comes until the end, or until nothing comes any more.
pub fn read_to_end(stream: &mut impl Read) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of an answer; 0 for none.
pub fn status(answer: &str) -> u16 {
    let number = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The body of an answer.
pub fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
