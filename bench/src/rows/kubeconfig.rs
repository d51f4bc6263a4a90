//! Loading a kubeconfig and resolving one context of it, as it grows.

use std::{
    fmt::Write as _,
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
    time::Instant,
};

use keyward_host::{Kubeconfig, Overrides};
use keyward_process::surroundings::Surroundings;
use kube::config::{KubeConfigOptions, Kubeconfig as Theirs};
use serde_json::json;

use super::{
    requests::runtime,
    startup::{keyward, kubectl, starts},
};
use crate::{
    measure::{Bar, Row, Variant},
    peer,
};

/// Ten, a thousand and ten thousand contexts.
pub fn row() -> Row {
    let folder = Rc::new(tempfile::tempdir().expect("a temporary folder"));
    let file = |contexts: usize| {
        let path = folder.path().join(contexts.to_string());
        fs::write(&path, text(contexts)).expect("a file in a temporary folder");
        File { path, context: format!("context-{}", contexts / 2), contexts }
    };
    let (ten, thousand, all) = (file(10), file(1_000), file(10_000));
    let theirs = all.arguments();
    let program = |label, file: &File| {
        let arguments = file.arguments();
        let run = move || starts(1, Command::new(keyward()).arg("plan").args(&arguments));
        Variant { label, run: Box::new(run) }
    };
    Row {
        unit: "ms",
        variants: vec![
            clientcmd("clientcmd: 10", &ten),
            kube("kube 5: 10", &ten),
            ours("ours: 10", &ten),
            clientcmd("clientcmd: 1,000", &thousand),
            kube("kube 5: 1,000", &thousand),
            ours("ours: 1,000", &thousand),
            clientcmd("clientcmd: 10,000", &all),
            kube("kube 5: 10,000", &all),
            ours("ours: 10,000", &all),
            Variant {
                label: "kubectl config view, of 10,000",
                run: Box::new(move || {
                    let _kept = &folder;
                    let mut command = Command::new(kubectl());
                    starts(1, command.args(["config", "view", "--minify"]).args(&theirs))
                }),
            },
            program(PLAN_FEW, &ten),
            program(PLAN_MANY, &thousand),
            program(PLAN_ALL, &all),
        ],
        bars: vec![
            Bar {
                promise: "10,000 contexts in at most a fifth of clientcmd's time",
                judge: |r| (r.ratio("ours: 10,000", "clientcmd: 10,000"), 0.2),
            },
            // kube does not read 10,000 at all: its parser sets a limit to what a file may hold.
            Bar {
                promise: "1,000 contexts in at most kube's time",
                judge: |r| (r.ratio("ours: 1,000", "kube 5: 1,000"), 1.0),
            },
            Bar {
                promise: "10 contexts in at most kube's time",
                judge: |r| (r.ratio("ours: 10", "kube 5: 10"), 1.0),
            },
            Bar {
                promise: "1,000 contexts in at most clientcmd's time",
                judge: |r| (r.ratio("ours: 1,000", "clientcmd: 1,000"), 1.0),
            },
            Bar {
                promise: "10 contexts in at most clientcmd's time",
                judge: |r| (r.ratio("ours: 10", "clientcmd: 10"), 1.0),
            },
            // In a process of its own: one that reads again and again finds memory for a small file,
            // and gets it anew from the system for a large one.
            Bar {
                promise: "ten times the contexts, about ten times the time of the program, without its start",
                judge: |r| {
                    let growth = |[few, many, all]: [f64; 3]| (all - few) / (many - few);
                    (r.middle([PLAN_FEW, PLAN_MANY, PLAN_ALL], growth), 12.0)
                },
            },
            Bar {
                promise: "the program vs kubectl",
                judge: |r| (r.ratio(PLAN_ALL, "kubectl config view, of 10,000"), 1.0),
            },
        ],
    }
}

const PLAN_FEW: &str = "keyward plan, of 10";
const PLAN_MANY: &str = "keyward plan, of 1,000";
const PLAN_ALL: &str = "keyward plan, of 10,000";

struct File {
    path: PathBuf,
    context: String,
    contexts: usize,
}

impl File {
    /// About as long a round for each size.
    fn turns(&self) -> usize {
        (2_000 / self.contexts).max(1)
    }

    fn arguments(&self) -> Vec<String> {
        let path = self.path.display();
        vec![format!("--kubeconfig={path}"), format!("--context={}", self.context)]
    }
}

fn ours(label: &'static str, file: &File) -> Variant {
    let (path, turns) = (file.path.clone(), file.turns());
    let overrides = Overrides { context: Some(file.context.clone()), ..Overrides::default() };
    Variant { label, run: Box::new(move || load(&path, &overrides, turns)) }
}

fn load(path: &Path, overrides: &Overrides, turns: usize) -> Result<f64, String> {
    let surroundings = Surroundings::process();
    each(turns, || {
        let config = Kubeconfig::load(&surroundings, Some(path)).map_err(|e| e.to_string())?;
        black_box(config.resolve(overrides, &surroundings).map_err(|e| e.to_string())?);
        Ok(())
    })
}

fn kube(label: &'static str, file: &File) -> Variant {
    let (path, turns) = (file.path.clone(), file.turns());
    let options =
        KubeConfigOptions { context: Some(file.context.clone()), ..KubeConfigOptions::default() };
    let runtime = runtime();
    let run = move || {
        each(turns, || {
            let config = Theirs::read_from(&path).map_err(|e| e.to_string())?;
            let resolved = kube::Config::from_custom_kubeconfig(config, &options);
            black_box(runtime.block_on(resolved).map_err(|e| e.to_string())?);
            Ok(())
        })
    };
    Variant { label, run: Box::new(run) }
}

/// Milliseconds of one turn.
fn each(turns: usize, mut once: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let begin = Instant::now();
    for _ in 0..turns {
        once()?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few hundred turns")]
    let turns = turns as f64;
    Ok(begin.elapsed().as_secs_f64() * 1e3 / turns)
}

fn clientcmd(label: &'static str, file: &File) -> Variant {
    let job = json!({
        "work": "kubeconfig",
        "config": file.path,
        "context": file.context,
        "turns": file.turns(),
    });
    Variant { label, run: Box::new(move || Ok(peer::nanos(&job)? / 1e6)) }
}

/// As cloud providers' tools write them, about 700 bytes for a context.
fn text(contexts: usize) -> String {
    let mut text = String::from("apiVersion: v1\nkind: Config\nclusters:\n");
    let authority = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t".repeat(6);
    for n in 0..contexts {
        let _ = write!(
            text,
            "- cluster:\n    certificate-authority-data: {authority}\n    server: https://{n}.eks.example.com\n  name: cluster-{n}\n"
        );
    }
    text.push_str("contexts:\n");
    for n in 0..contexts {
        let _ = write!(
            text,
            "- context:\n    cluster: cluster-{n}\n    namespace: team-{n}\n    user: user-{n}\n  name: context-{n}\n"
        );
    }
    text.push_str("current-context: context-0\npreferences: {}\nusers:\n");
    for n in 0..contexts {
        let _ = write!(
            text,
            "- name: user-{n}\n  user:\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      args:\n      - eks\n      - get-token\n      - --cluster-name\n      - cluster-{n}\n      command: aws\n      env:\n      - name: AWS_PROFILE\n        value: profile-{n}\n      interactiveMode: Never\n"
        );
    }
    text
}
