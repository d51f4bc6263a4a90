//! kube-runtime's watchers and reflectors over the real server.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::ListParams,
    runtime::{
        WatchStreamExt, reflector,
        watcher::{self, Event},
    },
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::{rotation, users};
use crate::{
    Outcome,
    audit::{self, Request},
    cluster::Cluster,
};

/// Rotations that one watch must live through.
const ROTATIONS: usize = 4;
/// After how many seconds the server ends a watch that is to be opened again.
const SHORT: u32 = 5;
/// Rotations for that: they come at half of [`rotation::LIFETIME`] at the soonest, and so often that
/// hardly two watches have the same credential.
const MORE: usize = 8;
/// With how many credentials such watches must come.
const CREDENTIALS: usize = 3;

pub async fn tokens(cluster: &Cluster) -> Outcome<String> {
    lasting(cluster, &TOKENS).await
}

pub async fn certificates(cluster: &Cluster) -> Outcome<String> {
    lasting(cluster, &CERTIFICATES).await
}

pub async fn reopened_tokens(cluster: &Cluster) -> Outcome<String> {
    reopened(cluster, &TOKENS).await
}

pub async fn reopened_certificates(cluster: &Cluster) -> Outcome<String> {
    reopened(cluster, &CERTIFICATES).await
}

/// A plugin of ours, for whom it speaks, and as whom the server knows them.
struct Kind {
    name: &'static str,
    account: &'static str,
    user: &'static str,
}

const TOKENS: Kind =
    Kind { name: "token", account: "builder", user: "system:serviceaccount:default:builder" };
const CERTIFICATES: Kind = Kind { name: "certificate", account: "celia", user: "celia" };

/// One watch goes on under the credential that it began with, while the requests beside it come with
/// several others.
async fn lasting(cluster: &Cluster, kind: &Kind) -> Outcome<String> {
    let label = format!("lasting-{}", kind.name);
    let (changes, requests) =
        follow(cluster, kind, &label, watcher::Config::default(), ROTATIONS).await?;
    let watches = watches(&requests);
    let [watch] = watches[..] else {
        return Err(format!("the server saw {} watches", watches.len()).into());
    };
    if watch.ended {
        return Err("the watch has ended".into());
    }
    let used = credentials(&requests).len();
    if used < ROTATIONS {
        return Err(format!("the server saw {used} credentials").into());
    }
    Ok(format!("{changes} changes by one watch, {used} credentials beside it"))
}

/// The server ends each watch after some seconds. The next one goes on where it was, with a
/// credential that is of its own time.
async fn reopened(cluster: &Cluster, kind: &Kind) -> Outcome<String> {
    let label = format!("reopened-{}", kind.name);
    let config = watcher::Config::default().timeout(SHORT);
    let (changes, requests) = follow(cluster, kind, &label, config, MORE).await?;
    let watches = watches(&requests);
    let used: BTreeSet<&str> = watches.iter().map(|watch| &*watch.credential).collect();
    if used.len() < CREDENTIALS {
        return Err(
            format!("{} watches came with {} credentials", watches.len(), used.len()).into()
        );
    }
    current(&requests)?;
    Ok(format!("{changes} changes by {} watches with {} credentials", watches.len(), used.len()))
}

/// No watch began with a credential that others had left behind. The last request before it does not
/// count: it may have overtaken the watch.
fn current(requests: &[Request]) -> Outcome<()> {
    let order = credentials(requests);
    let age = |request: &Request| order.iter().position(|name| *name == request.credential);
    let mut lists = Vec::new();
    for request in requests {
        if request.verb != "watch" {
            lists.push(age(request));
        } else if lists.iter().rev().nth(1).is_some_and(|list| age(request) < *list) {
            return Err("a watch began with a credential that had been replaced".into());
        }
    }
    Ok(())
}

