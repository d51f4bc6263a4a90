//! What goes over the server: credentials are revoked at random, and twice it is killed and started
//! again while its listener stays open.

use std::{
    fs::File,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use keyward_testing::chance::Chance;
use tokio::sync::watch as signal;

use crate::{
    Options, Sabotage,
    scene::{ACCOUNTS, Scene},
};

/// How long the server stays down.
const DOWN: Duration = Duration::from_millis(300);
/// Between two revocations of one identity, in milliseconds. The least is above the first step of
/// the backoff: whoever is refused faster than that gets the server's answer, as promised.
const CALM: std::ops::Range<u64> = 2_500..5_000;
/// A credential is revoked only when it has been out for so long: one that is revoked on its way to
/// us, right after another, is again a matter of the backoff.
const OUT: Duration = Duration::from_millis(500);
/// Where runs of the plugin are slow, the calm is longer by so many of them.
const RUNS: u32 = 4;

/// What happened.
#[derive(Debug, Default)]
pub struct Storm {
    /// From the kill to the moment the server accepted connections again.
    pub restarts: Vec<(Instant, Instant)>,
    /// Good credentials that were revoked.
    pub revoked: usize,
}

/// Rages until the end.
pub async fn rage(
    scene: Arc<Scene>,
    options: Options,
    mut ending: signal::Receiver<bool>,
) -> Storm {
    let slow = scene.run * RUNS;
    let mut chance = Chance::new(options.seed);
    let mut storm = Storm::default();
    let begin = Instant::now();
    let mut restarts = vec![begin + options.length * 2 / 3, begin + options.length / 3];
    let mut revocations = ACCOUNTS.map(|_| begin + calm(&mut chance) / 2);
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let mut sabotage = options.sabotage.map(|what| (what, begin + options.length / 2));
    let mut kept = Kept::default();
    loop {
        tokio::select! {
            _ = ending.wait_for(|over| *over) => return storm,
            _ = ticks.tick() => {}
        }
        let now = Instant::now();
        if restarts.last().is_some_and(|at| *at <= now) {
            restarts.pop();
            storm.restarts.push(restart(&scene).await);
        }
        for (account, next) in ACCOUNTS.iter().zip(&mut revocations) {
            if *next <= now && is_out(&scene, account) {
                storm.revoked += scene.issuer.revoke(account);
                *next = now + calm(&mut chance) + slow;
            }
        }
        if sabotage.is_some_and(|(_, at)| at <= now)
            && let Some((what, _)) = sabotage.take()
        {
            break_something(&scene, what, &mut kept).await;
        }
    }
}

/// Kills the server and starts it again; from when to when it was down.
pub async fn restart(scene: &Scene) -> (Instant, Instant) {
    let killed = Instant::now();
    scene.server.pause();
    scene.server.restart().expect("the server's settings were good before");
    tokio::time::sleep(DOWN).await;
    scene.server.resume();
    (killed, Instant::now())
}

/// Whether the account's credential is where it is used.
fn is_out(scene: &Scene, account: &str) -> bool {
    let last = scene.issuer.history(account).last().copied();
    last.is_some_and(|issue| SystemTime::now() > issue.at + OUT + scene.run)
}

/// What a saboteur took and does not give back.
#[derive(Default)]
struct Kept {
    files: Vec<File>,
    memory: Vec<u8>,
}

async fn break_something(scene: &Scene, what: Sabotage, kept: &mut Kept) {
    match what {
        Sabotage::Issuer => ACCOUNTS.iter().for_each(|account| scene.issuer.repeat(account)),
        Sabotage::Connections => scene.server.cut_connections(),
        Sabotage::Plugin => {
            for account in ACCOUNTS {
                let client = scene.client(account).expect("as the others were made");
                let _ = client.get("/healthz").await;
            }
        }
        Sabotage::Descriptors => {
            kept.files.extend((0..100).filter_map(|_| File::open("/dev/null").ok()));
        }
        Sabotage::Memory => kept.memory.resize(64 << 20, 1),
    }
}

/// How long until the next one.
fn calm(chance: &mut Chance) -> Duration {
    Duration::from_millis(CALM.start + chance.below(CALM.end - CALM.start))
}
