//! Watches: the changes of a kind as they happen.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    super::{
        Body, Shared,
        answer::{Answer, failure, status_object},
    },
    kind::Kind,
    query::Query,
    selector::Selector,
    store::Change,
};

/// How often a quiet watch that asked for it is told how far it has come.
const BOOKMARK: Duration = Duration::from_secs(10);

/// What is watched.
pub(crate) struct Watch {
    pub(crate) kind: &'static Kind,
    /// Empty for all.
    pub(crate) namespace: String,
    pub(crate) selector: Selector,
}

/// Answers with a stream of events.
pub(crate) fn answer(shared: &Arc<Shared>, watch: Watch, query: &Query) -> Answer {
    let bookmarks = query.flag("allowWatchBookmarks");
    let initial = query.flag("sendInitialEvents");
    let asked = query.value("resourceVersion");
    let version: u64 = match asked.parse() {
        _ if asked.is_empty() => 0,
        Ok(version) => version,
        Err(_) => return failure(StatusCode::BAD_REQUEST, "invalid resource version"),
    };
    // Version 0 and none mean: all there is now, then what comes. So does asking for it.
    let from_now = version == 0 || initial;
    let limit = query.value("timeoutSeconds").parse().ok();
    let (sender, body) = Body::stream();
    let shared = shared.clone();
    tokio::spawn(async move {
        let mut run = Run { sender, watch, bookmarks, version };
        let work = run.go(&shared, from_now, initial);
        // The client that leaves drops the body, which ends the sending.
        match limit.filter(|seconds| *seconds > 0) {
            Some(seconds) => {
                let _ = tokio::time::timeout(Duration::from_secs(seconds), work).await;
                run.bookmark(false).await;
            }
            None => {
                work.await;
            }
        }
    });
    let mut answer = Answer::new(body);
    crate::server::answer::set(&mut answer, http::header::CONTENT_TYPE, "application/json");
    answer
}

struct Run {
    sender: mpsc::Sender<Bytes>,
    watch: Watch,
    bookmarks: bool,
    version: u64,
}

impl Run {
    /// Sends until the client leaves; `None` says that it did.
    async fn go(&mut self, shared: &Shared, from_now: bool, initial: bool) -> Option<()> {
        let mut versions = shared.store.versions();
        if from_now {
            let (objects, version) = shared.store.list(self.watch.kind, &self.watch.namespace);
            self.version = version;
            for object in objects {
                if self.watch.selector.matches(&object) {
                    self.send("ADDED", &object).await?;
                }
            }
            if initial {
                self.bookmark(true).await?;
            }
        }
        let mut told = tokio::time::Instant::now();
        loop {
            versions.borrow_and_update();
            let Some((changes, version)) = shared.store.since(self.version) else {
                // An event even when it is the first: the real server answers 200 and then this,
                // and clients list anew only when they see it.
                let gone = status_object(StatusCode::GONE, &too_old(self.version));
                return self.send("ERROR", &gone).await;
            };
            for change in &changes {
                if let Some(event) = self.watch.sees(change) {
                    self.send(event, &change.object).await?;
                }
            }
            self.version = version;
            let quiet = BOOKMARK.saturating_sub(told.elapsed());
            tokio::select! {
                news = versions.changed() => news.ok()?,
                () = tokio::time::sleep(quiet), if self.bookmarks => {
                    self.bookmark(false).await?;
                    told = tokio::time::Instant::now();
                }
                () = self.sender.closed() => return None,
            }
        }
    }

    async fn bookmark(&self, initial: bool) -> Option<()> {
        if !self.bookmarks {
            return Some(());
        }
        let mut object = json!({
            "kind": self.watch.kind.name,
            "apiVersion": self.watch.kind.api_version(),
            "metadata": { "resourceVersion": self.version.to_string() },
        });
        if initial {
            object["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        self.send("BOOKMARK", &object).await
    }

    async fn send(&self, event: &str, object: &Value) -> Option<()> {
        let mut line = json!({ "type": event, "object": object }).to_string();
        line.push('\n');
        self.sender.send(line.into()).await.ok()
    }
}

impl Watch {
    /// What this change is to those who see only what the selector lets through.
    fn sees(&self, change: &Change) -> Option<&'static str> {
        let here = self.namespace.is_empty()
            || change.object["metadata"]["namespace"] == self.namespace.as_str();
        if change.kind != self.kind || !here {
            return None;
        }
        let before = change.before.as_ref().is_some_and(|object| self.selector.matches(object));
        let after = !change.gone && self.selector.matches(&change.object);
        match (before, after) {
            (false, true) => Some("ADDED"),
            (true, true) => Some("MODIFIED"),
            (true, false) => Some("DELETED"),
            (false, false) => None,
        }
    }
}

fn too_old(version: u64) -> String {
    format!("too old resource version: {version}")
}
