//! `cargo xtask soak`: lives by short credentials for a while, under load, while the server revokes
//! them at random and is killed and started again.
//!
//! Two identities, one by token and one by certificate, each with a watch and half of the requests:
//!
//! ```text
//! storm (revokes, restarts) ──► server ◄── traffic (200 requests a second), two watches
//!                               issuer ◄── plugin runs
//!                               all of it ──► verdicts
//! ```

mod agent;
mod gauge;
mod proxy;
mod scene;
mod storm;
mod traffic;
mod verdict;
mod watch;

use std::{
    env,
    error::Error,
    hash::{BuildHasher, RandomState},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::watch as signal, task::JoinSet};

use crate::{
    agent::Amount,
    scene::{ACCOUNTS, Scene},
    traffic::Traffic,
    verdict::Verdict,
};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    // The program is its own plugin.
    if let [word, socket, account] = &args[..]
        && word == "plugin"
    {
        return keyward_testing::issuer::serve(Path::new(socket), account);
    }
    let options = match Options::read(&args) {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!(
                "soak: {wrong}\nusage: cargo xtask soak [--proxy] [--seconds N] [--seed N]\n       cargo xtask soak --agent [--rounds N] [--asks N] [--seed N]"
            );
            return ExitCode::from(2);
        }
    };
    match options.agent {
        Some(Amount { rounds, asks }) => {
            println!("{rounds} rounds and {asks} requests to the agent, seed {}", options.seed);
        }
        None => println!("{} s, seed {}", options.length.as_secs(), options.seed),
    }
    match run(&options) {
        Ok(verdicts) => {
            for verdict in &verdicts {
                println!("{verdict}");
            }
            let broken = verdicts.iter().filter(|verdict| !verdict.holds).count();
            println!("{broken} promises broken");
            if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How long and how wild.
#[derive(Debug, Clone)]
struct Options {
    length: Duration,
    /// Where chance begins: the same storm comes with the same seed.
    seed: u64,
    /// Over the local proxy rather than the library.
    proxy: bool,
    /// The agent rather than the library and a server.
    agent: Option<Amount>,
    /// Something to break on purpose; the tests see that it is noticed.
    sabotage: Option<Sabotage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sabotage {
    /// The issuer hands out the same credential again, revoked or not.
    Issuer,
    /// Connections are cut although no server was killed.
    Connections,
    /// Credentials are asked for although nobody needs them.
    Plugin,
    /// Descriptors are opened and kept.
    Descriptors,
    /// Memory is taken and kept.
    Memory,
}

impl Options {
    fn read(args: &[String]) -> Result<Self, String> {
        let seed = RandomState::new().hash_one(0) >> 32;
        let proxy = args.iter().any(|arg| arg == "--proxy");
        let agent = args.iter().any(|arg| arg == "--agent");
        let agent = agent.then_some(Amount { rounds: 100, asks: 100_000 });
        let length = Duration::from_secs(60);
        let mut options = Self { length, seed, proxy, agent, sabotage: None };
        let words = ["--proxy", "--agent"];
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let args: Vec<&String> = args.iter().filter(|arg| !words.contains(&arg.as_str())).collect();
        for pair in args.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("`{}` needs a value", pair[0]));
            };
            let number = || value.parse().map_err(|_| format!("`{value}` is not a number"));
            match (name.as_str(), &mut options.agent) {
                ("--rounds", Some(amount)) => amount.rounds = count(number()?),
                ("--asks", Some(amount)) => amount.asks = count(number()?),
                ("--seed", _) => options.seed = number()?,
                ("--seconds", None) => options.length = Duration::from_secs(number()?),
                ("--sabotage", None) => options.sabotage = Some(Sabotage::named(value)?),
                (other, _) => return Err(format!("`{other}` is not known")),
            }
        }
        if options.length < Duration::from_secs(5) {
            return Err("nothing much happens in less than 5 s".to_owned());
        }
        Ok(options)
    }
}

impl Sabotage {
    fn named(name: &str) -> Result<Self, String> {
        Ok(match name {
            "issuer" => Self::Issuer,
            "connections" => Self::Connections,
            "plugin" => Self::Plugin,
            "descriptors" => Self::Descriptors,
            "memory" => Self::Memory,
            other => return Err(format!("`{other}` cannot be broken")),
        })
    }
}

/// Runs it to the end. An error says that it could not begin.
fn run(options: &Options) -> Result<Vec<Verdict>, Box<dyn Error + Send + Sync>> {
    if let Some(amount) = options.agent {
        return agent::soak(amount, options.seed);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if options.proxy {
        return runtime.block_on(proxy::soak(options));
    }
    runtime.block_on(soak(options))
}

async fn soak(options: &Options) -> Result<Vec<Verdict>, Box<dyn Error + Send + Sync>> {
    let scene = Arc::new(Scene::open().await?);
    println!(
        "a run of the plugin takes {} ms, tokens live {} ms",
        scene.run.as_millis(),
        scene.lifetime.as_millis()
    );
    let traffic = Arc::new(Traffic::default());
    let (over, ending) = signal::channel(false);
    let (last, until) = signal::channel(None);
    let mut drivers = JoinSet::new();
    let mut watches = Vec::new();
    for account in ACCOUNTS {
        let client = scene.client(account)?;
        watches.push(tokio::spawn(watch::follow(client.clone(), scene.version(), until.clone())));
        drivers.spawn(traffic::drive(traffic.clone(), client, ending.clone()));
    }
    let changes = tokio::spawn(watch::feed(scene.clone(), ending.clone()));
    let storm = tokio::spawn(storm::rage(scene.clone(), options.clone(), ending.clone()));
    let gauge = tokio::spawn(gauge::read(ending.clone()));

    let begin = Instant::now();
    tokio::time::sleep(options.length).await;
    over.send_replace(true);
    let took = begin.elapsed();
    while drivers.join_next().await.is_some() {}
    let storm = storm.await?;
    // Every watch has to bring the last change before it may end.
    let count = changes.await?;
    last.send_replace(Some(count));
    let mut followed = Vec::new();
    for watch in watches {
        followed.push(watch.await?);
    }
    let readings = gauge.await?;
    Ok(vec![
        verdict::weather(&scene, &storm),
        verdict::requests(&traffic, &storm, took),
        verdict::watches(&followed, count, &storm),
        verdict::runs(&scene),
        verdict::descriptors(&readings),
        verdict::memory(&readings),
    ])
}
