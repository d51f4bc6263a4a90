//! A response that ends before its end.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener},
    sync::Arc,
    thread,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use keyward::Client;
use keyward_testing::authority::Authority;
use rustls::{ServerConfig, ServerConnection, StreamOwned, crypto::ring};
use serde_json::json;

use crate::support::{Desk, within};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
/// A whole header block: `:status: 200`, from the static table.
const GOOD: &[u8] = &[0x88];

/// A server of HTTP/2 that answers every request with these frames: kind, flags and payload.
fn server(frames: &'static [(u8, u8, &'static [u8])]) -> String {
    let authority = Authority::new("halfway").unwrap();
    let identity = authority.server(&["127.0.0.1"]).unwrap();
    let mut settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate().clone()], identity.key())
        .unwrap();
    settings.alpn_protocols = vec![b"h2".to_vec()];
    let settings = Arc::new(settings);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(settings.clone()).unwrap();
            // A client that leaves is no news.
            let _ = serve(StreamOwned::new(session, stream), frames);
        }
    });
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "clusters": [{ "name": "test", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority-data": STANDARD.encode(authority.pem()),
        } }],
        "users": [{ "name": "test", "user": { "token": "any" } }],
    })
    .to_string()
}

fn serve(
    mut stream: StreamOwned<ServerConnection, std::net::TcpStream>,
    frames: &[(u8, u8, &[u8])],
) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&frame(SETTINGS, 0, [0; 4], &[]))?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let size = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        stream.read_exact(&mut vec![0; usize::try_from(size).unwrap()])?;
        if head[3] == HEADERS {
            let id = [head[5], head[6], head[7], head[8]];
            for (kind, flags, payload) in frames {
                stream.write_all(&frame(*kind, *flags, id, payload))?;
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let size = u8::try_from(payload.len()).unwrap();
    [&[0, 0, size, kind, flags], &stream[..], payload].concat()
}

#[tokio::test]
async fn a_response_that_is_taken_back_halfway_is_an_error() {
    // No error, cancelled, internal error: none of them is the end of a response.
    let cuts: [&'static [(u8, u8, &'static [u8])]; 3] = [
        &[(HEADERS, 4, GOOD), (DATA, 0, b"half of "), (RESET, 0, &[0, 0, 0, 0])],
        &[(HEADERS, 4, GOOD), (DATA, 0, b"half of "), (RESET, 0, &[0, 0, 0, 8])],
        &[(HEADERS, 4, GOOD), (DATA, 0, b"half of "), (RESET, 0, &[0, 0, 0, 2])],
    ];
    for frames in cuts {
        let client = Desk::new().client_of(&server(frames), Client::builder());
        let response = within(client.get("/")).await.unwrap();
        assert!(within(response.into_body().bytes()).await.is_err(), "{frames:?}");
    }
}

#[tokio::test]
async fn a_reset_behind_the_end_of_a_response_takes_nothing_back() {
    let client = Desk::new().client_of(
        &server(&[(HEADERS, 4, GOOD), (DATA, 1, b"all of it"), (RESET, 0, &[0, 0, 0, 0])]),
        Client::builder(),
    );
    let response = within(client.get("/")).await.unwrap();
    assert_eq!(within(response.into_body().bytes()).await.unwrap(), "all of it");
}
