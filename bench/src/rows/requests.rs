//! Requests to a server over TLS, beside kube with the same server and the same plugin.

use std::{rc::Rc, sync::Arc, time::Instant};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use keyward::Client;
use keyward_host::{Kubeconfig, NoopObserver, Overrides, Sources, Target, rules::Rules};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use kube::config::{KubeConfigOptions, Kubeconfig as Theirs};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde_json::{Value, json};
use tokio::{net::TcpStream, runtime::Runtime};
use tokio_rustls::TlsConnector;

use super::scene::{Folder, Scene, TOKEN};
use crate::{
    measure::{Bar, Row, Variant, worked},
    peer::{self, Peer},
};

/// Requests in one round.
const REQUESTS: u32 = 512;

/// Requests under way at once where there are several.
const ABREAST: u32 = 32;

/// Times in one round that a client is made from nothing.
const BEGINNINGS: u32 = 20;

/// On connections that are there, by the wall's clock. kube speaks HTTP/1.1 alone, which carries one
/// request at a time, so it has a connection for each of several; the others carry them all on one. What
/// one alone takes is for the most part the time in which client and server wake each other up across
/// processors, and tells little of either; [`in_turn`] and [`work`] do.
pub fn connection() -> Row {
    let stage = Stage::new();
    let (many, alone, crowd) = (stage.many.clone(), stage.many.clone(), stage.kube.clone());
    let (bare, theirs, abreast_job) = (stage.bare.clone(), stage.job(), stage.abreast_job());
    let client_go = move || Ok(peer::nanos(&theirs)? / 1e3);
    let client_go_abreast = move || Ok(peer::nanos(&abreast_job)? / 1e3);
    let [kube, wrapped, ours] = stage.lone(Clock::Wall);
    Row {
        unit: "µs",
        variants: vec![
            kube,
            Variant { label: CLIENT_GO, run: Box::new(client_go) },
            wrapped,
            ours,
            stage.variant("ours, one at a time, HTTP/2", move || {
                let client = alone.clone();
                async move { Clock::Wall.each(REQUESTS, || ask(&client)).await }
            }),
            stage.variant("hyper alone, one at a time, HTTP/2", move || {
                let bare = bare.clone();
                async move { Clock::Wall.each(REQUESTS, || ask_barely(&bare)).await }
            }),
            stage.variant(KUBE_ABREAST, move || {
                let client = crowd.clone();
                async move { abreast(|| through_kube(&client)).await }
            }),
            Variant { label: CLIENT_GO_ABREAST, run: Box::new(client_go_abreast) },
            stage.variant(OURS_ABREAST, move || {
                let client = many.clone();
                async move { abreast(|| ask(&client)).await }
            }),
        ],
        bars: vec![
            Bar {
                promise: "32 at once vs kube's on as many connections",
                judge: |r| (r.ratio(OURS_ABREAST, KUBE_ABREAST), 1.0),
            },
            Bar {
                promise: "32 at once vs client-go's",
                judge: |r| (r.ratio(OURS_ABREAST, CLIENT_GO_ABREAST), 1.0),
            },
        ],
    }
}

/// By the wall's clock too, one after another, with client and server in turn on one processor: nobody
/// waits for another one to wake up. All of them speak HTTP/1.1 here.
pub fn in_turn() -> Row {
    let stage = Stage::on_one_processor();
    let job = stage.job();
    // Started here, it has this one processor too.
    let mut peer = Peer::start();
    let client_go = move || {
        let peer = peer.as_mut().map_err(|e| e.clone())?;
        Ok(peer.figure(&job, "nanos")? / 1e3)
    };
    let [kube, wrapped, ours] = stage.lone(Clock::Wall);
    Row {
        unit: "µs",
        variants: vec![kube, Variant { label: CLIENT_GO, run: Box::new(client_go) }, wrapped, ours],
        bars: vec![
            Bar {
                promise: "one after another on one connection vs client-go's",
                judge: |r| (r.ratio(OURS, CLIENT_GO), 1.0),
            },
            Bar {
                promise: "one after another on one connection under kube::Client vs kube's own",
                judge: |r| (r.ratio(WRAPPED, KUBE), 1.0),
            },
            Bar {
                promise: "one after another on one connection vs kube's own",
                judge: |r| (r.ratio(OURS, KUBE), 1.0),
            },
        ],
    }
}

/// Pins this thread, and every thread it starts, to one processor until dropped.
struct Processor {
    before: CpuSet,
}

impl Processor {
    fn only_one() -> Self {
        let before = sched_getaffinity(None).expect("the processors we may use");
        let first = (0..CpuSet::MAX_CPU).find(|at| before.is_set(*at)).expect("a processor");
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one).expect("one processor");
        Self { before }
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        sched_setaffinity(None, &self.before).expect("the processors we had");
    }
}

