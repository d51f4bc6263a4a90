//! What the API server has written down: who asked for what, and with which credential.

use std::{collections::HashMap, fs, path::Path};

use serde_json::Value;

use crate::{Outcome, steps::same};

/// A request, as far as it has come.
pub struct Request {
    /// As whom; empty for somebody who was refused at the door.
    pub user: String,
    /// The credential that was used.
    pub credential: String,
    /// What for, as in a rule of RBAC.
    pub verb: String,
    /// The status of the answer.
    pub code: u64,
    /// Whether the answer has ended; that of a watch goes on.
    pub ended: bool,
    /// When it came, as the server writes times.
    pub received: String,
}

/// The requests that have this word in what is written about them, such as the agent that asked, in
/// the order in which they came.
pub fn requests(log: &Path, word: &str) -> Outcome<Vec<Request>> {
    let mut seen = HashMap::new();
    for event in events(log, word)? {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let ended = event["stage"] != "ResponseStarted";
        let request = seen.entry(text(&event["auditID"])).or_insert(Request {
            user: text(&event["user"]["username"]),
            credential: same::which(&event["user"]),
            verb: text(&event["verb"]),
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            ended,
            received: text(&event["requestReceivedTimestamp"]),
        });
        request.ended |= ended;
    }
    let mut requests: Vec<Request> = seen.into_values().collect();
    // Times of one length in one zone: their order is that of their text.
    requests.sort_by(|one, two| one.received.cmp(&two.received));
    Ok(requests)
}

/// All that is written about these requests, line by line.
pub fn events(log: &Path, word: &str) -> Outcome<Vec<Value>> {
    let text = fs::read_to_string(log)?;
    // The last line may be on its way.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().filter(|line| line.contains(word));
    Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?)
}
