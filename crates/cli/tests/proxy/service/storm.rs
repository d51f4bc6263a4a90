//! Random starts, stops, crashes, upgrades and edits under a loop of clients.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use keyward_testing::chance::Chance;
use serde_json::{Value, json};

use super::stage::{Stage, addresses, eventually, kill};

const CONTEXTS: [&str; 3] = ["east", "north", "west"];

/// How long one client may take before it counts as hung. A start may take half of it on a busy
/// machine.
const HUNG: Duration = Duration::from_secs(60);

/// A program that asks through the proxy.
enum Client {
    Kubectl,
    Keyward,
    Helm(PathBuf),
    Python(PathBuf),
}

impl Client {
    /// kubectl and our own; with `cargo xtask storm`, which installs them, also Helm and Python.
    fn all() -> Vec<Self> {
        let installed = |name: &str| env::var_os(name).map(PathBuf::from);
        let helm = installed("KEYWARD_STORM_HELM").map(Self::Helm);
        let python = installed("KEYWARD_STORM_PYTHON").map(Self::Python);
        [Self::Kubectl, Self::Keyward].into_iter().chain(helm).chain(python).collect()
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl",
            Self::Keyward => "keyward",
            Self::Helm(_) => "helm",
            Self::Python(_) => "python",
        }
    }

    /// Prints the name of the context whose server it reaches: the only user that the server knows, or
    /// the only release that it has.
    fn ask(&self, stage: &Stage, kubeconfig: &Path, context: &str) -> Command {
        match self {
            Self::Kubectl => {
                let name = "jsonpath={.status.userInfo.username}";
                stage.kubectl(kubeconfig, &["--context", context, "auth", "whoami", "-o", name])
            }
            Self::Keyward => {
                let mut command = stage.keyward(&["whoami", "--context", context]);
                command.args(["-o", "json"]).env("KUBECONFIG", kubeconfig);
                command
            }
            Self::Helm(helm) => {
                let mut command = stage.command(helm);
                let args = ["list", "--short", "--namespace", "default", "--kube-context", context];
                command.args(args).env("KUBECONFIG", kubeconfig);
                command
            }
            Self::Python(python) => {
                let mut command = stage.command(python);
                command.arg(WHOAMI).arg(kubeconfig).arg(context);
                command
            }
        }
    }

    /// Gives the server of each context what the client tells it by.
    fn prepare(&self, stage: &Stage) {
        if let Self::Helm(_) = self {
            for context in CONTEXTS {
                stage.server(context).store().put(&release(context)).unwrap();
            }
        }
    }
}

/// A release as Helm keeps it.
fn release(name: &str) -> Value {
    let at = "2026-01-01T00:00:00Z";
    let release = json!({
        "name": name,
        "namespace": "default",
        "version": 1,
        "info": { "status": "deployed", "first_deployed": at, "last_deployed": at },
        "chart": { "metadata": { "apiVersion": "v2", "name": "empty", "version": "1.0.0" } },
    });
    let encoded = BASE64_STANDARD.encode(BASE64_STANDARD.encode(release.to_string()));
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {
            "name": format!("sh.helm.release.v1.{name}.v1"),
            "namespace": "default",
            "labels": { "owner": "helm", "name": name, "status": "deployed", "version": "1" },
        },
        "data": { "release": encoded },
    })
}

const WHOAMI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/clients/python/whoami.py");

/// Requests that take longer are printed, in milliseconds.
const SLOW: usize = 8_000;

/// How long it may take until a change has come into force on a busy machine: the proxy reads the kubeconfig again, the
/// agent hands over to a new version, and the next proxy has other certificates.
const SETTLE: Duration = Duration::from_secs(10);

/// What the requests of a client came to.
#[derive(Default)]
struct Tally {
    served: AtomicUsize,
    /// Refused because the kubeconfig was broken or did not have the context.
    missing: AtomicUsize,
    /// Refused because something was stopped, killed or replaced during the request.
    disturbed: AtomicUsize,
    /// Refused shortly after that.
    settling: AtomicUsize,
    /// The longest that one took, in milliseconds.
    longest: AtomicUsize,
}

