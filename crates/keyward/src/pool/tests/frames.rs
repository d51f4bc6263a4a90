//! A server that speaks HTTP/2 by the byte.

use std::{io, sync::Arc};

use keyward_testing::authority::Authority;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{Lifetimes, Pool, pool_of};

const PREFACE: usize = 24;
const HEADERS: u8 = 1;

/// A connection of a client.
pub(super) type Client = TlsStream<TcpStream>;

/// Where the server waits for a client.
pub(super) struct FrameServer {
    pub(super) url: String,
    authority: Authority,
    acceptor: TlsAcceptor,
    listener: TcpListener,
}

impl FrameServer {
    pub(super) async fn new() -> Self {
        let authority = Authority::new("test").unwrap();
        let issued = authority.server(&["127.0.0.1"]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![issued.certificate().clone()], issued.key())
            .unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        Self { url, authority, acceptor: TlsAcceptor::from(Arc::new(tls)), listener }
    }

    /// A pool that connects to it.
    pub(super) fn pool(&self) -> Pool {
        pool_of(&self.url, self.authority.pem(), Lifetimes::default())
    }

    /// Accepts a client, and sends it this first frame.
    pub(super) async fn accept(&self, settings: &[u8]) -> io::Result<Client> {
        let (stream, _) = self.listener.accept().await?;
        let mut client = self.acceptor.accept(stream).await?;
        client.write_all(settings).await?;
        client.flush().await?;
        client.read_exact(&mut [0; PREFACE]).await?;
        Ok(client)
    }
}

/// Reads the next request. Returns the number of its stream.
pub(super) async fn next_request(client: &mut Client) -> io::Result<u32> {
    loop {
        let mut head = [0; 9];
        client.read_exact(&mut head).await?;
        let [a, b, c, kind, _, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        client.read_exact(&mut vec![0; length]).await?;
        if kind == HEADERS {
            return Ok(u32::from_be_bytes(stream));
        }
    }
}
