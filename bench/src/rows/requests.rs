//! Requests to a server over TLS, beside kube with the same server and the same plugin.

use std::time::Instant;

use http::Request;
use keyward::Client;
use keyward_host::{
    Kubeconfig, Overrides, Sources, Surroundings, Target, clock::SystemClock, observer::Nobody,
    rules::Rules,
};
use kube::config::{KubeConfigOptions, Kubeconfig as Theirs};
use tokio::runtime::Runtime;

use super::scene::{Folder, Scene};
use crate::measure::{Bar, Row, Variant};

/// Requests in one round.
const REQUESTS: u32 = 2_000;

/// Requests under way at once where there are several.
const ABREAST: u32 = 32;

/// Times in one round that a client is made from nothing.
const BEGINNINGS: u32 = 20;

/// On a connection that is there.
pub fn connection() -> Row {
    let scene = Scene::new();
    let runtime = std::rc::Rc::new(runtime());
    let (kube, client, wrapped) = runtime.block_on(async {
        let (client, target) = ours(&scene.folder);
        (peer(&scene.folder).await, client.clone(), keyward_kube::wrap(client, &target))
    });
    let (plain, abreast) = (client.clone(), client);
    let on = |runtime: &std::rc::Rc<Runtime>| runtime.clone();
    let (one, two, three, four) = (on(&runtime), on(&runtime), on(&runtime), runtime);
    Row {
        unit: "µs",
        variants: vec![
            Variant {
                label: "kube 5 (HTTP/1.1)",
                run: Box::new(move || {
                    let _kept = &scene;
                    one.block_on(each(REQUESTS, || through_kube(&kube)))
                }),
            },
            Variant {
                label: "ours under kube::Client",
                run: Box::new(move || two.block_on(each(REQUESTS, || through_kube(&wrapped)))),
            },
            Variant {
                label: "ours",
                run: Box::new(move || three.block_on(each(REQUESTS, || ask(&plain)))),
            },
            Variant {
                label: "ours, 32 at once on one connection",
                run: Box::new(move || four.block_on(many(&abreast))),
            },
        ],
        bars: vec![
            Bar {
                promise: "a request on one connection under kube::Client, beside kube's own",
                judge: |r| (r.ratio("ours under kube::Client", "kube 5 (HTTP/1.1)"), 1.0),
            },
            Bar {
                promise: "a request on one connection, beside kube's own",
                judge: |r| (r.ratio("ours", "kube 5 (HTTP/1.1)"), 1.0),
            },
            Bar {
                promise: "what one connection carries, beside kube's own",
                judge: |r| {
                    (r.ratio("ours, 32 at once on one connection", "kube 5 (HTTP/1.1)"), 1.0)
                },
            },
        ],
    }
}

/// From a kubeconfig's text to the first answer: client, plugin, handshake, request.
pub fn first() -> Row {
    let scene = std::rc::Rc::new(Scene::new());
    let (one, two, three) = (scene.clone(), scene.clone(), scene);
    Row {
        unit: "ms",
        variants: vec![
            Variant {
                label: "kube 5",
                run: Box::new(move || {
                    beginnings(|runtime| {
                        runtime.block_on(async { through_kube(&peer(&one.folder).await).await })
                    })
                }),
            },
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
                promise: "from nothing to the first answer under kube::Client, beside kube's own",
                judge: |r| (r.ratio("ours under kube::Client", "kube 5"), 1.0),
            },
            Bar {
                promise: "from nothing to the first answer, beside kube's own",
                judge: |r| (r.ratio("ours", "kube 5"), 1.0),
            },
        ],
    }
}

/// One thread, as for a small program.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// kube's reading of the folder's kubeconfig.
pub async fn theirs(folder: &Folder) -> kube::Config {
    let config = Theirs::from_yaml(&folder.text()).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(config, &options).await.expect("a configuration")
}

async fn peer(folder: &Folder) -> kube::Client {
    kube::Client::try_from(theirs(folder).await).expect("a client")
}

fn ours(folder: &Folder) -> (Client, Target) {
    let surroundings = Surroundings::process();
    let config = Kubeconfig::from_bytes(folder.text().as_bytes()).expect("a kubeconfig");
    let target = config.resolve(&Overrides::default(), &surroundings).expect("a target");
    let sources = Sources::new(std::sync::Arc::new(SystemClock), std::sync::Arc::new(Nobody));
    let client = Client::builder().open(&target, &Rules::default(), &sources);
    (client.expect("a client"), target)
}

async fn through_kube(client: &kube::Client) -> Result<(), String> {
    let request = Request::get("/healthz").body(Vec::new()).map_err(|e| e.to_string())?;
    let text = client.request_text(request).await.map_err(|e| e.to_string())?;
    expect(&text)
}

async fn ask(client: &Client) -> Result<(), String> {
    let response = client.get("/healthz").await.map_err(|e| e.to_string())?;
    expect(&response.into_body().text().await.map_err(|e| e.to_string())?)
}

fn expect(text: &str) -> Result<(), String> {
    if text == "ok" { Ok(()) } else { Err("the server did not say `ok`".to_owned()) }
}

/// Microseconds of one request, one after another.
async fn each<F>(requests: u32, mut once: impl FnMut() -> F) -> Result<f64, String>
where
    F: Future<Output = Result<(), String>>,
{
    let begin = Instant::now();
    for _ in 0..requests {
        once().await?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(requests))
}

/// The same with several under way.
async fn many(client: &Client) -> Result<f64, String> {
    let begin = Instant::now();
    let lanes = (0..ABREAST).map(|_| each(REQUESTS / ABREAST, || ask(client)));
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
