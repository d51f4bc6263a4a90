//! Random starts, stops, crashes, upgrades and edits under a loop of clients.

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use keyward_testing::chance::Chance;
use serde_json::Value;

use super::stage::{Stage, addresses, eventually, kill};

const CONTEXTS: [&str; 3] = ["east", "north", "west"];

/// How long one client may take before it counts as hung. A start may take half of it on a busy
/// machine.
const HUNG: Duration = Duration::from_secs(60);

/// What clients got.
#[derive(Default)]
struct Tally {
    served: AtomicUsize,
    refused: AtomicUsize,
}

/// Runs a client to its end, however that is.
fn run(command: &mut Command) -> Output {
    let begun = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > HUNG {
            let _ = child.kill();
            panic!("a client hangs: {command:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Asks the server of random contexts who the client is. It must be nobody but the user of that
/// context: each server knows one user, of its own name.
fn ask(
    stage: &Stage,
    kubeconfig: &Path,
    seed: u64,
    kubectl: bool,
    end: &AtomicBool,
    tally: &Tally,
) {
    let mut chance = Chance::new(seed);
    while !end.load(Ordering::Relaxed) {
        let context = *chance.pick(&CONTEXTS);
        let mut command = if kubectl {
            let name = "jsonpath={.status.userInfo.username}";
            stage.kubectl(kubeconfig, &["--context", context, "auth", "whoami", "-o", name])
        } else {
            let mut command = stage.keyward(&["whoami", "--context", context, "-o", "json"]);
            command.env("KUBECONFIG", kubeconfig);
            command
        };
        let output = run(&mut command);
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            let name = serde_json::from_str::<Value>(&text)
                .map_or(text.clone().into_owned(), |all| {
                    all["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned()
                });
            assert_eq!(name, context, "another cluster answered");
            tally.served.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(!output.stderr.is_empty(), "no explanation: {output:?}");
            tally.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn no_client_reaches_another_cluster_or_hangs_and_no_address_changes() {
    let changes = env::var("KEYWARD_PROXY_CHANGES").map_or(40, |text| text.parse().unwrap());
    let seed = env::var("KEYWARD_PROXY_SEED").map_or(1, |text| text.parse().unwrap());
    let mut stage = Stage::new(&CONTEXTS);
    stage.install();
    let stage = stage;
    let kubeconfig = stage.start(&[]);
    let known: BTreeMap<String, String> = addresses(&kubeconfig).into_iter().collect();
    let (over, tally) = (AtomicBool::new(false), Tally::default());
    let mut done = BTreeMap::<&str, usize>::new();
    thread::scope(|scope| {
        let clients: Vec<_> = [(1, true), (2, false)]
            .into_iter()
            .map(|(number, kubectl)| {
                let (stage, kubeconfig, end, tally) = (&stage, &kubeconfig, &over, &tally);
                scope.spawn(move || ask(stage, kubeconfig, seed + number, kubectl, end, tally))
            })
            .collect();
        let mut chance = Chance::new(seed);
        for number in 0..changes {
            let kind = change(&stage, &mut chance);
            *done.entry(kind).or_default() += 1;
            // Half of the changes come on top of others.
            if chance.one_in(2) {
                let before = tally.served.load(Ordering::Relaxed);
                let begun = Instant::now();
                while tally.served.load(Ordering::Relaxed) == before
                    && begun.elapsed() < Duration::from_secs(2)
                    && !clients.iter().any(thread::ScopedJoinHandle::is_finished)
                {
                    thread::sleep(Duration::from_millis(10));
                }
            }
            assert!(kubeconfig.exists(), "change {number}, {kind}: the kubeconfig is gone");
            for (name, address) in addresses(&kubeconfig) {
                assert_eq!(address, known[&name], "change {number}, {kind}");
            }
            if clients.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let (served, refused) = (tally.served.into_inner(), tally.refused.into_inner());
    println!("seed {seed}: {done:?}; {served} requests served, {refused} refused");
    assert!(served > 0);
    // Afterwards everything works, at the same addresses.
    stage.write_config(&CONTEXTS);
    let _ = stage.keyward(&["agent", "unlock"]).output();
    for context in CONTEXTS {
        eventually("it is served again", || {
            let args = ["--context", context, "get", "--raw", "/healthz"];
            stage.kubectl(&kubeconfig, &args).output().unwrap().status.success()
        });
        assert_eq!(stage.whoami(&kubeconfig, context), context);
    }
    eventually("all are listed again", || {
        addresses(&kubeconfig).into_iter().collect::<BTreeMap<_, _>>() == known
    });
}

/// Changes something at random, and returns what.
fn change(stage: &Stage, chance: &mut Chance) -> &'static str {
    let pids = |stage: &Stage| {
        stage.status().iter().filter_map(|one| i32::try_from(one["pid"].as_i64()?).ok()).collect()
    };
    match chance.below(9) {
        0 => {
            let _ = stage.keyward(&["proxy", "start"]).output();
            "start"
        }
        1 => {
            let _ = stage.keyward(&["proxy", "stop"]).output();
            "stop"
        }
        2 => {
            let all: Vec<i32> = pids(stage);
            all.into_iter().for_each(kill);
            "kill the proxy"
        }
        3 => {
            let output = stage.keyward(&["agent", "status", "-o", "json"]).output().unwrap();
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if let Some(pid) = status["pid"].as_i64() {
                kill(i32::try_from(pid).unwrap());
            }
            "kill the agent"
        }
        4 => {
            let _ = stage.keyward(&["agent", "stop"]).output();
            "stop the agent"
        }
        5 => {
            stage.replace_programs();
            "upgrade"
        }
        6 => {
            let without = *chance.pick(&CONTEXTS);
            let left: Vec<&str> = CONTEXTS.into_iter().filter(|one| *one != without).collect();
            stage.write_config(&left);
            "remove a context"
        }
        7 => {
            stage.write_config(&CONTEXTS);
            "restore the contexts"
        }
        _ => {
            stage.write_own("{");
            "break the kubeconfig"
        }
    }
}
