//! The requests.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use keyward::{Client, Kind};
use tokio::{sync::watch as signal, task::JoinSet, time::MissedTickBehavior};

/// Each of two clients asks this often: 200 requests a second in all.
const EVERY: Duration = Duration::from_millis(10);

/// Requests a second of all clients together.
pub const RATE: f64 = 200.0;

/// What became of the requests.
#[derive(Default)]
pub struct Traffic {
    pub sent: AtomicU64,
    failed: Mutex<Vec<Failed>>,
}

/// A request that was not answered with 200.
#[derive(Debug, Clone)]
pub struct Failed {
    pub begin: Instant,
    pub end: Instant,
    /// The connection, or the attempt to make one, was lost; there was no answer.
    pub lost: bool,
    pub what: String,
}

impl Traffic {
    /// The requests that failed.
    pub fn failed(&self) -> MutexGuard<'_, Vec<Failed>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks at a steady pace until the end, and waits for the last answer.
pub async fn drive(traffic: Arc<Traffic>, client: Client, mut ending: signal::Receiver<bool>) {
    let mut ticks = tokio::time::interval(EVERY);
    // Late is no excuse for fewer.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            _ = ending.wait_for(|over| *over) => break,
            _ = ticks.tick() => {}
        }
        while open.try_join_next().is_some() {}
        let (traffic, client) = (traffic.clone(), client.clone());
        open.spawn(async move {
            traffic.sent.fetch_add(1, Ordering::Relaxed);
            let begin = Instant::now();
            if let Err((lost, what)) = ask(&client).await {
                traffic.failed().push(Failed { begin, end: Instant::now(), lost, what });
            }
        });
    }
    while open.join_next().await.is_some() {}
}

/// Asks again as soon as there is an answer, until the end.
pub async fn repeat(traffic: Arc<Traffic>, client: Client, ending: signal::Receiver<bool>) {
    while !*ending.borrow() {
        traffic.sent.fetch_add(1, Ordering::Relaxed);
        let begin = Instant::now();
        if let Err((lost, what)) = ask(&client).await {
            traffic.failed().push(Failed { begin, end: Instant::now(), lost, what });
            // Whoever finds nobody at home does not ring without pause.
            tokio::time::sleep(EVERY).await;
        }
    }
}

async fn ask(client: &Client) -> Result<(), (bool, String)> {
    let response = client.get("/healthz").await.map_err(|error| {
        (matches!(error.kind(), Kind::Lost | Kind::Connect), format!("{error:?}"))
    })?;
    if response.status() != 200 {
        return Err((false, format!("status {}", response.status())));
    }
    match response.into_body().bytes().await {
        Ok(_) => Ok(()),
        Err(error) => Err((true, error.to_string())),
    }
}
