//! Servers that are the attacker: what they say is up to the attack.

use std::{
    io::Read,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use keyward_testing::authority::Authority;
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring};
use serde_json::{Value, json};

use crate::{Failure, stage};

pub type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A TLS server on loopback, with an authority of its own.
pub struct Upstream {
    pub address: SocketAddr,
    pub authority: Authority,
    /// The bytes of every connection so far.
    pub seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Upstream {
    /// Does this with every connection, each on a thread of its own. `talk` gets the number of the
    /// connection.
    pub fn start(talk: impl Fn(Stream, usize) + Send + Sync + 'static) -> Result<Self, Failure> {
        Self::speaking(&[], talk)
    }

    /// With these protocols of ALPN.
    pub fn speaking(
        protocols: &[&str],
        talk: impl Fn(Stream, usize) + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let authority = Authority::new("attacker")?;
        let identity = authority.server(&["127.0.0.1", "localhost"])?;
        let mut settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate().clone()], identity.key())?;
        settings.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let settings = Arc::new(settings);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let talk = Arc::new(talk);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let Ok(session) = ServerConnection::new(settings.clone()) else { continue };
                let talk = talk.clone();
                thread::spawn(move || talk(StreamOwned::new(session, stream), number));
            }
        });
        Ok(Self { address, authority, seen: Arc::default() })
    }

    /// One that answers every request with these bytes and ends the connection; it keeps what it got.
    pub fn answering(
        answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let kept = seen.clone();
        let mut upstream = Self::start(move |mut stream, _| {
            use std::io::Write as _;
            let Some(request) = head(&mut stream) else { return };
            let text = answer(&String::from_utf8_lossy(&request));
            if let Ok(mut all) = kept.lock() {
                all.push(request);
            }
            let _ = stream.write_all(&text);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        })?;
        upstream.seen = seen;
        Ok(upstream)
    }

    /// A kubeconfig that leads here.
    pub fn kubeconfig(&self, user: &Value) -> String {
        stage::cluster(&self.cluster(), user)
    }

    pub fn cluster(&self) -> Value {
        json!({
            "server": format!("https://{}", self.address),
            "certificate-authority-data": STANDARD.encode(self.authority.pem()),
        })
    }

    /// What it got so far, as text.
    pub fn text(&self) -> String {
        let all = self.seen.lock().map(|seen| seen.concat()).unwrap_or_default();
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Reads up to the end of a head; `None` when the client leaves first.
pub fn head(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut piece) {
            Ok(size) if size > 0 => bytes.extend_from_slice(&piece[..size]),
            _ => return None,
        }
    }
    Some(bytes)
}

/// A plain TCP server that keeps what it gets and answers nothing.
pub struct Plain {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Plain {
    pub fn start(answer: &'static str) -> Result<Self, Failure> {
        use std::io::Write as _;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = seen.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let kept = kept.clone();
                thread::spawn(move || {
                    let mut piece = [0; 4096];
                    while let Ok(size) = stream.read(&mut piece) {
                        if size == 0 {
                            return;
                        }
                        if let Ok(mut all) = kept.lock() {
                            all.extend_from_slice(&piece[..size]);
                        }
                        let _ = stream.write_all(answer.as_bytes());
                    }
                });
            }
        });
        Ok(Self { address, seen })
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().map(|seen| seen.clone()).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}