/// Processor time of the client per request: what a request costs the program that makes it. All
/// clients use HTTP/1.1 here, one request at a time.
pub fn work() -> Row {
    let stage = Stage::new();
    let theirs = stage.job();
    let client_go = move || Ok(peer::figure(&theirs, "worked")? / 1e3);
    let [kube, wrapped, ours] = stage.lone(Clock::Work);
    Row {
        unit: "µs",
        variants: vec![kube, Variant { label: CLIENT_GO, run: Box::new(client_go) }, wrapped, ours],
        bars: vec![
            Bar {
                promise: "the work of a request under kube::Client vs kube's own",
                judge: |r| (r.ratio(WRAPPED, KUBE), 1.0),
            },
            Bar {
                promise: "the work of a request vs kube's own",
                judge: |r| (r.ratio(OURS, KUBE), 1.0),
            },
            Bar {
                promise: "the work of a request vs client-go's",
                judge: |r| (r.ratio(OURS, CLIENT_GO), 1.0),
            },
        ],
    }
}

const KUBE: &str = "kube 5, one at a time";
const CLIENT_GO: &str = "client-go, one at a time";
const WRAPPED: &str = "ours under kube::Client, one at a time";
const OURS: &str = "ours, one at a time";
const KUBE_ABREAST: &str = "kube 5, 32 at once, 32 connections";
const CLIENT_GO_ABREAST: &str = "client-go, 32 at once, HTTP/2";
const OURS_ABREAST: &str = "ours, 32 at once, HTTP/2";

/// A server of each kind, and everybody's client.
struct Stage {
    runtime: Rc<Runtime>,
    scenes: Rc<[Scene; 2]>,
    processor: Option<Rc<Processor>>,
    /// `kube`, `wrapped` and `lone` use HTTP/1.1.
    kube: kube::Client,
    wrapped: kube::Client,
    lone: Client,
    many: Client,
    bare: Bare,
}

impl Stage {
    fn new() -> Self {
        let (scene, old) = (Scene::new(), Scene::old());
        let runtime = runtime();
        let (lone, target) = ours(&old.folder);
        let many = ours(&scene.folder).0;
        let (kube, wrapped, bare) = runtime.block_on(async {
            let wrapped = keyward_kube::wrap(lone.clone(), &target);
            (kube(&old.folder.text()).await, wrapped, bare(&scene).await)
        });
        let (runtime, scenes) = (Rc::new(runtime), Rc::new([scene, old]));
        Self { runtime, scenes, processor: None, kube, wrapped, lone, many, bare }
    }

    /// Servers and clients, and whoever measures them, share one.
    fn on_one_processor() -> Self {
        let processor = Some(Rc::new(Processor::only_one()));
        Self { processor, ..Self::new() }
    }

    /// Requests over HTTP/1.1, one at a time: by kube, by ours under kube's client, by ours.
    fn lone(&self, clock: Clock) -> [Variant; 3] {
        let (kube, wrapped, lone) = (self.kube.clone(), self.wrapped.clone(), self.lone.clone());
        let through = |label, client: kube::Client| {
            self.variant(label, move || {
                let client = client.clone();
                async move { clock.each(REQUESTS, || through_kube(&client)).await }
            })
        };
        let ours = self.variant(OURS, move || {
            let client = lone.clone();
            async move { clock.each(REQUESTS, || ask(&client)).await }
        });
        [through(KUBE, kube), through(WRAPPED, wrapped), ours]
    }

    fn job(&self) -> Value {
        json!({ "work": "ask", "config": self.scenes[1].folder.config, "turns": REQUESTS })
    }

    /// Several at once, to the server that speaks HTTP/2.
    fn abreast_job(&self) -> Value {
        let config = &self.scenes[0].folder.config;
        json!({ "work": "ask", "config": config, "turns": REQUESTS, "callers": ABREAST })
    }

    fn variant<F>(&self, label: &'static str, run: impl Fn() -> F + 'static) -> Variant
    where
        F: Future<Output = Result<f64, String>>,
    {
        let runtime = self.runtime.clone();
        let kept = (self.scenes.clone(), self.processor.clone());
        let run = move || {
            let _kept = &kept;
            runtime.block_on(run())
        };
        Variant { label, run: Box::new(run) }
    }
}

/// From a kubeconfig's text to the first answer: client, plugin, handshake, request.
pub fn first() -> Row {
    let scene = Rc::new(Scene::new());
    let job = json!({ "work": "first", "config": scene.folder.config, "turns": BEGINNINGS });
    let (one, two, three) = (scene.clone(), scene.clone(), scene);
    Row {
        unit: "ms",
        variants: vec![
            Variant {
                label: "kube 5",
                run: Box::new(move || {
                    beginnings(|runtime| {
                        runtime
                            .block_on(async { through_kube(&kube(&one.folder.text()).await).await })
                    })
                }),
            },
            Variant { label: "client-go", run: Box::new(move || Ok(peer::nanos(&job)? / 1e6)) },
            Variant {
                label: "ours under kube::Client",
                run: Box::new(move || {
                    beginnings(|runtime| {
                        runtime.block_on(async {
                            let (client, target) = ours(&two.folder);
                            through_kube(&keyward_kube::wrap(client, &target)).await
                        })
                    })
                }),
            },
            Variant {
                label: "ours",
                run: Box::new(move || {
                    beginnings(|runtime| {
                        runtime.block_on(async { ask(&ours(&three.folder).0).await })
                    })
                }),
            },
        ],
        bars: vec![
            Bar {
                promise: "from nothing to the first answer under kube::Client vs kube's own",
                judge: |r| (r.ratio("ours under kube::Client", "kube 5"), 1.0),
            },
            Bar {
                promise: "from nothing to the first answer vs kube's own",
                judge: |r| (r.ratio("ours", "kube 5"), 1.0),
            },
            Bar {
                promise: "from nothing to the first answer vs client-go's",
                judge: |r| (r.ratio("ours", "client-go"), 1.0),
            },
        ],
    }
}

