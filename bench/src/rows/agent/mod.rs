//! The agent: what a request costs, and what the agent costs while nobody asks.

mod kubelogin;
mod providers;
mod stage;

use std::{
    fs,
    path::Path,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use keyward_agent::Client;
use keyward_protocol::agent::Message;

pub use self::providers::{eks, oidc};
use self::stage::{GitCache, Stage, exec_program, time};
use super::startup::{keyward, kubectl, megabytes, starts};
use crate::measure::{Bar, Row, Variant};

const BARE: &str = "/bin/true";
const WARM: &str = "ours: keyward-exec, warm";
const KUBELOGIN: &str = "kubelogin (int128), warm cache";

/// A stage, or why there is none: every variant of a row says so.
type Shared = Result<Rc<Stage>, String>;

fn stage(sleep: Option<&str>) -> Shared {
    Stage::new(sleep).map(Rc::new)
}

fn variant(
    label: &'static str,
    stage: &Shared,
    mut run: impl FnMut(&Stage) -> Result<f64, String> + 'static,
) -> Variant {
    let stage = stage.clone();
    Variant { label, run: Box::new(move || run(stage.as_deref().map_err(Clone::clone)?)) }
}

/// A warm request, one start at a time.
pub fn warm() -> Row {
    let stage = stage(None);
    let git = GitCache::new();
    Row {
        unit: "ms",
        variants: vec![
            variant(BARE, &stage, |stage| time(&mut stage.command("/bin/true"))),
            Variant {
                label: "git credential-cache get",
                run: Box::new(move || git.as_ref().map_err(Clone::clone)?.time("get")),
            },
            variant(KUBELOGIN, &stage, |stage| time(&mut stage.kubelogin()?)),
            variant(WARM, &stage, |stage| time(&mut stage.ask())),
        ],
        bars: vec![
            Bar {
                promise: "a warm request adds at most 0.8 ms to /bin/true",
                judge: |r| (r.middle([BARE, WARM], |[bare, ours]| ours - bare), 0.8),
            },
            Bar {
                promise: "a warm request adds at most 2 ms to /bin/true at p99",
                judge: |r| (r.quantile([BARE, WARM], 0.99, |[bare, ours]| ours - bare), 2.0),
            },
        ],
    }
}

/// The first request, which starts the agent.
pub fn cold() -> Row {
    const PLUGIN: &str = "the plugin alone";
    const COLD: &str = "ours: keyward-exec, no agent";
    let stage = stage(None);
    Row {
        unit: "ms",
        variants: vec![
            variant(PLUGIN, &stage, |stage| time(&mut stage.command(stage.plugin()))),
            variant(COLD, &stage, |stage| {
                stage.stop()?;
                let took = time(&mut stage.ask())?;
                stage.agent()?;
                Ok(took)
            }),
        ],
        bars: vec![Bar {
            promise: "a cold start adds at most 15 ms to the plugin's own time",
            judge: |r| (r.middle([PLUGIN, COLD], |[bare, ours]| ours - bare), 15.0),
        }],
    }
}

/// `kubectl get --raw` with a plugin that takes 0.8 s. `cat` is as quick as a plugin can be: what it
/// adds to a static token is what kubectl itself spends on any plugin.
pub fn through_kubectl() -> Row {
    const STATIC: &str = "kubectl, static token";
    const FLOOR: &str = "kubectl, plugin `cat`: the floor";
    const WRAPPED: &str = "kubectl, wrapped plugin of 0.8 s";
    let stage = stage(Some("0.8"));
    let get = |config: &'static str, times: u32| {
        move |stage: &Stage| {
            let mut command = stage.command(kubectl());
            command.args(["get", "--raw", "/healthz", "--kubeconfig"]).arg(stage.path(config));
            starts(times, command.env_remove("KUBERNETES_EXEC_INFO"))
        }
    };
    let with_kubelogin = move |stage: &Stage| {
        stage.kubelogin()?;
        get("kubelogin", 4)(stage)
    };
    Row {
        unit: "ms",
        variants: vec![
            variant(STATIC, &stage, get("static", 4)),
            variant(FLOOR, &stage, get("cat", 4)),
            variant("kubectl, plugin of 0.8 s", &stage, get("plain", 1)),
            variant("kubectl, kubelogin with a warm cache", &stage, with_kubelogin),
            variant(WRAPPED, &stage, get("wrapped", 4)),
        ],
        bars: vec![
            Bar {
                promise: "a wrapped plugin adds at most 2 ms to kubectl with a static token",
                judge: |r| (r.middle([STATIC, WRAPPED], |[bare, ours]| ours - bare), 2.0),
            },
            Bar {
                promise: "a wrapped plugin adds at most 2 ms to kubectl with the plugin `cat`",
                judge: |r| (r.middle([FLOOR, WRAPPED], |[bare, ours]| ours - bare), 2.0),
            },
        ],
    }
}

