//! Who the server is.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use keyward::{Client, Kind};
use keyward_testing::server::{Server, User};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use crate::support::{Desk, kubeconfig, status, within};

fn user() -> Value {
    json!({ "token": "one" })
}

fn server(names: &[&str]) -> Server {
    let server = Server::setup().names(names).start().unwrap();
    server.users().token("one", User::new("anna"));
    server
}

fn client(server: &Server, cluster: &Value) -> Client {
    Desk::new().client_of(&kubeconfig(server, &user(), cluster), Client::builder())
}

#[tokio::test]
async fn a_server_under_another_name_is_not_believed() {
    let server = server(&["api.example"]);
    let error = within(client(&server, &json!({})).get("/healthz")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Connect);
    assert_eq!(server.counts().requests, 0);
}

#[tokio::test]
async fn the_name_of_the_kubeconfig_is_asked_for_and_checked() {
    let server = server(&["api.example"]);
    let named = client(&server, &json!({ "tls-server-name": "api.example" }));
    assert_eq!(status(&named, "/healthz").await, 200);
    assert_eq!(server.recorder().last().unwrap().server_name.as_deref(), Some("api.example"));
}

#[tokio::test]
async fn a_server_of_a_strange_authority_is_believed_only_where_nothing_is_checked() {
    let server = server(&["localhost", "127.0.0.1"]);
    let stranger = Server::setup().start().unwrap();
    let other: Value = serde_json::from_str(&stranger.kubeconfig(&user())).unwrap();
    let other = &other["clusters"][0]["cluster"]["certificate-authority-data"];
    let wrong = client(&server, &json!({ "certificate-authority-data": other }));
    assert_eq!(within(wrong.get("/healthz")).await.unwrap_err().kind(), Kind::Connect);
    let system = client(&server, &json!({ "certificate-authority-data": null }));
    assert_eq!(within(system.get("/healthz")).await.unwrap_err().kind(), Kind::Connect);
    let any = json!({ "certificate-authority-data": null, "insecure-skip-tls-verify": true });
    assert_eq!(status(&client(&server, &any), "/healthz").await, 200);
}

/// Answers one request over plain HTTP; gives what it was asked, in small letters.
async fn answer_once(answer: Vec<u8>) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(&answer).await.unwrap();
        String::from_utf8(head).unwrap().to_ascii_lowercase()
    });
    (url, asked)
}

#[tokio::test]
async fn plain_http_is_spoken_where_the_kubeconfig_says_so_and_nobody_is_identified() {
    let (url, asked) = answer_once(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()).await;
    let server = server(&["localhost"]);
    let client = client(&server, &json!({ "server": url, "certificate-authority-data": null }));
    assert_eq!(status(&client, "/healthz").await, 204);
    let head = asked.await.unwrap();
    assert!(head.starts_with("get /healthz http/1.1"), "{head}");
    assert!(head.contains("\r\nhost: 127.0.0.1:"), "{head}");
    assert!(!head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn a_packed_response_is_unpacked_unless_the_kubeconfig_wants_none() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&b"unpacked ".repeat(10_000)).unwrap();
    let body = encoder.finish().unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length";
    let answer = [format!("{head}: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
    let server = server(&["localhost"]);
    for disabled in [false, true] {
        let (url, asked) = answer_once(answer.clone()).await;
        let client = client(
            &server,
            &json!({
                "server": url,
                "certificate-authority-data": null,
                "disable-compression": disabled,
            }),
        );
        let response = within(client.get("/")).await.unwrap();
        let packed = response.headers().contains_key("content-encoding");
        assert_eq!(packed, disabled);
        let read = within(response.into_body().bytes()).await.unwrap();
        assert_eq!(read.len(), if disabled { body.len() } else { 90_000 });
        assert_eq!(asked.await.unwrap().contains("accept-encoding: gzip"), !disabled);
    }
}