/// When requests may be refused. The lists are short, so they are searched from the start.
#[derive(Default)]
struct History {
    /// The contexts in the kubeconfig, from each moment on.
    contexts: Mutex<Vec<(Instant, Vec<&'static str>)>>,
    /// Changes to the programs or their processes. One that is under way has no end.
    disturbances: Mutex<Vec<(Instant, Option<Instant>)>>,
}

/// Why a request may be refused.
enum Excuse {
    NoContext,
    Disturbed,
    Settling,
}

impl History {
    fn set_contexts(&self, contexts: &[&'static str]) {
        self.contexts.lock().unwrap().push((Instant::now(), contexts.to_vec()));
    }

    /// Does something that may break requests that are open meanwhile.
    fn disturb<T>(&self, act: impl FnOnce() -> T) -> T {
        let number = {
            let mut all = self.disturbances.lock().unwrap();
            all.push((Instant::now(), None));
            all.len() - 1
        };
        let done = act();
        self.disturbances.lock().unwrap()[number].1 = Some(Instant::now());
        done
    }

    /// Why a request for a context that began then and ends now may be refused.
    fn excuse(&self, context: &str, begun: Instant) -> Option<Excuse> {
        let contexts = self.contexts.lock().unwrap();
        let ends = contexts.iter().skip(1).map(|(from, _)| Some(*from)).chain([None]);
        let mut in_force = contexts
            .iter()
            .zip(ends)
            .filter(|(_, until)| until.is_none_or(|until| until + SETTLE >= begun));
        if in_force.any(|((_, contexts), _)| !contexts.contains(&context)) {
            return Some(Excuse::NoContext);
        }
        let disturbances = self.disturbances.lock().unwrap();
        let within = |time: Duration| {
            disturbances.iter().any(|(_, end)| end.is_none_or(|end| end + time >= begun))
        };
        match () {
            () if within(Duration::ZERO) => Some(Excuse::Disturbed),
            () if within(SETTLE) => Some(Excuse::Settling),
            () => None,
        }
    }
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

/// Asks for random contexts until the end. No answer may come from the server of another context.
fn ask(
    client: &Client,
    stage: &Stage,
    kubeconfig: &Path,
    seed: u64,
    (history, end): (&History, &AtomicBool),
    tally: &Tally,
) {
    let mut chance = Chance::new(seed);
    while !end.load(Ordering::Relaxed) {
        let context = *chance.pick(&CONTEXTS);
        let begun = Instant::now();
        let output = run(&mut client.ask(stage, kubeconfig, context));
        let took = usize::try_from(begun.elapsed().as_millis()).unwrap();
        tally.longest.fetch_max(took, Ordering::Relaxed);
        if took > SLOW {
            let (name, code) = (client.name(), output.status.code());
            let said = String::from_utf8_lossy(&output.stderr);
            println!("slow: {name} --context {context} took {took} ms, exit code {code:?}: {said}");
        }
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            let json = serde_json::from_str::<Value>(&text).ok();
            let user = json.as_ref().and_then(|all| all["status"]["userInfo"]["username"].as_str());
            let name = user.unwrap_or(text.trim());
            assert_eq!(name, context, "another cluster answered {}", client.name());
            tally.served.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(!output.stderr.is_empty(), "no explanation: {output:?}");
            let counter = match history.excuse(context, begun) {
                Some(Excuse::NoContext) => &tally.missing,
                Some(Excuse::Disturbed) => &tally.disturbed,
                Some(Excuse::Settling) => {
                    let said = String::from_utf8_lossy(&output.stderr);
                    println!("settling: {} --context {context}: {}", client.name(), said.trim());
                    &tally.settling
                }
                None => {
                    let said = String::from_utf8_lossy(&output.stderr);
                    panic!("{} --context {context} failed for no reason: {said}", client.name());
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
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
    let clients = Client::all();
    for client in &clients {
        client.prepare(&stage);
    }
    let kubeconfig = stage.start(&[]);
    let known: BTreeMap<String, String> = addresses(&kubeconfig).into_iter().collect();
    let over = AtomicBool::new(false);
    let history = History::default();
    history.set_contexts(&CONTEXTS);
    let tallies: Vec<Tally> = clients.iter().map(|_| Tally::default()).collect();
    let served = || tallies.iter().map(|tally| tally.served.load(Ordering::Relaxed)).sum::<usize>();
    let begun = Instant::now();
    let mut done = BTreeMap::<&str, usize>::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (1..)
            .zip(clients.iter().zip(&tallies))
            .map(|(number, (client, tally))| {
                let (stage, kubeconfig, common) = (&stage, &kubeconfig, (&history, &over));
                scope.spawn(move || ask(client, stage, kubeconfig, seed + number, common, tally))
            })
            .collect();
        let mut chance = Chance::new(seed);
        for number in 0..changes {
            let kind = change(&stage, &history, &mut chance);
            *done.entry(kind).or_default() += 1;
            // Half of the changes come on top of others.
            if chance.one_in(2) {
                let (before, begun) = (served(), Instant::now());
                while served() == before
                    && begun.elapsed() < Duration::from_secs(2)
                    && !threads.iter().any(thread::ScopedJoinHandle::is_finished)
                {
                    thread::sleep(Duration::from_millis(10));
                }
            }
            assert!(kubeconfig.exists(), "change {number}, {kind}: the kubeconfig is gone");
            for (name, address) in addresses(&kubeconfig) {
                assert_eq!(address, known[&name], "change {number}, {kind}");
            }
            if threads.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let took = begun.elapsed().as_secs();
    println!("seed {seed}: {changes} changes in {took} s: {done:?}");
    for (client, tally) in clients.iter().zip(&tallies) {
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let Tally { served, missing, disturbed, settling, longest } = tally;
        let [served, longest] = [served, longest].map(get);
        let [missing, disturbed, settling] = [missing, disturbed, settling].map(get);
        let name = client.name();
        println!(
            "{name}: {served} served, {missing} refused without their context, {disturbed} during \
             a stop, crash or upgrade, {settling} shortly after one, longest {longest} ms"
        );
        assert!(served > 0, "{name} was never served");
    }
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
fn change(stage: &Stage, history: &History, chance: &mut Chance) -> &'static str {
    let pids = |stage: &Stage| {
        stage.status().iter().filter_map(|one| i32::try_from(one["pid"].as_i64()?).ok()).collect()
    };
    let run = |args: &[&str]| history.disturb(|| stage.keyward(args).output().unwrap());
    let write = |contexts: &[&'static str]| {
        history.set_contexts(contexts);
        stage.write_config(contexts);
    };
    match chance.below(9) {
        0 => {
            let _ = run(&["proxy", "start"]);
            "start"
        }
        1 => {
            let _ = run(&["proxy", "stop"]);
            "stop"
        }
        2 => {
            let all: Vec<i32> = pids(stage);
            history.disturb(|| all.into_iter().for_each(kill));
            "kill the proxy"
        }
        3 => {
            let output = stage.keyward(&["agent", "status", "-o", "json"]).output().unwrap();
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if let Some(pid) = status["pid"].as_i64() {
                history.disturb(|| kill(i32::try_from(pid).unwrap()));
            }
            "kill the agent"
        }
        4 => {
            let _ = run(&["agent", "stop"]);
            "stop the agent"
        }
        5 => {
            history.disturb(|| stage.replace_programs());
            "upgrade"
        }
        6 => {
            let without = *chance.pick(&CONTEXTS);
            let left: Vec<_> = CONTEXTS.into_iter().filter(|one| *one != without).collect();
            write(&left);
            "remove a context"
        }
        7 => {
            write(&CONTEXTS);
            "restore the contexts"
        }
        _ => {
            history.set_contexts(&[]);
            stage.write_own("{");
            "break the kubeconfig"
        }
    }
}
