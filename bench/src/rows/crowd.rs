//! Everybody at once: requests that come while there is no valid credential.
//!
//! Nearly all of their wait is the plugin's own time, which is nobody's merit: it would make any two
//! clients look alike. So the plugin writes down when it began and when it was done, and what is judged
//! is the rest of the wait: to start it, to read its answer, and to serve everybody who waits for it.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use keyward::{Origin, bearer};
use kube::client::ConfigExt;
use serde_json::json;
use tokio::{
    runtime::Runtime,
    sync::{Semaphore, mpsc},
};
use tower::{BoxError, Layer, Service, ServiceExt};

use super::{
    cached,
    layer::{Asked, Nothing, request},
    requests::theirs,
    scene::Folder,
};
use crate::{
    measure::{Bar, Row, Variant},
    peer,
};

/// How long 99 of 100 requests wait at most, from the moment they are all let go, without the time that
/// the plugin itself takes. Each round is one run of the plugin, for every client, or the variant fails.
pub fn row() -> Row {
    let bars = vec![
        Bar {
            promise: "what 10,000 callers wait besides the plugin's own time vs client-go's",
            judge: |r| (r.ratio("ours: 10,000", "client-go: 10,000"), 1.0),
        },
        Bar {
            promise: "what 10,000 callers wait besides the plugin's own time vs kube's",
            judge: |r| (r.ratio("ours: 10,000", "kube 5: 10,000"), 1.0),
        },
        Bar {
            promise: "what 100 callers wait besides the plugin's own time vs client-go's",
            judge: |r| (r.ratio("ours: 100", "client-go: 100"), 1.0),
        },
        Bar {
            promise: "what 100 callers wait besides the plugin's own time vs kube's",
            judge: |r| (r.ratio("ours: 100", "kube 5: 100"), 1.0),
        },
        Bar {
            promise: "runs of the plugin for 10,000 callers",
            judge: |_| (runs(10_000).unwrap_or(f64::INFINITY), 1.0),
        },
    ];
    Row { unit: "ms", variants: variants(Part::Rest), bars }
}

/// How often the plugin runs for so many of our callers.
fn runs(callers: usize) -> Result<f64, String> {
    let stage = Stage::new();
    let origin = Origin::parse(Folder::SERVER).map_err(|e| e.to_string())?;
    let layer = bearer::Layer::new(cached::source(&stage.folder), origin);
    stage.crowd(callers, &layer.layer(Nothing))?;
    let lines = fs::read_to_string(&stage.runs).map_err(|e| e.to_string())?;
    #[expect(clippy::cast_precision_loss, reason = "one, it is hoped")]
    let count = lines.lines().count() as f64;
    Ok(count)
}

/// How long 99 of 100 requests wait, including the plugin's own time. No bar: [`row`] has those.
pub fn whole() -> Row {
    Row { unit: "ms", variants: variants(Part::Whole), bars: Vec::new() }
}

/// Of a wait.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    /// Without the plugin's own time.
    Rest,
}

fn variants(part: Part) -> Vec<Variant> {
    let stage = Rc::new(Stage::new());
    let bare = Rc::clone(&stage);
    vec![
        Variant { label: "the plugin alone", run: Box::new(move || bare.alone(part)) },
        client_go("client-go: 100", &stage, 100, part),
        kube("kube 5: 100", &stage, 100, part),
        ours("ours: 100", &stage, 100, part),
        client_go("client-go: 1,000", &stage, 1_000, part),
        kube("kube 5: 1,000", &stage, 1_000, part),
        ours("ours: 1,000", &stage, 1_000, part),
        client_go("client-go: 10,000", &stage, 10_000, part),
        kube("kube 5: 10,000", &stage, 10_000, part),
        ours("ours: 10,000", &stage, 10_000, part),
    ]
}

fn ours(label: &'static str, stage: &Rc<Stage>, callers: usize, part: Part) -> Variant {
    let stage = Rc::clone(stage);
    let run = move || {
        let origin = Origin::parse(Folder::SERVER).map_err(|e| e.to_string())?;
        let layer = bearer::Layer::new(cached::source(&stage.folder), origin);
        stage.once(part, || stage.crowd(callers, &layer.layer(Nothing)))
    };
    Variant { label, run: Box::new(run) }
}

/// kube runs the plugin when a client is made and knows no client without credential; so that run answers
/// with one that is over.
fn kube(label: &'static str, stage: &Rc<Stage>, callers: usize, part: Part) -> Variant {
    let stage = Rc::clone(stage);
    let run = move || {
        fs::write(&stage.past, "").map_err(|e| e.to_string())?;
        let config = stage.runtime.block_on(theirs(&stage.folder.text()));
        let layer = config.auth_layer().map_err(|e| e.to_string())?.ok_or("kube has no layer")?;
        fs::remove_file(&stage.past).map_err(|e| e.to_string())?;
        stage.once(part, || stage.crowd(callers, &layer.layer(Nothing)))
    };
    Variant { label, run: Box::new(run) }
}

