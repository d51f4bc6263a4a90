//! The logs of pods, written by the test and read by clients.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::super::{
    Body, Shared,
    answer::{Answer, text_answer},
    api::query::Query,
};

/// What the pods have written.
#[derive(Debug, Default)]
pub struct Logs {
    logs: Mutex<HashMap<(String, String), Log>>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Log {
    lines: Vec<Bytes>,
    ended: bool,
}

impl Logs {
    /// Lets a pod write a line.
    pub fn write(&self, namespace: &str, pod: &str, line: &str) {
        self.with(namespace, pod, |log| log.lines.push(format!("{line}\n").into()));
    }

    /// Ends a pod's log: clients that follow it come to the end.
    pub fn end(&self, namespace: &str, pod: &str) {
        self.with(namespace, pod, |log| log.ended = true);
    }

    /// Sends what is written from now on, until the log ends or nobody listens.
    pub(crate) async fn follow_from_now(
        &self,
        namespace: &str,
        pod: &str,
        sender: mpsc::Sender<Bytes>,
    ) {
        let (lines, _) = self.from(namespace, pod, 0);
        follow(self, namespace, pod, lines.len(), sender).await;
    }

    fn with(&self, namespace: &str, pod: &str, act: impl FnOnce(&mut Log)) {
        let key = (namespace.to_owned(), pod.to_owned());
        act(self.logs().entry(key).or_default());
        self.changes.send_modify(|count| *count += 1);
    }

    /// The lines from this one on, and whether there will be no more.
    fn from(&self, namespace: &str, pod: &str, line: usize) -> (Vec<Bytes>, bool) {
        let logs = self.logs();
        let key = (namespace.to_owned(), pod.to_owned());
        logs.get(&key).map_or((Vec::new(), false), |log| {
            let lines = log.lines.get(line..).unwrap_or_default();
            (lines.to_vec(), log.ended)
        })
    }

    fn logs(&self) -> MutexGuard<'_, HashMap<(String, String), Log>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a request for the log of a pod that is there.
pub(crate) fn answer(shared: &Arc<Shared>, namespace: &str, pod: &str, query: &Query) -> Answer {
    let (lines, _) = shared.logs.from(namespace, pod, 0);
    let tail: Option<usize> = query.value("tailLines").parse().ok();
    let begin = tail.map_or(0, |tail| lines.len().saturating_sub(tail));
    if !query.flag("follow") {
        return text_answer(Body::from(lines[begin..].concat()));
    }
    let (sender, body) = Body::stream();
    let (shared, namespace, pod) = (shared.clone(), namespace.to_owned(), pod.to_owned());
    tokio::spawn(async move {
        follow(&shared.logs, &namespace, &pod, begin, sender).await;
    });
    text_answer(body)
}

/// Sends lines until the log ends or the client leaves; `None` says that it left.
async fn follow(
    logs: &Logs,
    namespace: &str,
    pod: &str,
    mut next: usize,
    sender: mpsc::Sender<Bytes>,
) -> Option<()> {
    let mut changes = logs.changes.subscribe();
    loop {
        changes.borrow_and_update();
        let (lines, ended) = logs.from(namespace, pod, next);
        next += lines.len();
        for line in lines {
            sender.send(line).await.ok()?;
        }
        if ended {
            return Some(());
        }
        tokio::select! {
            news = changes.changed() => news.ok()?,
            () = sender.closed() => return None,
        }
    }
}
