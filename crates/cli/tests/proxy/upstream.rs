//! A server that speaks HTTP/1.1 alone and tells what it got.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use keyward_testing::authority::Authority;
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring};
use serde_json::{Value, json};

use crate::strict::{self, Message};

/// The header that ties what was sent to what arrives, and an answer to its question.
pub(crate) const MARK: &str = "x-case";

pub(crate) type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A server that speaks HTTP/1.1 alone, answers everything alike when it has read all of it, and
/// writes down what it gets, by a reader of its own that knows no mercy.
pub(crate) struct Upstream {
    book: Arc<Book>,
    pub(crate) kubeconfig: String,
}

#[derive(Default)]
struct Book {
    seen: Mutex<Vec<Message>>,
    broken: Mutex<Vec<Vec<u8>>>,
    /// The only token that is taken; any, if it is empty.
    token: Mutex<String>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        Self::of(&json!({ "token": "secret-of-the-proxy" }))
    }

    /// With a kubeconfig of this user.
    pub(crate) fn of(user: &Value) -> Self {
        let book: Arc<Book> = Arc::default();
        let kept = book.clone();
        Self { book, kubeconfig: serve(user, move |stream| answer(stream, &kept)) }
    }

    /// Takes this token from now on, and no other.
    pub(crate) fn accept(&self, token: &str) {
        token.clone_into(&mut self.book.token.lock().unwrap());
    }

    /// What has arrived since the last look.
    pub(crate) fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.book.seen.lock().unwrap())
    }

    /// Connections' worth of bytes that were no requests.
    pub(crate) fn broken(&self) -> Vec<Vec<u8>> {
        self.book.broken.lock().unwrap().clone()
    }
}

/// Does this with every connection, each on a thread of its own, until the process ends. The
/// kubeconfig that leads there, with this user.
pub(crate) fn serve(user: &Value, talk: impl Fn(Stream) + Send + Sync + 'static) -> String {
    let authority = Authority::new("strict").unwrap();
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
    let talk = Arc::new(talk);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (session, talk) = (ServerConnection::new(settings.clone()), talk.clone());
            thread::spawn(move || talk(StreamOwned::new(session.unwrap(), stream)));
        }
    });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "clusters": [{ "name": "test", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": STANDARD.encode(authority.pem()),
        } }],
        "users": [{ "name": "test", "user": user }],
    });
    kubeconfig.to_string()
}

fn answer(mut stream: Stream, book: &Book) {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match strict::read(&bytes) {
            strict::Read::Whole(message, used) => {
                bytes.drain(..used);
                let text = book.judge(&message);
                book.seen.lock().unwrap().push(message);
                if stream.write_all(text.as_bytes()).is_err() {
                    return;
                }
                continue;
            }
            strict::Read::Wrong(_) => {
                book.broken.lock().unwrap().push(bytes);
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

impl Book {
    fn judge(&self, message: &Message) -> String {
        let mark = message.values(MARK).collect::<Vec<_>>().join(",");
        let token = self.token.lock().unwrap();
        let wanted = format!("Bearer {token}");
        let good = token.is_empty() || message.values("authorization").eq([&wanted[..]]);
        let code = if good { "200 OK" } else { "401 Unauthorized" };
        let body = format!("{mark}ok\n");
        let head = format!("HTTP/1.1 {code}\r\n{MARK}: {mark}\r\nContent-Length: {}", body.len());
        let body = if message.method == "HEAD" { "" } else { &body };
        format!("{head}\r\n\r\n{body}")
    }
}
