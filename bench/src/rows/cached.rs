//! Handing out a credential that is there: what every request pays. Ours can be had by itself; the peers
//! keep theirs in a layer around requests, so beside them stands a request through our layer.

use std::{
    hint::black_box,
    sync::{Arc, Barrier},
    thread,
};

use keyward::{Origin, bearer};
use keyward_host::{
    Credential, Kubeconfig, NoopObserver, Overrides, Plan, PlanSettings, Source, Sources,
    rules::Rules,
};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use kube::client::ConfigExt;
use serde_json::{Value, json};
use tower::{BoxError, Layer, Service, ServiceExt};

use super::{
    layer::{self, Asked, Nothing, request},
    requests::{runtime, theirs},
    scene::Folder,
};
use crate::{
    measure::{Bar, Row, Variant, worked},
    peer,
};

/// Calls in one round.
const CALLS: u32 = 2_000_000;

/// One thread and two, beside the clone of a bare `Arc`.
pub fn row() -> Row {
    let folder = Folder::new();
    let source = source(&folder);
    let bare = source.credential_blocking().expect("the bench's plugin works");
    let shared = Arc::clone(&bare);
    let (one, two) = (source.clone(), source.clone());
    let layer = |label, threads| {
        let origin = Origin::parse(Folder::SERVER).expect("an origin");
        let service = bearer::Layer::new(source.clone(), origin).layer(Nothing);
        Variant { label, run: Box::new(move || Ok(per_request(threads, &service))) }
    };
    Row {
        unit: "ns",
        variants: vec![
            Variant {
                label: "bare Arc clone, one thread",
                run: Box::new(move || Ok(per_call(1, &bare, Arc::clone))),
            },
            Variant {
                label: "bare Arc clone, two threads",
                run: Box::new(move || Ok(per_call(2, &shared, Arc::clone))),
            },
            // What two threads cost each other on this machine where they share nothing.
            Variant { label: "a sum, one thread", run: Box::new(|| Ok(per_call(1, &7, sum))) },
            Variant { label: "a sum, two threads", run: Box::new(|| Ok(per_call(2, &7, sum))) },
            client_go(GO_NONE, &folder, 1, true),
            client_go(GO_ONE, &folder, 1, false),
            client_go(GO_TWO, &folder, 2, false),
            Variant { label: NONE, run: Box::new(|| Ok(per_request(1, &Nothing))) },
            kube(KUBE_ONE, &folder, 1),
            kube(KUBE_TWO, &folder, 2),
            layer(OUR_ONE, 1),
            layer(OUR_TWO, 2),
            Variant {
                label: "ours, one thread",
                run: Box::new(move || Ok(per_call(1, &one, hand_out))),
            },
            Variant {
                label: "ours, two threads",
                run: Box::new(move || {
                    let _kept = &folder;
                    Ok(per_call(2, &two, hand_out))
                }),
            },
        ],
        bars: vec![
            Bar {
                promise: "a request with a cached credential vs client-go's",
                judge: |r| (r.middle([OUR_ONE, NONE, GO_ONE, GO_NONE], beyond), 1.0),
            },
            Bar {
                promise: "the same on two threads",
                judge: |r| (r.middle([OUR_TWO, NONE, GO_TWO, GO_NONE], beyond), 1.0),
            },
            Bar {
                promise: "a request with a cached credential vs kube's",
                judge: |r| (r.middle([OUR_ONE, NONE, KUBE_ONE, NONE], beyond), 1.0),
            },
            Bar {
                promise: "the same on two threads vs kube's",
                judge: |r| (r.middle([OUR_TWO, NONE, KUBE_TWO, NONE], beyond), 1.0),
            },
            Bar {
                promise: "a cached credential on one thread under 60 ns",
                judge: |r| (r.median("ours, one thread"), 60.0),
            },
            Bar {
                promise: "on two threads at most 1.5 times that per call",
                judge: |r| (r.ratio("ours, two threads", "ours, one thread"), 1.5),
            },
            Bar { promise: "allocations in 1,000 calls", judge: |_| (allocations(), 0.0) },
            Bar {
                promise: "allocations of a request through our layer (at most: those of client-go)",
                judge: |_| (layer::allocations(), client_go_allocations()),
            },
        ],
    }
}

const NONE: &str = "no layer";
const GO_NONE: &str = "no layer, in Go";
const GO_ONE: &str = "client-go's layer, one thread";
const GO_TWO: &str = "client-go's layer, two threads";
const KUBE_ONE: &str = "kube 5's layer, one thread";
const KUBE_TWO: &str = "kube 5's layer, two threads";
const OUR_ONE: &str = "our layer, one thread";
const OUR_TWO: &str = "our layer, two threads";

