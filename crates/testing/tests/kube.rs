//! kube and kube-runtime as the judges of the server.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use common::{http1, kubectl};
use futures_util::{StreamExt, TryStreamExt};
use http::{Request, Response, header::AUTHORIZATION};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use keyward_testing::server::{Server, User};
use kube::{
    Api, Client,
    api::{AttachParams, DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams},
    client::Body,
    runtime::{WatchStreamExt, reflector, watcher},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsConnector;

fn server() -> Server {
    let server = Server::setup().commands().start().unwrap();
    server.users().token("good", User::new("anna"));
    server
}

/// A client that makes a connection for every request: plain, and enough to judge the server.
fn client(server: &Server) -> Client {
    let (settings, address) = (http1(server, None), server.address());
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let settings = settings.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = "localhost".try_into().unwrap();
            let stream = TlsConnector::from(settings).connect(name, stream).await?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection.with_upgrades());
            request.headers_mut().insert(AUTHORIZATION, "Bearer good".parse().unwrap());
            request.headers_mut().insert("host", "localhost".parse().unwrap());
            let answer: Response<Incoming> = sender.send_request(request).await?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer)
        }
    });
    Client::new(service, "default")
}

fn map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name }, "data": { "value": value },
    })
}

/// Names and versions of what the server keeps.
fn kept(server: &Server) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let maps = server.store().all("configmaps");
    maps.iter()
        .map(|map| &map["metadata"])
        .map(|meta| (text(&meta["name"]), text(&meta["resourceVersion"])))
        .collect()
}

#[tokio::test]
async fn a_reflector_follows_through_cuts_restarts_and_forgotten_history() {
    for streaming in [false, true] {
        let server = Arc::new(server());
        server.store().put(&map("first", "1")).unwrap();
        let api: Api<ConfigMap> = Api::all(client(&server));
        let (store, writer) = reflector::store();
        let config = if streaming {
            watcher::Config::default().streaming_lists()
        } else {
            watcher::Config::default()
        };
        let stream = watcher(api, config).default_backoff();
        let mut events = pin!(reflector(writer, stream));
        let mirrored = || -> BTreeMap<String, String> {
            let maps = store.state();
            maps.iter()
                .map(|map| &map.metadata)
                .map(|meta| (meta.name.clone().unwrap(), meta.resource_version.clone().unwrap()))
                .collect()
        };
        for round in 0..5 {
            server.store().put(&map("first", &round.to_string())).unwrap();
            server.store().put(&map(&format!("map-{round}"), "1")).unwrap();
            let equal = async {
                while mirrored() != kept(&server) {
                    // Errors are what cuts look like; the watcher comes back.
                    let _ = events.next().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(120), equal).await.unwrap();
            match round {
                0 => server.cut_connections(),
                1 => server.restart().unwrap(),
                2 => {
                    server.cut_connections();
                    server.store().remove("configmaps", "default", "map-0").unwrap();
                    server.store().compact();
                }
                _ => server.go_away(),
            }
        }
    }
}

#[tokio::test]
async fn objects_are_created_patched_listed_and_deleted() {
    let server = server();
    let api: Api<ConfigMap> = Api::default_namespaced(client(&server));
    let object: ConfigMap = serde_json::from_value(map("a", "1")).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    let again = api.create(&PostParams::default(), &object).await.unwrap_err();
    assert!(matches!(again, kube::Error::Api(status) if status.reason == "AlreadyExists"));
    let patch = Patch::Apply(map("a", "2"));
    api.patch("a", &PatchParams::apply("test").force(), &patch).await.unwrap();
    let list = api.list(&ListParams::default().fields("metadata.name=a")).await.unwrap();
    assert_eq!(list.items[0].data.as_ref().unwrap()["value"], "2");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(api.get_opt("a").await.unwrap(), None);
    let version = client(&server).apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
}

#[tokio::test]
async fn logs_commands_and_ports_of_a_pod_work() {
    let server = server();
    server.store().put(&kubectl::pod("a")).unwrap();
    let api: Api<Pod> = Api::default_namespaced(client(&server));

    server.logs().write("default", "a", "one");
    server.logs().end("default", "a");
    let follow = LogParams { follow: true, ..LogParams::default() };
    let lines = futures_util::AsyncBufReadExt::lines(api.log_stream("a", &follow).await.unwrap());
    assert_eq!(lines.try_collect::<Vec<_>>().await.unwrap(), ["one"]);

    let params = AttachParams::default().stdin(true).stderr(false);
    let mut process = api.exec("a", ["sort"], &params).await.unwrap();
    let mut stdin = process.stdin().unwrap();
    stdin.write_all(b"b\na\n").await.unwrap();
    stdin.shutdown().await.unwrap();
    drop(stdin);
    let mut output = String::new();
    process.stdout().unwrap().read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "a\nb\n");
    let status = process.take_status().unwrap().await.unwrap();
    assert_eq!(status.status.as_deref(), Some("Success"));

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    server.ports().map(80, listener.local_addr().unwrap());
    let mut forwarder = api.portforward("a", &[80]).await.unwrap();
    let mut near = forwarder.take_stream(80).unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    near.write_all(b"there").await.unwrap();
    let mut five = [0; 5];
    far.read_exact(&mut five).await.unwrap();
    assert_eq!(&five, b"there");
    far.write_all(b"back!").await.unwrap();
    near.read_exact(&mut five).await.unwrap();
    assert_eq!(&five, b"back!");
}