/// Requests of one client process, a connection each.
pub fn requests() -> Row {
    const FLIGHT: usize = 16;
    const ROUNDS: usize = 250;
    const MANY: &str = "ours: 16 connections at a time";
    let stage = stage(None);
    Row {
        unit: "us/req",
        variants: vec![
            variant(MANY, &stage, |stage| Ok(load(stage, FLIGHT, ROUNDS)?.wall)),
            variant("ours: one connection at a time", &stage, |stage| {
                Ok(load(stage, 1, 1000)?.wall)
            }),
            variant("ours: processor time of the agent", &stage, |stage| {
                Ok(load(stage, FLIGHT, ROUNDS)?.agent)
            }),
        ],
        bars: vec![Bar {
            promise: "20,000 requests per second, that is 50 us for each",
            judge: |r| (r.median(MANY), 50.0),
        }],
    }
}

/// Microseconds for one request.
struct Load {
    wall: f64,
    agent: f64,
}

fn load(stage: &Stage, flight: usize, rounds: usize) -> Result<Load, String> {
    let question = Message::Ask(stage.question(0));
    let answer = |client: &mut Client| match client.receive(Duration::from_secs(30)) {
        Ok(Message::Answer(_)) => Ok(()),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    };
    let ask = || {
        let mut client = Client::connect(&stage.socket()).map_err(|e| e.to_string())?;
        client.ask(&question).map_err(|e| e.to_string())?;
        Ok::<_, String>(client)
    };
    time(&mut stage.ask())?;
    answer(&mut ask()?)?;
    let agent = stage.agent()?;
    let (begin, before) = (Instant::now(), worked(agent)?);
    for _ in 0..rounds {
        let clients: Result<Vec<_>, _> = (0..flight).map(|_| ask()).collect();
        clients?.iter_mut().try_for_each(answer)?;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let requests = (flight * rounds) as f64;
    let wall = begin.elapsed().as_secs_f64() * 1e6 / requests;
    Ok(Load { wall, agent: (worked(agent)? - before) * 1e6 / requests })
}

/// The seconds that a process has had a processor for.
fn worked(pid: u32) -> Result<f64, String> {
    let tasks = tasks(pid)?;
    let nanos = tasks.iter().filter_map(|task| {
        let text = fs::read_to_string(task.join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    Ok(nanos.sum::<f64>() / 1e9)
}

fn tasks(pid: u32) -> Result<Vec<std::path::PathBuf>, String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|e| e.to_string())?;
    Ok(tasks.flatten().map(|task| task.path()).collect())
}

/// The sum of a line of `status`.
fn status(path: &Path, name: &str) -> f64 {
    let text = fs::read_to_string(path.join("status")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    lines.filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok()).sum()
}

/// How many credentials the agent keeps in the rows below.
const KEPT: usize = 20;

/// Gets so many credentials, all at once.
fn fill(stage: &Stage) -> Result<u32, String> {
    let start = |number: usize| stage.ask().env("NUMBER", number.to_string()).output();
    thread::scope(|scope| {
        let running: Vec<_> = (0..KEPT).map(|number| scope.spawn(move || start(number))).collect();
        running.into_iter().try_for_each(|one| match one.join() {
            Ok(Ok(output)) if output.status.success() => Ok(()),
            Ok(Ok(output)) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("a thread panicked".to_owned()),
        })
    })?;
    stage.agent()
}

/// Resident memory of an agent with 20 credentials.
pub fn memory() -> Row {
    const OURS: &str = "ours: 20 credentials";
    let stage = stage(None);
    Row {
        unit: "MB",
        variants: vec![variant(OURS, &stage, |stage| {
            stage.stop()?;
            let agent = fill(stage)?;
            Ok(status(Path::new(&format!("/proc/{agent}")), "VmRSS") / 1024.0)
        })],
        bars: vec![Bar {
            promise: "at most 8 MB resident with 20 credentials",
            judge: |r| (r.median(OURS), 8.0),
        }],
    }
}

/// Wake-ups of an agent with 20 credentials that nobody asks for.
pub fn idle() -> Row {
    const OURS: &str = "ours: 20 credentials";
    const MINUTES: u32 = 2;
    let stage = stage(None);
    Row {
        unit: "/min",
        variants: vec![variant(OURS, &stage, |stage| {
            let agent = fill(stage)?;
            // What the last request left to do is done.
            thread::sleep(Duration::from_secs(10));
            let count = || -> Result<f64, String> {
                let tasks = tasks(agent)?;
                Ok(tasks.iter().map(|task| status(task, "voluntary_ctxt_switches")).sum())
            };
            let before = count()?;
            thread::sleep(Duration::from_secs(60) * MINUTES);
            Ok((count()? - before) / f64::from(MINUTES))
        })],
        bars: vec![Bar {
            promise: "at most one wake-up per minute when idle",
            judge: |r| (r.median(OURS), 1.0),
        }],
    }
}

/// How large the small programs are.
pub fn size() -> Row {
    const EXEC: &str = "ours: keyward-exec";
    let kilobytes = |path: &Path| megabytes(path).map(|size| size * 1e3);
    let agent = keyward().with_file_name("keyward-agent");
    Row {
        unit: "KB",
        variants: vec![
            Variant { label: EXEC, run: Box::new(move || kilobytes(&exec_program())) },
            Variant { label: "ours: keyward-agent", run: Box::new(move || kilobytes(&agent)) },
        ],
        bars: vec![Bar {
            promise: "keyward-exec is at most 600 KB",
            judge: |r| (r.median(EXEC), 600.0),
        }],
    }
}