/// What two layers cost beyond none, one beside the other.
fn beyond([ours, none, theirs, nothing]: [f64; 4]) -> f64 {
    (ours - none) / (theirs - nothing)
}

fn client_go(label: &'static str, folder: &Folder, threads: u32, bare: bool) -> Variant {
    let job = client_go_job(folder, threads, bare);
    Variant { label, run: Box::new(move || peer::nanos(&job)) }
}

fn client_go_job(folder: &Folder, threads: u32, bare: bool) -> Value {
    json!({
        "work": "request",
        "command": folder.plugin,
        "turns": CALLS / 10,
        "threads": threads,
        "bare": bare,
    })
}

/// None when it is missing, and then nothing is as good.
fn client_go_allocations() -> f64 {
    peer::figure(&client_go_job(&Folder::new(), 1, false), "allocations").unwrap_or(f64::NAN)
}

/// Through kube's layer, which is where it keeps its credential.
fn kube(label: &'static str, folder: &Folder, threads: usize) -> Variant {
    let config = runtime().block_on(theirs(&folder.text()));
    let layer = config.auth_layer().expect("the bench's plugin works").expect("a token");
    let service = layer.layer(Nothing);
    Variant { label, run: Box::new(move || Ok(per_request(threads, &service))) }
}

/// A source over the bench's plugin.
pub fn source(folder: &Folder) -> Source {
    let surroundings = Surroundings::process();
    let config = Kubeconfig::load(&surroundings, Some(&folder.config)).expect("a kubeconfig");
    let target = config.resolve(&Overrides::default(), &surroundings).expect("a target");
    let plan = Plan::new(target, &Rules::default(), &surroundings, PlanSettings::default());
    Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver)).open(&plan.expect("a plan"))
}

fn hand_out(source: &Source) -> Arc<Credential> {
    source.current().expect("it was fetched before")
}

/// Some arithmetic, as long as handing out a credential takes.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "called as the others are")]
fn sum(seed: &u64) -> u64 {
    (0..16).fold(*seed, |sum, turn| sum.wrapping_mul(6_364_136_223_846_793_005).rotate_left(turn))
}

/// Nanoseconds that one call takes a thread while `threads` of them call. It is the thread's own time:
/// waiting for a cache line is in it, waiting for a processor that others use is not.
fn per_call<T: Sync, R>(threads: usize, subject: &T, call: fn(&T) -> R) -> f64 {
    let prepare = || {
        || {
            for _ in 0..CALLS {
                black_box(call(black_box(subject)));
            }
        }
    };
    slowest(threads, prepare) * 1e9 / f64::from(CALLS)
}

/// Allocations of a request through a service. Building the request is not counted; the thread that
/// sends it also builds it, so that no memory is freed by another thread.
fn per_request<S>(threads: usize, service: &S) -> f64
where
    S: Service<Asked, Error = BoxError> + Clone + Send + Sync,
{
    const REQUESTS: u32 = CALLS / 100;
    let prepare = || {
        let mut service = service.clone();
        let requests: Vec<Asked> = (0..REQUESTS).map(|_| request()).collect();
        let runtime = runtime();
        move || {
            runtime.block_on(async {
                for request in requests {
                    let response = service.ready().await.expect("always ready").call(request);
                    assert!(response.await.is_ok(), "an answer");
                }
            });
        }
    };
    slowest(threads, prepare) * 1e9 / f64::from(REQUESTS)
}

/// Seconds that the slowest thread has a processor for its work, after each has prepared it.
fn slowest<W: FnOnce()>(threads: usize, prepare: impl Fn() -> W + Sync) -> f64 {
    let (barrier, prepare) = (&Barrier::new(threads), &prepare);
    let slowest = thread::scope(|scope| {
        let start = |_| {
            scope.spawn(move || {
                let work = prepare();
                barrier.wait();
                let begin = worked();
                work();
                worked().saturating_sub(begin)
            })
        };
        let workers: Vec<_> = (0..threads).map(start).collect();
        workers.into_iter().filter_map(|w| w.join().ok()).max().unwrap_or_default()
    });
    slowest.as_secs_f64()
}

fn allocations() -> f64 {
    let folder = Folder::new();
    let source = source(&folder);
    source.credential_blocking().expect("the bench's plugin works");
    drop(hand_out(&source));
    let info = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            black_box(source.current());
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "a count near zero")]
    let count = info.count_total as f64;
    count
}