/// Makes and removes config maps as the administrator while a reflector follows with credentials
/// that end every few seconds: it sees each change once and in its order, and at the end knows what
/// is there. How many changes, and what the server wrote down about it.
async fn follow(
    cluster: &Cluster,
    kind: &Kind,
    label: &str,
    config: watcher::Config,
    rotations: usize,
) -> Outcome<(usize, Vec<Request>)> {
    let (user, runs) = users::plugin(cluster, kind.name, kind.account, rotation::LIFETIME)?;
    let agent = format!("keyward-e2e/{label}");
    let (client, target) = rotation::client(cluster, &user, &agent)?;
    let maps: Api<ConfigMap> = Api::default_namespaced(keyward_kube::wrap(client, &target));
    let selector = format!("made-for={label}");
    let (store, writer) = reflector::store();
    let stream =
        watcher::watcher(maps.clone(), config.labels(&selector)).default_backoff().reflect(writer);
    let (_guard, mut events) = listen(stream);
    let mut seen = Vec::new();
    until(&mut events, &mut seen, "ready").await?;

    let mut expected = vec!["list".to_owned(), "ready".to_owned()];
    let mut there = BTreeSet::new();
    let (mut round, mut last) = (0, false);
    // One more round under the last of the credentials.
    while !last {
        last = rotation::count(&runs) > rotations;
        let name = format!("{label}-{round}");
        cluster.apply(&config_map(label, &name)).await?;
        expected.push(format!("apply {name}"));
        there.insert(name);
        if round > 1 {
            let name = format!("{label}-{}", round - 2);
            cluster.kubectl(&["delete", "configmap", &name, "--namespace", "default"]).await?;
            expected.push(format!("delete {name}"));
            there.remove(&name);
        }
        // Somebody has to ask for something: an idle client runs no plugin.
        maps.list(&ListParams::default().labels(&selector).limit(1)).await?;
        round += 1;
    }
    until(&mut events, &mut seen, &expected[expected.len() - 1]).await?;
    if seen != expected {
        return Err(format!("{expected:?} was to be seen, and {seen:?} was").into());
    }
    let known: BTreeSet<String> = store.state().iter().map(|map| map.name_any()).collect();
    if known != there {
        return Err(format!("the reflector knows {known:?}, there is {there:?}").into());
    }
    let requests = audit::requests(&cluster.audit(), &agent)?;
    let wrong = requests.iter().find(|it| it.code != 200 || it.user != kind.user);
    match wrong {
        Some(it) => Err(format!("{} of `{}` was answered {}", it.verb, it.user, it.code).into()),
        None => Ok((expected.len() - 2, requests)),
    }
}

/// Tells what comes, a line each, or what is wrong. Ends with the guard.
fn listen(
    stream: impl futures_util::Stream<Item = watcher::Result<Event<ConfigMap>>> + Send + 'static,
) -> (Guard, UnboundedReceiver<Result<String, String>>) {
    let (tell, events) = mpsc::unbounded_channel();
    let task = tokio::spawn(stream.for_each(move |event| {
        let _ = tell.send(match event {
            Ok(Event::Init) => Ok("list".to_owned()),
            Ok(Event::InitApply(map)) => Ok(format!("found {}", map.name_any())),
            Ok(Event::InitDone) => Ok("ready".to_owned()),
            Ok(Event::Apply(map)) => Ok(format!("apply {}", map.name_any())),
            Ok(Event::Delete(map)) => Ok(format!("delete {}", map.name_any())),
            Err(error) => Err(error.to_string()),
        });
        async {}
    }));
    (Guard(task), events)
}

/// Takes what comes until this line.
async fn until(
    events: &mut UnboundedReceiver<Result<String, String>>,
    seen: &mut Vec<String>,
    line: &str,
) -> Outcome<()> {
    while seen.last().is_none_or(|last| last != line) {
        let event = events.recv().await.ok_or("the watch is over")?;
        seen.push(event.map_err(|error| format!("the watch: {error}"))?);
    }
    Ok(())
}

fn watches(requests: &[Request]) -> Vec<&Request> {
    requests.iter().filter(|request| request.verb == "watch").collect()
}

/// The credentials in the order of their first use.
fn credentials(requests: &[Request]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for request in requests {
        if !names.contains(&&*request.credential) {
            names.push(&request.credential);
        }
    }
    names
}

struct Guard(tokio::task::JoinHandle<()>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn config_map(label: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default", "labels": { "made-for": label } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(words: &[&str]) -> Vec<Request> {
        let request = |word: &&str| {
            let (verb, credential) = word.split_once(' ').unwrap_or_default();
            Request {
                user: "tom".to_owned(),
                credential: credential.to_owned(),
                verb: verb.to_owned(),
                code: 200,
                ended: true,
                received: String::new(),
            }
        };
        words.iter().map(request).collect()
    }

    #[test]
    fn a_watch_with_a_credential_that_was_replaced_is_found() {
        let good = ["list 1", "watch 1", "list 1", "list 2", "watch 1", "list 2", "watch 3"];
        assert!(current(&requests(&good)).is_ok(), "one list may overtake it");
        let bad = ["list 1", "watch 1", "list 1", "list 2", "list 2", "watch 1"];
        assert!(current(&requests(&bad)).is_err());
    }
}
