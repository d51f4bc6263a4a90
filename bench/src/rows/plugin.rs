//! Running a plugin: ours beside the bare spawn-read-wait of the same program.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use keyward_process::runner::{Cancel, Invocation, run};
use kube::client::ConfigExt;
use serde_json::json;

use super::{
    requests::{runtime, theirs},
    scene::Folder,
};
use crate::{
    measure::{Bar, Row, Variant},
    peer,
};

/// Runs in one round.
const RUNS: u32 = 12;

/// A shell plugin, started both ways.
pub fn row() -> Row {
    let folder = Folder::new();
    let path = folder.plugin.clone();
    let config = runtime().block_on(theirs(&folder.text()));
    let job = json!({ "work": "run", "command": folder.plugin, "turns": RUNS });
    Row {
        unit: "ms",
        variants: vec![
            Variant {
                label: "bare spawn, read, wait",
                run: Box::new(move || {
                    let _kept = &folder;
                    each(|| bare(&folder.plugin))
                }),
            },
            Variant { label: "client-go", run: Box::new(move || Ok(peer::nanos(&job)? / 1e6)) },
            Variant {
                label: "kube 5",
                run: Box::new(move || {
                    each(|| {
                        config
                            .auth_layer()
                            .map(|layer| layer.iter().len())
                            .map_err(|e| e.to_string())
                    })
                }),
            },
            Variant { label: "ours", run: Box::new(move || each(|| ours(&path))) },
        ],
        bars: vec![
            Bar {
                promise: "a plugin run costs at most 1.15 times the bare one",
                judge: |r| (r.ratio("ours", "bare spawn, read, wait"), 1.15),
            },
            Bar {
                promise: "a plugin run vs client-go's",
                judge: |r| (r.ratio("ours", "client-go"), 1.0),
            },
            Bar { promise: "a plugin run vs kube's", judge: |r| (r.ratio("ours", "kube 5"), 1.0) },
        ],
    }
}

fn each(mut once: impl FnMut() -> Result<usize, String>) -> Result<f64, String> {
    let begin = Instant::now();
    for _ in 0..RUNS {
        if once()? == 0 {
            return Err("the plugin printed nothing".into());
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3 / f64::from(RUNS))
}

fn bare(plugin: &Path) -> Result<usize, String> {
    let output = Command::new(plugin)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|e| e.to_string())?;
    Ok(output.stdout.len())
}

fn ours(plugin: &Path) -> Result<usize, String> {
    let mut invocation = Invocation::new(plugin);
    invocation.env = std::env::vars_os().collect();
    let output = run(&invocation, &Cancel::default()).map_err(|e| format!("{e:?}"))?;
    Ok(output.stdout.len())
}
