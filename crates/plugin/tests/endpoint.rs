//! A plugin calls the cluster's server with nothing but what the request says about the cluster.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod common;

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use serde_json::{Value, json};

use common::{answer, ask, request, stderr};

const NAME: &str = "api.keyward.test";

#[test]
fn it_is_called_by_the_name_and_trusted_by_the_authority_of_the_request() {
    let server = Server::start();
    let answer = answer(&mut ask("token_over_tls", &server.question(&json!({}))));
    assert_eq!(answer["status"]["token"], "token-for-/login");
    assert_eq!(server.names(), [NAME]);
}

#[test]
fn it_is_called_through_an_http_proxy_with_its_password() {
    let server = Server::start();
    let proxy = proxy(connect_tunnel);
    let url = format!("http://me:p%40ss@{}", proxy.address);
    let answer = answer(&mut ask("token_over_tls", &server.question(&json!({"proxy-url": url}))));
    assert_eq!(answer["status"]["token"], "token-for-/login");
    assert_eq!(server.names(), [NAME]);
    // `me:p@ss` in base64.
    assert_eq!(
        proxy.seen(),
        [format!("CONNECT {} HTTP/1.1", server.address), "Basic bWU6cEBzcw==".to_owned()]
    );
}

#[test]
fn it_is_called_through_a_socks_proxy() {
    let server = Server::start();
    let proxy = proxy(socks_tunnel);
    let url = format!("socks5://me:word@{}", proxy.address);
    let answer = answer(&mut ask("token_over_tls", &server.question(&json!({"proxy-url": url}))));
    assert_eq!(answer["status"]["token"], "token-for-/login");
    assert_eq!(proxy.seen(), ["me:word".to_owned(), server.address.to_string()]);
}

#[test]
fn a_proxy_that_says_no_is_an_error() {
    let server = Server::start();
    let proxy = proxy(|mut client, _| {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")?;
        client.shutdown(Shutdown::Write)?;
        io::copy(&mut client, &mut io::sink()).map(drop)
    });
    let url = format!("http://{}", proxy.address);
    let question = server.question(&json!({"proxy-url": url}));
    let output = ask("token_over_tls", &question).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("status 407"), "{}", stderr(&output));
    assert!(server.names().is_empty());
}

#[test]
fn a_server_of_another_authority_gets_nothing() {
    let (server, other) = (Server::start(), Server::start());
    let question = server.question(&json!({"certificate-authority-data": base64(&other.ca)}));
    let output = ask("token_over_tls", &question).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("certificate"), "{}", stderr(&output));
}

#[test]
fn a_request_without_cluster_is_refused_by_the_strict_way() {
    let question = request("v1", &json!({"interactive": false}));
    let output = ask("token_over_tls", &question).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("provideClusterInfo"), "{}", stderr(&output));
}

/// A TLS server that only answers to [`NAME`].
struct Server {
    address: SocketAddr,
    /// The authority's certificate, in PEM.
    ca: String,
    names: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority =
            rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap())
                .unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![NAME.into()])
            .unwrap()
            .signed_by(&key, &authority)
            .unwrap();

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let key = CertifiedKey::new(
            vec![certificate.der().clone()],
            provider.key_provider.load_private_key(key).unwrap(),
        );
        let names = Arc::new(Mutex::new(Vec::new()));
        let by_name = ByName { names: names.clone(), key: Arc::new(key) };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(by_name));

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = Arc::new(config);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that turns away is a part of these tests.
                let _ = serve(stream.unwrap(), config.clone());
            }
        });
        Self { address, ca: authority.pem(), names }
    }

    /// A question for this server's cluster, with changes.
    fn question(&self, changes: &Value) -> Value {
        let mut cluster = json!({
            "server": format!("https://{}", self.address),
            "tls-server-name": NAME,
            "certificate-authority-data": base64(&self.ca),
            "config": {"path": "/login"},
        });
        cluster.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        request("v1", &json!({"interactive": false, "cluster": cluster}))
    }

    /// The names that clients asked for.
    fn names(&self) -> Vec<String> {
        self.names.lock().unwrap().clone()
    }
}

/// Answers one request with a token that tells the path.
fn serve(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    let tls = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(tls, stream));
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    while line.trim() != "" {
        line.clear();
        stream.read_line(&mut line)?;
    }
    let tls = stream.get_mut();
    write!(tls, "HTTP/1.0 200 OK\r\n\r\ntoken-for-{path}")?;
    tls.conn.send_close_notify();
    tls.flush()
}

#[derive(Debug)]
struct ByName {
    names: Arc<Mutex<Vec<String>>>,
    key: Arc<CertifiedKey>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name()?.to_owned();
        let ours = name == NAME;
        self.names.lock().unwrap().push(name);
        ours.then(|| self.key.clone())
    }
}

/// A proxy and what it was told.
struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Starts a proxy that treats each client like this.
fn proxy(treat: fn(TcpStream, &Mutex<Vec<String>>) -> io::Result<()>) -> Proxy {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            treat(stream.unwrap(), &told).unwrap();
        }
    });
    Proxy { address, seen }
}

fn connect_tunnel(client: TcpStream, seen: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    assert!(reader.buffer().is_empty(), "the client waits for the tunnel");
    let target = head[0].split(' ').nth(1).unwrap().to_owned();
    let login = head.iter().find_map(|l| l.strip_prefix("Proxy-Authorization: ")).unwrap();
    seen.lock().unwrap().extend([head[0].clone(), login.to_owned()]);
    let server = TcpStream::connect(target)?;
    let mut answering = client.try_clone()?;
    answering.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")?;
    splice(client, server)
}

fn socks_tunnel(mut client: TcpStream, seen: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut take = |count: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let methods = take(2)?;
    assert!(take(usize::from(methods[1]))?.contains(&2));
    let mut reply = client.try_clone()?;
    reply.write_all(&[5, 2])?;
    let mut take = |count: usize| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    let length = take(2)?[1];
    let user = text(take(usize::from(length))?);
    let length = take(1)?[0];
    let password = text(take(usize::from(length))?);
    reply.write_all(&[1, 0])?;
    let length = take(5)?[4];
    let host = text(take(usize::from(length))?);
    let port = take(2)?;
    let target = format!("{host}:{}", u16::from_be_bytes([port[0], port[1]]));
    seen.lock().unwrap().extend([format!("{user}:{password}"), target.clone()]);
    let server = TcpStream::connect(target)?;
    reply.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0])?;
    splice(client, server)
}

/// Carries bytes both ways until both sides are done.
fn splice(client: TcpStream, server: TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let up = thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let (mut from_server, mut to_client) = (server, client);
    let _ = io::copy(&mut from_server, &mut to_client);
    let _ = to_client.shutdown(Shutdown::Both);
    up.join().unwrap();
    Ok(())
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
