//! Many clients in bad weather, for a while: a token is revoked under them, connections are asked to
//! end, the server is started anew. `cargo xtask soak --proxy` is the long version.

use std::{fs, pin::pin, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use keyward::Client;
use keyward_host::{Kubeconfig, NoopObserver, Overrides, Sources, rules::Rules};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use keyward_testing::{
    script::Script,
    server::{Server, User},
};
use tokio::{net::TcpStream, sync::Barrier, task::JoinSet};

use crate::{
    stage::{Proxy, Stage},
    wire::Card,
};

/// Of each kind: some speak HTTP/2, some HTTP/1.1.
const CLIENTS: usize = 4;
/// Between two changes of the weather, for each client.
const REQUESTS: usize = 40;
const ROUNDS: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_see_nothing_of_a_revoked_token_and_of_ended_connections() {
    let script = Script::new();
    script.answer(Some("one"), None);
    let server = Server::setup().start().unwrap();
    server.users().token("one", User::new("anna"));
    server.faults().go_away_after(Some(50));
    let stage = Stage::of(server, &script.user());
    let proxy = stage.proxy(&[]);
    // Everybody and the weather meet before each round and after it.
    let meet = Arc::new(Barrier::new(2 * CLIENTS + 1));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(ask_h2(client(&proxy), meet.clone()));
        clients.spawn(ask_h1(Card::read(&proxy.kubeconfig, 0), meet.clone()));
    }
    let mut gauges = Vec::new();
    for round in 1..=ROUNDS {
        together(&meet, &mut clients).await;
        if round == 2 {
            // While they ask.
            script.answer(Some("two"), None);
            stage.server.users().replace_tokens([("two", User::new("anna"))]);
        }
        together(&meet, &mut clients).await;
        gauges.push(Gauge::read(&proxy));
        if round == ROUNDS / 2 {
            // Nothing is under way: the connections that are left lead nowhere.
            stage.server.restart().unwrap();
        }
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    let counts = stage.server.counts();
    assert!(counts.status(401) >= 1 && counts.connections > 10, "the weather was bad: {counts:?}");
    assert!(counts.status(200) >= (2 * CLIENTS * REQUESTS * ROUNDS) as u64, "{counts:?}");
    assert_eq!(script.runs(), 2, "one for everybody who was refused");
    let (first, last) = (&gauges[1], &gauges[ROUNDS - 1]);
    assert!(last.descriptors <= first.descriptors + 8, "descriptors: {first:?}, {last:?}");
    assert!(last.kilobytes <= first.kilobytes + 16 * 1024, "memory: {first:?}, {last:?}");
    let (status, said) = proxy.end();
    assert!(status.success() && !said.contains("panicked"), "{said}");
}

/// Waits for everybody. One that has failed never comes.
async fn together(meet: &Barrier, clients: &mut JoinSet<()>) {
    let mut all = pin!(meet.wait());
    loop {
        tokio::select! {
            biased;
            _ = &mut all => return,
            Some(ended) = clients.join_next() => ended.unwrap(),
        }
    }
}

/// What a process holds.
#[derive(Debug)]
pub(crate) struct Gauge {
    pub(crate) descriptors: usize,
    pub(crate) kilobytes: usize,
}

impl Gauge {
    pub(crate) fn read(proxy: &Proxy) -> Self {
        let folder = format!("/proc/{}", proxy.child.id());
        let status = fs::read_to_string(format!("{folder}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self {
            descriptors: fs::read_dir(format!("{folder}/fd")).unwrap().count(),
            kilobytes: line.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }
}

pub(crate) fn client(proxy: &Proxy) -> Client {
    let text = fs::read(&proxy.kubeconfig).unwrap();
    let surroundings = Surroundings::process();
    let target = Kubeconfig::from_bytes(&text).unwrap();
    let target = target.resolve(&Overrides::default(), &surroundings).unwrap();
    let sources = Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver));
    Client::builder().open(&target, &Rules::default(), &sources).unwrap()
}

async fn ask_h2(client: Client, meet: Arc<Barrier>) {
    for _ in 0..ROUNDS {
        meet.wait().await;
        for _ in 0..REQUESTS {
            let response = client.get("/version").await.unwrap();
            let status = response.status();
            let text = response.into_body().text().await.unwrap();
            assert_eq!(status, 200, "{text}");
        }
        meet.wait().await;
    }
}

async fn ask_h1(card: Card, meet: Arc<Barrier>) {
    let stream = TcpStream::connect(card.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(card.settings(true));
    let name = card.server_name.clone().try_into().unwrap();
    let stream = connector.connect(name, stream).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driving = tokio::spawn(connection);
    for _ in 0..ROUNDS {
        meet.wait().await;
        for _ in 0..REQUESTS {
            sender.ready().await.unwrap();
            let request = http::Request::get("/version").header("host", card.address.to_string());
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            let status = response.status();
            let text = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(status, 200, "{text:?}");
        }
        meet.wait().await;
    }
    drop(sender);
    driving.await.unwrap().unwrap();
}
