//! A server that speaks HTTP/1.1 alone and tells what it got.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use keyward_testing::authority::Authority;
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring};

use crate::strict::{self, Message};

/// The header that ties what was sent to what arrives, and an answer to its question.
pub(crate) const MARK: &str = "x-case";

/// A server that speaks HTTP/1.1 alone, answers everything alike, and writes down what it gets, by
/// a reader of its own that knows no mercy.
pub(crate) struct Upstream {
    seen: Arc<Mutex<Vec<Message>>>,
    broken: Arc<Mutex<Vec<Vec<u8>>>>,
    pub(crate) kubeconfig: String,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let authority = Authority::new("fuzz").unwrap();
        let identity = authority.server(&["127.0.0.1"]).unwrap();
        let settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![identity.certificate().clone()], identity.key())
            .unwrap();
        let settings = Arc::new(settings);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Message>>> = Arc::default();
        let broken: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let (kept, bad) = (seen.clone(), broken.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (settings, kept, bad) = (settings.clone(), kept.clone(), bad.clone());
                thread::spawn(move || answer(stream, settings, &kept, &bad));
            }
        });
        let authority =
            base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority.pem());
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "clusters": [{ "name": "test", "cluster": {
                "server": format!("https://{address}"),
                "certificate-authority-data": authority,
            } }],
            "users": [{ "name": "test", "user": { "token": "secret-of-the-proxy" } }],
        });
        Self { seen, broken, kubeconfig: kubeconfig.to_string() }
    }

    /// What has arrived since the last look.
    pub(crate) fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Connections' worth of bytes that were no requests.
    pub(crate) fn broken(&self) -> Vec<Vec<u8>> {
        self.broken.lock().unwrap().clone()
    }
}

fn answer(
    stream: TcpStream,
    settings: Arc<ServerConfig>,
    seen: &Mutex<Vec<Message>>,
    broken: &Mutex<Vec<Vec<u8>>>,
) {
    let Ok(session) = ServerConnection::new(settings) else { return };
    let mut stream = StreamOwned::new(session, stream);
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        match strict::read(&bytes) {
            strict::Read::Whole(message, used) => {
                bytes.drain(..used);
                let mark = message.values(MARK).collect::<Vec<_>>().join(",");
                let body = if message.method == "HEAD" { "" } else { "ok\n" };
                let text =
                    format!("HTTP/1.1 200 OK\r\n{MARK}: {mark}\r\nContent-Length: 3\r\n\r\n{body}");
                seen.lock().unwrap().push(message);
                if stream.write_all(text.as_bytes()).is_err() {
                    return;
                }
                continue;
            }
            strict::Read::Wrong(_) => {
                broken.lock().unwrap().push(bytes);
                return;
            }
            strict::Read::Partial => {}
        }
        match stream.read(&mut piece) {
            Ok(size) if size > 0 => bytes.extend_from_slice(&piece[..size]),
            _ => return,
        }
    }
}
