//! WebSocket channels as other clients than kubectl use them: versions four and five.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use common::{Client, get, http1, http2, kubectl::pod};
use futures_util::{SinkExt, StreamExt};
use http::StatusCode;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use keyward_testing::server::{Server, User};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

const POD: &str = "/api/v1/namespaces/default/pods/a";

fn server() -> Server {
    let server = Server::setup().commands().start().unwrap();
    server.users().token("good", User::new("anna"));
    server.store().put(&pod("a")).unwrap();
    server
}

struct Socket(WebSocketStream<TokioIo<Upgraded>>);

impl Socket {
    /// Upgrades; the protocol agreed on and the socket.
    async fn open(server: &Server, path: &str, protocols: &str) -> (String, Self) {
        let mut client = Client::connect(server, http1(server, None)).await;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("{POD}/{path}") };
        let mut request = get(&path, "good");
        for (name, value) in [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", protocols),
        ] {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let mut answer = client.send(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
        // The example of RFC 6455.
        assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let agreed = answer.headers()["sec-websocket-protocol"].to_str().unwrap().to_owned();
        let io = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
        (agreed, Self(WebSocketStream::from_raw_socket(io, Role::Client, None).await))
    }

    async fn send(&mut self, channel: u8, bytes: &[u8]) {
        let message = [&[channel], bytes].concat();
        self.0.send(Message::Binary(message.into())).await.unwrap();
    }

    /// The next message with something in it, or `None` at the end.
    async fn next(&mut self) -> Option<(u8, Bytes)> {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(60), self.0.next()).await.unwrap();
            match next?.unwrap() {
                Message::Binary(bytes) if bytes.len() > 1 => {
                    return Some((bytes[0], bytes.slice(1..)));
                }
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Everything up to the end, by channel.
    async fn rest(&mut self) -> [Vec<u8>; 4] {
        let mut all: [Vec<u8>; 4] = Default::default();
        while let Some((channel, bytes)) = self.next().await {
            all[usize::from(channel)].extend_from_slice(&bytes);
        }
        all
    }
}

#[tokio::test]
async fn a_command_answers_on_its_channels_and_ends_with_a_status() {
    let server = server();
    for (offered, agreed) in [
        ("v5.channel.k8s.io, v4.channel.k8s.io", "v5.channel.k8s.io"),
        ("v4.channel.k8s.io", "v4.channel.k8s.io"),
    ] {
        let script =
            "exec?command=sh&command=-c&command=echo+a%3B+echo+b+%3E%262&stdout=1&stderr=1";
        let (protocol, mut socket) = Socket::open(&server, script, offered).await;
        assert_eq!(protocol, agreed);
        let [_, stdout, stderr, status] = socket.rest().await;
        assert_eq!((stdout.as_slice(), stderr.as_slice()), (&b"a\n"[..], &b"b\n"[..]));
        let status: Value = serde_json::from_slice(&status).unwrap();
        assert_eq!(status["status"], "Success");
    }
}

#[tokio::test]
async fn the_end_of_input_is_told_on_the_closing_channel() {
    let server = server();
    let (_, mut socket) =
        Socket::open(&server, "exec?command=cat&stdin=1&stdout=1", "v5.channel.k8s.io").await;
    socket.send(0, b"typed").await;
    socket.send(255, &[0]).await;
    let [_, stdout, _, status] = socket.rest().await;
    assert_eq!(stdout, b"typed");
    assert!(!status.is_empty());
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_command() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    // Holds a lock while it lives, and says so.
    let script = format!("exec 9>{}; flock 9; echo held; sleep 600", lock.display());
    let script = script.replace(' ', "+").replace('>', "%3E").replace(';', "%3B");
    let path = format!("exec?command=sh&command=-c&command={script}&stdout=1");
    let (_, mut socket) = Socket::open(&server, &path, "v5.channel.k8s.io").await;
    assert_eq!(socket.next().await.unwrap().1, "held\n");
    drop(socket);
    // Free again only when the command and its child are gone.
    let free =
        std::process::Command::new("flock").args(["-w", "60"]).arg(&lock).arg("true").status();
    assert!(free.unwrap().success());
}

/// Sends back what it gets, until the runtime of the test ends.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut piece = [0; 1024];
                while let Ok(size @ 1..) = stream.read(&mut piece).await {
                    stream.write_all(&piece[..size]).await.unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn ports_have_two_channels_each_that_begin_with_their_number() {
    let server = server();
    server.ports().map(8080, echo().await);
    let (protocol, mut socket) =
        Socket::open(&server, "portforward?ports=8080,9", "v5.channel.k8s.io, v4.channel.k8s.io")
            .await;
    assert_eq!(protocol, "v4.channel.k8s.io");
    for (channel, port) in [(0, 8080_u16), (1, 8080), (2, 9), (3, 9)] {
        let (seen, bytes) = socket.next().await.unwrap();
        assert_eq!((seen, bytes.as_ref()), (channel, port.to_le_bytes().as_ref()));
    }
    let (channel, error) = socket.next().await.unwrap();
    assert_eq!(channel, 3);
    assert!(error.starts_with(b"error forwarding port 9"), "{error:?}");
    socket.send(0, b"hello").await;
    assert_eq!(socket.next().await.unwrap(), (0, Bytes::from("hello")));
}

#[tokio::test]
async fn a_kubelet_has_paths_and_words_of_its_own() {
    let server = Server::setup().kubelet().commands().start().unwrap();
    server.users().token("good", User::new("api-server"));
    let path = "/exec/default/a/app?command=cat&input=1&output=1";
    let (_, mut socket) = Socket::open(&server, path, "v5.channel.k8s.io").await;
    socket.send(0, b"typed").await;
    socket.send(255, &[0]).await;
    assert_eq!(socket.rest().await[1], b"typed");
    // The words of an API server are none of its own: nothing is wanted of the command.
    let path = "/exec/default/a/app?command=echo&command=said&stdout=1";
    let (_, mut socket) = Socket::open(&server, path, "v5.channel.k8s.io").await;
    assert_eq!(socket.rest().await[1], b"");

    server.ports().map(8080, echo().await);
    let path = "/portForward/default/a?ports=8080";
    let (_, mut socket) = Socket::open(&server, path, "v4.channel.k8s.io").await;
    socket.send(0, b"hello").await;
    for channel in [0, 1] {
        assert_eq!(socket.next().await.unwrap().0, channel, "the number of the port");
    }
    assert_eq!(socket.next().await.unwrap(), (0, Bytes::from("hello")));

    server.logs().write("default", "a", "a line");
    let mut client = Client::connect(&server, http1(&server, None)).await;
    for (path, expected) in [
        ("/containerLogs/default/a/app", StatusCode::OK),
        ("/healthz", StatusCode::OK),
        ("/api/v1/namespaces/default/pods", StatusCode::NOT_FOUND),
        ("/exec/default/a/app", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(client.get(path, "good").await.0, expected, "{path}");
    }
}

#[tokio::test]
async fn an_upgrade_is_cut_with_its_connection_and_counted_as_open() {
    let server = server();
    let (_, mut socket) =
        Socket::open(&server, "exec?command=cat&stdin=1&stdout=1", "v5.channel.k8s.io").await;
    socket.send(0, b"x").await;
    assert_eq!(socket.next().await.unwrap().0, 1);
    assert_eq!(server.counts().open, 1);
    server.cut_connections();
    let end = tokio::time::timeout(Duration::from_secs(60), socket.0.next()).await.unwrap();
    assert!(end.is_none_or(|message| message.is_err()));
}

#[tokio::test]
async fn what_cannot_be_upgraded_is_refused() {
    let server = server();
    let mut client = Client::connect(&server, http2(&server, None)).await;
    for (path, expected) in [
        (format!("{POD}/exec?command=true"), StatusCode::BAD_REQUEST),
        (format!("{POD}/exec"), StatusCode::BAD_REQUEST),
        (format!("{POD}/portforward?ports=1"), StatusCode::BAD_REQUEST),
        ("/api/v1/namespaces/default/pods/none/exec".to_owned(), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(client.get(&path, "good").await.0, expected, "{path}");
    }
}
