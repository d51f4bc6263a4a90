//! The local proxy beside `kubectl proxy` and nginx as a reverse proxy, before the same nginx (TLS, HTTP/2), under the
//! same load.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    load::{self, Load},
    measure::{Bar, Row, Variant},
    scene::Scene,
};

/// Connections at once, each with one request under way.
const CONNECTIONS: usize = 32;
const ROUND: Duration = Duration::from_millis(800);

/// The servers stand for all rows: starting them is not what is measured.
static SCENE: Mutex<Option<Result<Arc<Scene>, String>>> = Mutex::new(None);

fn scene() -> Result<Arc<Scene>, String> {
    let mut scene = SCENE.lock().unwrap_or_else(PoisonError::into_inner);
    scene.get_or_insert_with(|| Scene::open().map(Arc::new)).clone()
}

/// Ends the servers: what is static is never dropped.
pub fn close() {
    SCENE.lock().unwrap_or_else(PoisonError::into_inner).take();
}

fn kubectl() -> Result<Load, String> {
    load::run(scene()?.kubectl.as_ref().map_err(Clone::clone)?, "/small", CONNECTIONS, ROUND)
}

fn nginx() -> Result<Load, String> {
    load::run(&scene()?.nginx, "/small", CONNECTIONS, ROUND)
}

fn ours() -> Result<Load, String> {
    load::run(&scene()?.ours, "/small", CONNECTIONS, ROUND)
}

const KUBECTL: &str = "kubectl proxy (plain HTTP)";
const NGINX: &str = "nginx (TLS, TLS)";
const OURS: &str = "ours (TLS, TLS)";

fn variants(
    kubectl_figure: impl FnMut() -> Result<f64, String> + 'static,
    nginx_figure: impl FnMut() -> Result<f64, String> + 'static,
    our_figure: impl FnMut() -> Result<f64, String> + 'static,
) -> Vec<Variant> {
    vec![
        Variant { label: KUBECTL, run: Box::new(kubectl_figure) },
        Variant { label: NGINX, run: Box::new(nginx_figure) },
        Variant { label: OURS, run: Box::new(our_figure) },
    ]
}

/// Requests per second, as microseconds for one.
pub fn requests() -> Row {
    Row {
        unit: "us/req",
        variants: variants(
            || Ok(1e6 / kubectl()?.rate),
            || Ok(1e6 / nginx()?.rate),
            || Ok(1e6 / ours()?.rate),
        ),
        bars: vec![
            Bar {
                promise: "at least 3.5 times the requests per second of kubectl proxy",
                judge: |r| (r.ratio(OURS, KUBECTL), 1.0 / 3.5),
            },
            Bar {
                promise: "at most 1.5 times nginx's time for a request",
                judge: |r| (r.ratio(OURS, NGINX), 1.5),
            },
        ],
    }
}

/// The slowest of a hundred.
pub fn latency() -> Row {
    Row {
        unit: "ms p99",
        variants: variants(
            || Ok(kubectl()?.p99 * 1e3),
            || Ok(nginx()?.p99 * 1e3),
            || Ok(ours()?.p99 * 1e3),
        ),
        bars: vec![Bar {
            promise: "p99 at most 0.3 of kubectl proxy's",
            judge: |r| (r.ratio(OURS, KUBECTL), 0.3),
        }],
    }
}

/// Resident memory at its highest under load.
pub fn memory() -> Row {
    Row {
        unit: "MB",
        variants: variants(
            || {
                kubectl()?;
                scene()?.kubectl.as_ref().map_err(Clone::clone)?.memory()
            },
            || {
                nginx()?;
                scene()?.nginx.memory()
            },
            || {
                ours()?;
                scene()?.ours.memory()
            },
        ),
        bars: vec![Bar {
            promise: "at most a third of the memory of kubectl proxy",
            judge: |r| (r.ratio(OURS, KUBECTL), 1.0 / 3.0),
        }],
    }
}

/// One gigabyte in one response.
pub fn stream() -> Row {
    Row {
        unit: "ms",
        variants: vec![
            Variant {
                label: "direct (TLS)",
                run: Box::new(|| Ok(load::stream(&scene()?.direct, "/big")? * 1e3)),
            },
            Variant {
                label: NGINX,
                run: Box::new(|| Ok(load::stream(&scene()?.nginx, "/big")? * 1e3)),
            },
            Variant {
                label: OURS,
                run: Box::new(|| Ok(load::stream(&scene()?.ours, "/big")? * 1e3)),
            },
        ],
        bars: vec![Bar {
            promise: "a stream of 1 GB in at most 1.6 times the direct time",
            judge: |r| (r.ratio(OURS, "direct (TLS)"), 1.6),
        }],
    }
}
