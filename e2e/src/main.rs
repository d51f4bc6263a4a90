//! `cargo xtask e2e`: a real Kubernetes cluster on loopback, and on it Keyward beside kubectl.
//!
//! ```text
//! provider (OpenID Connect), reviewer (AWS tokens) ◄── kube-apiserver ──► etcd
//!                                     kubectl, keyward ──►┘ │ └◄── kube-controller-manager
//!                                                           └────► node
//! ```
//!
//! Every step is a sentence that can be false; it prints one line. Whatever happens, the cluster is
//! taken down at the end.

mod audit;
mod child;
mod cluster;
mod config;
mod node;
mod outside;
mod steps;
mod tools;
mod worker;

use std::{
    env,
    error::Error,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};

use crate::{cluster::Cluster, tools::Tools};

/// What a step may fail with.
type Failure = Box<dyn Error + Send + Sync>;
type Outcome<T> = Result<T, Failure>;

/// Only a hang gets there.
const STEP: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let options = match Options::read(env::args().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("e2e: {wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // The cluster's processes die with the thread that starts them, which is this one.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let outcome = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            tokio::select! {
                outcome = run(&options) => outcome,
                reason = stopped(options.limit) => Err(reason.into()),
            }
        })
    });
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("e2e: {error}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "usage: e2e --cache DIR [--limit SECONDS] [--keep] [--without-nodes] [WORD…]
  --cache DIR        where the programs of others are (`cargo xtask e2e` puts them there)
  --limit SECONDS    give up after this time
  --keep             leave the cluster until Ctrl-C, and say how to reach it
  --without-nodes    leave out the steps that run containers
  WORD…              run only the steps with one of these words in their name";

/// What is asked for.
struct Options {
    cache: PathBuf,
    limit: Duration,
    keep: bool,
    nodes: bool,
    words: Vec<String>,
}

impl Options {
    fn read(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            cache: PathBuf::new(),
            limit: Duration::from_secs(30 * 60),
            keep: false,
            nodes: true,
            words: Vec::new(),
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("`{arg}` needs a value"));
            match arg.as_str() {
                "--cache" => options.cache = value()?.into(),
                "--limit" => {
                    let text = value()?;
                    let seconds = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
                    options.limit = Duration::from_secs(seconds);
                }
                "--keep" => options.keep = true,
                "--without-nodes" => options.nodes = false,
                other if other.starts_with('-') => return Err(format!("`{other}` is not known")),
                word => options.words.push(word.to_owned()),
            }
        }
        if options.cache.as_os_str().is_empty() {
            return Err("`--cache` is needed".to_owned());
        }
        Ok(options)
    }

    /// Whether this step runs.
    fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word))
    }
}

/// Starts the cluster, runs the steps, and says how many failed. An error says that it could not
/// begin. The cluster ends with this future, however it ends.
async fn run(options: &Options) -> Outcome<usize> {
    let begin = Instant::now();
    let cluster = Cluster::start(Tools::find(&options.cache)?).await?;
    println!("cluster ready after {:.1} s", begin.elapsed().as_secs_f64());
    let (mut passed, mut failed) = (0, 0);
    let mut steps = steps::all();
    if options.nodes {
        steps.extend(steps::with_containers());
    }
    for step in steps.into_iter().filter(|step| options.wants(step.name)) {
        let begin = Instant::now();
        cluster.waits_for("");
        let outcome = if let Ok(outcome) = timeout(STEP, (step.run)(&cluster)).await {
            outcome
        } else {
            let why = cluster.why_it_waits().await;
            Err(format!("it took longer than {} s: {why}", STEP.as_secs()).into())
        };
        let took = begin.elapsed().as_secs_f64();
        match outcome {
            Ok(seen) => {
                passed += 1;
                println!("ok      {} ({took:.1} s): {seen}", step.name);
            }
            Err(error) => {
                failed += 1;
                println!("FAILED  {} ({took:.1} s): {error}", step.name);
            }
        }
    }
    if failed > 0 {
        cluster.show_logs();
    }
    println!("{passed} passed, {failed} failed");
    if options.keep {
        println!("kubectl --kubeconfig {} …   (Ctrl-C ends the cluster)", cluster.admin.display());
        std::future::pending::<()>().await;
    }
    Ok(if passed == 0 { failed.max(1) } else { failed })
}

/// Returns when we shall end early, and why.
async fn stopped(limit: Duration) -> String {
    let wait = async |kind| match signal(kind) {
        Ok(mut signal) => _ = signal.recv().await,
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = wait(SignalKind::interrupt()) => "interrupted".to_owned(),
        () = wait(SignalKind::terminate()) => "told to end".to_owned(),
        () = wait(SignalKind::hangup()) => "told to end".to_owned(),
        () = tokio::time::sleep(limit) => format!("not done after {} s", limit.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Options, String> {
        Options::read(args.iter().map(ToString::to_string))
    }

    #[test]
    fn the_cache_is_needed_and_words_filter() {
        let options = read(&["--cache", "/c", "--limit", "5", "proxy", "kubelet"]);
        let options = options.unwrap_or_else(|wrong| panic!("{wrong}"));
        assert_eq!(options.limit.as_secs(), 5);
        assert!(options.wants("a kubelet pulls") && options.wants("through the proxy"));
        assert!(!options.wants("tom reads pods"));
        assert!(read(&["proxy"]).is_err());
        assert!(read(&["--frob"]).is_err());
    }

    #[test]
    fn no_two_steps_have_one_name() {
        let mut names: Vec<_> = steps::all()
            .into_iter()
            .chain(steps::with_containers())
            .map(|step| step.name)
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
