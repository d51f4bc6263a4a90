//! Everybody at once: callers who come while there is no valid credential.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    runtime::Runtime,
    sync::{Semaphore, mpsc},
};

use super::{cached, scene::Folder};
use crate::{
    measure::{Bar, Row, Variant},
    peer,
};

/// How long 99 of 100 callers wait at most, from the moment they are all let go, beside client-go. Each
/// round is one run of the plugin, or the variant fails.
pub fn row() -> Row {
    let stage = Rc::new(Stage::new());
    let bare = Rc::clone(&stage);
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: "the plugin alone", run: Box::new(move || bare.alone()) },
            client_go("client-go: 100", &stage, 100),
            ours("ours: 100", &stage, 100),
            client_go("client-go: 1,000", &stage, 1_000),
            ours("ours: 1,000", &stage, 1_000),
            client_go("client-go: 10,000", &stage, 10_000),
            ours("ours: 10,000", &stage, 10_000),
        ],
        bars: vec![
            Bar {
                promise: "the wait of 10,000 callers beside client-go's",
                judge: |r| (r.ratio("ours: 10,000", "client-go: 10,000"), 1.0),
            },
            Bar {
                promise: "the wait of 100 callers beside client-go's",
                judge: |r| (r.ratio("ours: 100", "client-go: 100"), 1.0),
            },
        ],
    }
}

fn ours(label: &'static str, stage: &Rc<Stage>, callers: usize) -> Variant {
    let stage = Rc::clone(stage);
    Variant { label, run: Box::new(move || stage.once(|| Ok(stage.ours(callers)?.as_secs_f64()))) }
}

fn client_go(label: &'static str, stage: &Rc<Stage>, callers: usize) -> Variant {
    let stage = Rc::clone(stage);
    let job = json!({ "work": "crowd", "command": stage.folder.plugin, "callers": callers });
    Variant { label, run: Box::new(move || stage.once(|| Ok(peer::nanos(&job)? / 1e9))) }
}

struct Stage {
    folder: Folder,
    /// A line for each run.
    runs: PathBuf,
    runtime: Runtime,
}

impl Stage {
    fn new() -> Self {
        let folder = Folder::running(PLUGIN);
        let runs = folder.plugin.with_file_name("plugin.runs");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        Self { folder, runs, runtime: runtime.expect("a runtime") }
    }

    /// Milliseconds of one measurement in which the plugin ran once.
    fn once(&self, measure: impl FnOnce() -> Result<f64, String>) -> Result<f64, String> {
        fs::write(&self.runs, "").map_err(|e| e.to_string())?;
        let seconds = measure()?;
        let runs = fs::read_to_string(&self.runs).map_err(|e| e.to_string())?.lines().count();
        if runs == 1 { Ok(seconds * 1e3) } else { Err(format!("the plugin ran {runs} times")) }
    }

    fn alone(&self) -> Result<f64, String> {
        self.once(|| {
            let begin = Instant::now();
            let status = Command::new(&self.folder.plugin)
                .stdout(Stdio::null())
                .status()
                .map_err(|e| e.to_string())?;
            assert!(status.success(), "the bench's plugin works");
            Ok(begin.elapsed().as_secs_f64())
        })
    }

    fn ours(&self, callers: usize) -> Result<Duration, String> {
        let source = cached::source(&self.folder);
        self.runtime.block_on(async {
            let gate = Arc::new(Semaphore::new(0));
            let (coming, mut missing) = mpsc::channel::<()>(1);
            let tasks: Vec<_> = (0..callers)
                .map(|_| {
                    let (source, gate) = (source.clone(), Arc::clone(&gate));
                    let coming = coming.clone();
                    tokio::spawn(async move {
                        drop(coming);
                        // Closed, it lets everybody go.
                        let _ = gate.acquire().await;
                        let got = source.credential().await;
                        got.map(|_| Instant::now()).map_err(|e| e.to_string())
                    })
                })
                .collect();
            drop(coming);
            let _ = missing.recv().await;
            let begin = Instant::now();
            gate.close();
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

/// Long enough for everybody to come meanwhile.
const PLUGIN: &str = r#"#!/bin/sh
echo run >> "$0.runs"
sleep 0.1
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'
"#;
