//! The watches, and the changes they are about.

use std::{
    error::Error,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::BodyExt;
use keyward::{Client, Incoming};
use serde_json::{Value, json};
use tokio::sync::watch as signal;

use crate::scene::Scene;

const EVERY: Duration = Duration::from_millis(100);
const PATH: &str = "/api/v1/namespaces/default/configmaps?watch=true";
/// Before a watch that ended is opened again.
const PAUSE: Duration = Duration::from_millis(20);
/// For what is still on its way at the end.
const LAST: Duration = Duration::from_secs(10);

/// What became of a watch.
#[derive(Debug, Default)]
pub struct Followed {
    /// Changes that came, each once and in order.
    pub seen: u64,
    /// Changes that came twice, in the wrong order or not at all.
    pub wrong: u64,
    /// When it ended before we wanted it to, and why.
    pub ends: Vec<(Instant, String)>,
}

/// Makes changes until the end. How many.
pub async fn feed(scene: Arc<Scene>, mut ending: signal::Receiver<bool>) -> u64 {
    let mut ticks = tokio::time::interval(EVERY);
    let mut count = 0;
    loop {
        tokio::select! {
            _ = ending.wait_for(|over| *over) => return count,
            _ = ticks.tick() => {}
        }
        count += 1;
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": "change" },
            "data": { "number": count.to_string() },
        });
        scene.server.store().put(&object).expect("the server takes a ConfigMap");
    }
}

/// Follows the changes from `version` on, opening the watch anew whenever it ends, until the last
/// one is known and has come.
pub async fn follow(
    client: Client,
    mut version: u64,
    mut until: signal::Receiver<Option<u64>>,
) -> Followed {
    let mut followed = Followed::default();
    let mut deadline = pin!(limit(until.clone()));
    loop {
        let why = tokio::select! {
            why = read(&client, &mut version, &mut followed, &mut until) => why,
            () = &mut deadline => return followed,
        };
        if until.borrow().is_some_and(|last| followed.seen >= last) {
            return followed;
        }
        let why = why.map_or_else(|error| error.to_string(), |()| "it ended".to_owned());
        followed.ends.push((Instant::now(), why));
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns some time after the end was announced.
async fn limit(mut until: signal::Receiver<Option<u64>>) {
    if until.wait_for(Option::is_some).await.is_ok() {
        tokio::time::sleep(LAST).await;
    }
}

/// Reads until the watch ends, or everything has come.
async fn read(
    client: &Client,
    version: &mut u64,
    followed: &mut Followed,
    until: &mut signal::Receiver<Option<u64>>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let response = client.get(&format!("{PATH}&resourceVersion={version}")).await?;
    if response.status() != 200 {
        return Err(format!("status {}", response.status()).into());
    }
    let mut body = response.into_body();
    let mut rest = Vec::new();
    while until.borrow_and_update().is_none_or(|last| followed.seen < last) {
        let line = tokio::select! {
            line = line(&mut body, &mut rest) => line?,
            _ = until.changed() => continue,
        };
        let Some(line) = line else { break };
        let event: Value = serde_json::from_slice(&line)?;
        let object = &event["object"];
        let text = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
        *version = text(&object["metadata"]["resourceVersion"]).ok_or("an event has no version")?;
        let number = text(&object["data"]["number"]).ok_or("an event has no number")?;
        if number == followed.seen + 1 {
            followed.seen = number;
        } else {
            followed.wrong += 1;
        }
    }
    Ok(())
}

/// The next line of a body; `None` at its end.
async fn line(
    body: &mut Incoming,
    rest: &mut Vec<u8>,
) -> Result<Option<Vec<u8>>, Box<dyn Error + Send + Sync>> {
    loop {
        if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let tail = rest.split_off(end + 1);
            return Ok(Some(std::mem::replace(rest, tail)));
        }
        match body.frame().await {
            None => return Ok(None),
            Some(frame) => rest.extend_from_slice(frame?.data_ref().map_or(&[], |data| &data[..])),
        }
    }
}