/// One thread, as for a small program.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// kube's reading of a kubeconfig.
pub async fn theirs(text: &str) -> kube::Config {
    let config = Theirs::from_yaml(text).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(config, &options).await.expect("a configuration")
}

async fn kube(text: &str) -> kube::Client {
    kube::Client::try_from(theirs(text).await).expect("a client")
}

fn ours(folder: &Folder) -> (Client, Target) {
    let surroundings = Surroundings::process();
    let config = Kubeconfig::from_bytes(folder.text().as_bytes()).expect("a kubeconfig");
    let target = config.resolve(&Overrides::default(), &surroundings).expect("a target");
    let sources = Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver));
    let client = Client::builder().open(&target, &Rules::default(), &sources);
    (client.expect("a client"), target)
}

/// A request by kube's client, and its answer.
pub async fn through_kube(client: &kube::Client) -> Result<(), String> {
    let request = Request::get("/healthz").body(Vec::new()).map_err(|e| e.to_string())?;
    let text = client.request_text(request).await.map_err(|e| e.to_string())?;
    expect(&text)
}

/// A request by our client, and its answer.
pub async fn ask(client: &Client) -> Result<(), String> {
    let response = client.get("/healthz").await.map_err(|e| e.to_string())?;
    expect(&response.into_body().text().await.map_err(|e| e.to_string())?)
}

/// What HTTP/2 costs by itself: hyper on one connection, with a header that is ready.
async fn bare(scene: &Scene) -> Bare {
    let mut roots = RootCertStore::empty();
    roots.add(scene.server.authority().der().clone()).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let url = scene.server.url();
    let address = url.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let stream = TcpStream::connect(&address).await.expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    let stream = TokioIo::new(stream.expect("a handshake"));
    let (sender, connection) =
        handshake(TokioExecutor::new(), stream).await.expect("an HTTP/2 connection");
    tokio::spawn(connection);
    Bare { sender, url: format!("https://{address}/healthz") }
}

#[derive(Clone)]
struct Bare {
    sender: SendRequest<Empty<Bytes>>,
    url: String,
}

async fn ask_barely(bare: &Bare) -> Result<(), String> {
    let request = Request::get(&bare.url)
        .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
        .body(Empty::new())
        .map_err(|e| e.to_string())?;
    let response = bare.sender.clone().send_request(request).await.map_err(|e| e.to_string())?;
    let body = response.into_body().collect().await.map_err(|e| e.to_string())?.to_bytes();
    expect(&String::from_utf8_lossy(&body))
}

fn expect(text: &str) -> Result<(), String> {
    if text == "ok" { Ok(()) } else { Err("the server did not say `ok`".to_owned()) }
}

/// By what a request is measured.
#[derive(Clone, Copy)]
enum Clock {
    Wall,
    /// What this thread has a processor for.
    Work,
}

impl Clock {
    /// Microseconds of one request, one after another.
    async fn each<F>(self, requests: u32, once: impl FnMut() -> F) -> Result<f64, String>
    where
        F: Future<Output = Result<(), String>>,
    {
        let (begin, before) = (Instant::now(), worked());
        repeat(requests, once).await?;
        let took = match self {
            Self::Wall => begin.elapsed(),
            Self::Work => worked().saturating_sub(before),
        };
        Ok(took.as_secs_f64() * 1e6 / f64::from(requests))
    }
}

async fn repeat<F>(requests: u32, mut once: impl FnMut() -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    for _ in 0..requests {
        once().await?;
    }
    Ok(())
}

/// Repeats a request with several at once.
async fn abreast<F>(once: impl Fn() -> F) -> Result<f64, String>
where
    F: Future<Output = Result<(), String>>,
{
    let begin = Instant::now();
    let lanes = (0..ABREAST).map(|_| Clock::Wall.each(REQUESTS / ABREAST, &once));
    futures_util::future::try_join_all(lanes).await?;
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(REQUESTS / ABREAST * ABREAST))
}

/// Milliseconds of one beginning.
fn beginnings(mut once: impl FnMut(&Runtime) -> Result<(), String>) -> Result<f64, String> {
    let runtime = runtime();
    let begin = Instant::now();
    for _ in 0..BEGINNINGS {
        once(&runtime)?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3 / f64::from(BEGINNINGS))
}
