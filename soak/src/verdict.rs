//! What was promised, what was seen.

use std::{
    fmt,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use keyward_testing::issuer::Issue;

use crate::{
    gauge::Reading,
    scene::{ACCOUNTS, Scene},
    storm::Storm,
    traffic::{RATE, Traffic},
    watch::Followed,
};

/// Whether a promise was kept.
#[derive(Debug)]
pub struct Verdict {
    pub name: &'static str,
    pub holds: bool,
    pub seen: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds { "holds " } else { "BROKEN" };
        write!(f, "  {word} {:<12} {}", self.name, self.seen)
    }
}

/// The storm was one.
pub fn weather(scene: &Scene, storm: &Storm) -> Verdict {
    let refused = scene.server.counts().status(401);
    Verdict {
        name: "storm",
        holds: storm.restarts.len() == 2 && storm.revoked > 0 && refused > 0,
        seen: format!(
            "{} restarts, {} credentials revoked, {refused} answers of 401",
            storm.restarts.len(),
            storm.revoked,
        ),
    }
}

/// No request fails except those in flight to a killed server.
pub fn requests(traffic: &Traffic, storm: &Storm, took: Duration) -> Verdict {
    let sent = traffic.sent.load(Ordering::Relaxed);
    let failed = traffic.failed();
    let killed = failed.iter().filter(|f| f.lost && in_flight(storm, f.begin, f.end)).count();
    let other: Vec<_> =
        failed.iter().filter(|f| !(f.lost && in_flight(storm, f.begin, f.end))).collect();
    #[expect(clippy::cast_precision_loss, reason = "a count of seconds' worth")]
    let rate = sent as f64 / took.as_secs_f64();
    let first = other.first().map(|f| format!(", the first: {}", f.what)).unwrap_or_default();
    Verdict {
        name: "requests",
        holds: other.is_empty() && rate > 0.9 * RATE,
        seen: format!(
            "{sent} at {rate:.0} a second, {killed} lost with a killed server, {} failed{first}",
            other.len(),
        ),
    }
}

/// No watch is cut by us, and none misses a change.
pub fn watches(followed: &[Followed], changes: u64, storm: &Storm) -> Verdict {
    let ends: Vec<_> = followed.iter().flat_map(|watch| &watch.ends).collect();
    let by_us: Vec<_> = ends.iter().filter(|(at, _)| !in_flight(storm, *at, *at)).collect();
    let complete = followed.iter().all(|watch| watch.seen == changes && watch.wrong == 0);
    let first = by_us.first().map(|(_, why)| format!(", the first: {why}")).unwrap_or_default();
    let seen: Vec<String> = followed.iter().map(|watch| watch.seen.to_string()).collect();
    Verdict {
        name: "watches",
        holds: by_us.is_empty() && complete && changes > 0,
        seen: format!(
            "{} of {changes} changes came; {} ends with a killed server, {} without{first}",
            seen.join(" and "),
            ends.len() - by_us.len(),
            by_us.len(),
        ),
    }
}

/// The plugin runs at most once for each rotation and each refusal, and once to begin with.
pub fn runs(scene: &Scene) -> Verdict {
    let runs: usize = ACCOUNTS.iter().map(|account| scene.issuer.runs(account)).sum();
    let mut rotations = 0;
    let mut refusals = 0;
    let mut idle = String::new();
    for account in ACCOUNTS {
        for pair in scene.issuer.history(account).windows(2) {
            match reason(&pair[0], &pair[1]) {
                Some(Reason::Rotation) => rotations += 1,
                Some(Reason::Refusal) => refusals += 1,
                None => idle = format!("; for no reason: {account} {pair:?}"),
            }
        }
    }
    Verdict {
        name: "plugin runs",
        holds: runs <= rotations + refusals + ACCOUNTS.len() && rotations > 0,
        seen: format!(
            "{runs}, for {rotations} rotations, {refusals} refusals and 2 beginnings{idle}"
        ),
    }
}

enum Reason {
    Rotation,
    Refusal,
}

/// Why a credential was replaced: its time had come, or the server had refused it.
fn reason(old: &Issue, new: &Issue) -> Option<Reason> {
    /// The clock that decides is a coarse one.
    const COARSE: Duration = Duration::from_millis(20);
    /// Shorter rests are not worth a renewal ahead of the end.
    const SHORT: Duration = Duration::from_secs(2);
    let rest = old.end.duration_since(old.at).unwrap_or_default();
    let due = if rest + COARSE < SHORT { old.end } else { old.at + rest / 2 };
    if new.at + COARSE >= due {
        Some(Reason::Rotation)
    } else {
        old.revoked.is_some_and(|revoked| new.at >= revoked).then_some(Reason::Refusal)
    }
}

/// As many descriptors at the end as in the beginning.
pub fn descriptors(readings: &[Reading]) -> Verdict {
    /// Connections of a rotation that is just under way.
    const SLACK: usize = 12;
    let most = |part: &[Reading]| part.iter().map(|r| r.descriptors).max().unwrap_or_default();
    let (early, late) = quarters(readings);
    let (early, late) = (most(early), most(late));
    Verdict {
        name: "descriptors",
        holds: early > 0 && late <= early + SLACK,
        seen: format!("at most {early} in the second quarter, {late} in the last"),
    }
}

/// As much memory at the end as in the beginning.
pub fn memory(readings: &[Reading]) -> Verdict {
    /// In KiB: an allocator does not give back at once.
    const SLACK: usize = 4096;
    let middle = |part: &[Reading]| {
        let mut sorted: Vec<usize> = part.iter().map(|reading| reading.memory).collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    let (early, late) = quarters(readings);
    let (early, late) = (middle(early), middle(late));
    Verdict {
        name: "memory",
        holds: early > 0 && late <= early + early / 10 + SLACK,
        seen: format!("{early} KiB in the second quarter, {late} KiB in the last"),
    }
}

/// The second and the last: the first is for warming up.
fn quarters(readings: &[Reading]) -> (&[Reading], &[Reading]) {
    let quarter = readings.len() / 4;
    (&readings[quarter..2 * quarter], &readings[readings.len() - quarter..])
}

/// Whether a server was killed, or still down, in this time.
pub fn in_flight(storm: &Storm, begin: Instant, end: Instant) -> bool {
    /// News of a kill takes a moment on a busy machine.
    const NEWS: Duration = Duration::from_millis(500);
    storm.restarts.iter().any(|(killed, up)| begin <= *up && end >= *killed && end <= *up + NEWS)
}