fn client_go(label: &'static str, stage: &Rc<Stage>, callers: usize, part: Part) -> Variant {
    let stage = Rc::clone(stage);
    let job = json!({ "work": "crowd", "command": stage.folder.plugin, "callers": callers });
    let measure = move || Ok(Duration::from_secs_f64(peer::nanos(&job)? / 1e9));
    Variant { label, run: Box::new(move || stage.once(part, &measure)) }
}

struct Stage {
    folder: Folder,
    /// A line for each run: when it began and when it was done, in microseconds.
    runs: PathBuf,
    /// While this file is there, the plugin answers at once with a credential that is over.
    past: PathBuf,
    runtime: Runtime,
}

impl Stage {
    fn new() -> Self {
        let folder = Folder::running(PLUGIN);
        let runs = folder.plugin.with_file_name("plugin.runs");
        let past = folder.plugin.with_file_name("plugin.past");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        Self { folder, runs, past, runtime: runtime.expect("a runtime") }
    }

    /// Milliseconds of a wait in which the plugin ran once.
    fn once(
        &self,
        part: Part,
        measure: impl FnOnce() -> Result<Duration, String>,
    ) -> Result<f64, String> {
        fs::write(&self.runs, "").map_err(|e| e.to_string())?;
        let wait = measure()?.as_secs_f64() * 1e3;
        let runs = fs::read_to_string(&self.runs).map_err(|e| e.to_string())?;
        let lines: Vec<&str> = runs.lines().collect();
        let [run] = lines[..] else {
            return Err(format!("the plugin ran {} times", lines.len()));
        };
        let mut times = run.split(' ').map(str::parse::<f64>);
        let (Some(Ok(begin)), Some(Ok(end))) = (times.next(), times.next()) else {
            return Err(format!("the plugin wrote `{run}`: needs bash 5 or newer"));
        };
        Ok(match part {
            Part::Whole => wait,
            Part::Rest => wait - (end - begin) / 1e3,
        })
    }

    fn alone(&self, part: Part) -> Result<f64, String> {
        self.once(part, || {
            let begin = Instant::now();
            let status = Command::new(&self.folder.plugin)
                .stdout(Stdio::null())
                .status()
                .map_err(|e| e.to_string())?;
            assert!(status.success(), "the bench's plugin works");
            Ok(begin.elapsed())
        })
    }

    fn crowd<S>(&self, callers: usize, service: &S) -> Result<Duration, String>
    where
        S: Service<Asked, Error = BoxError> + Clone + Send + 'static,
        S::Future: Send,
    {
        self.runtime.block_on(async {
            let gate = Arc::new(Semaphore::new(0));
            let (coming, mut missing) = mpsc::channel::<()>(1);
            let (waiting, mut left) = mpsc::channel::<()>(1);
            let tasks: Vec<_> = (0..callers)
                .map(|_| {
                    let (service, request) = (service.clone(), request());
                    let (gate, coming) = (Arc::clone(&gate), coming.clone());
                    let waiting = waiting.clone();
                    tokio::spawn(async move {
                        drop(coming);
                        // Closed, it lets everybody go.
                        let _ = gate.acquire().await;
                        let got = service.oneshot(request).await;
                        let served = got.map(|_| Instant::now()).map_err(|e| e.to_string());
                        drop(waiting);
                        served
                    })
                })
                .collect();
            drop(coming);
            let _ = missing.recv().await;
            let begin = Instant::now();
            gate.close();
            // Woken once, when all are served: to be woken by each of them would be most of the work.
            drop(waiting);
            let _ = left.recv().await;
            let mut waits = Vec::with_capacity(callers);
            for task in tasks {
                let served = task.await.map_err(|e| e.to_string())??;
                waits.push(served.duration_since(begin));
            }
            waits.sort();
            Ok(waits[waits.len() * 99 / 100])
        })
    }
}

/// Long enough for everybody to come meanwhile. Only bash tells the time without another process.
const PLUGIN: &str = r#"#!/bin/bash
answer() {
  echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"'$1'"}}'
}
if [ -e "$0.past" ]; then
  answer 2000-01-01T00:00:00Z
  exit
fi
begin=${EPOCHREALTIME/[^0-9]/}
sleep 0.1
answer 2099-01-01T00:00:00Z
echo "$begin ${EPOCHREALTIME/[^0-9]/}" >> "$0.runs"
"#;
