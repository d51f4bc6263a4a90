//! The user's identity at the server of each context. Servers are asked when the page is opened, and only with
//! a credential that is there already, so no login comes from looking at the page.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::StatusCode;
use http_body_util::{BodyExt as _, Collected, Limited};
use keyward::self_subject_reviews;
use keyward_host::{Credential, redact::redact};
use keyward_process::{
    clock::{Clock as _, SystemClock},
    lock,
};
use keyward_protocol::text::with_causes;
use serde_json::Value;
use tokio::{task::JoinSet, time::timeout};

use crate::{context::ServedContext, route::Route};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(60);
/// How many servers are asked for one page.
const MOST: usize = 32;
/// How much of an answer is read: it is about one user.
const LONGEST: usize = 64 * 1024;

/// What is known of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    User {
        name: String,
        groups: Vec<String>,
    },
    /// The server did not say, for this reason.
    Unknown(String),
    /// The server was not asked, for this reason.
    NotAsked(&'static str),
}

/// The answers so far.
#[derive(Default)]
pub(super) struct Identities(Mutex<HashMap<String, Answer>>);

struct Answer {
    /// The credential that was asked with.
    serial: u64,
    at: Duration,
    identity: Identity,
}

impl Identities {
    /// The identities of contexts, by their names.
    pub(super) async fn ask(&self, contexts: &[Arc<ServedContext>]) -> HashMap<String, Identity> {
        let now = SystemClock.elapsed();
        let mut all = HashMap::new();
        let mut asking = JoinSet::new();
        for context in contexts {
            let Some(route) = context.route() else { continue };
            let name = context.name.clone();
            let credential = match usable(&route).await {
                Ok(credential) => credential,
                Err(why) => {
                    all.insert(name, Identity::NotAsked(why));
                    continue;
                }
            };
            let serial = credential.serial();
            if let Some(known) = lock(&self.0).get(&name)
                && known.serial == serial
                && now < known.at + FRESH
            {
                all.insert(name, known.identity.clone());
            } else if asking.len() < MOST {
                asking.spawn(async move {
                    let asked = timeout(PATIENCE, review(&route, &credential)).await;
                    let late = || Identity::Unknown("the server did not answer within 2 s".into());
                    (name, serial, asked.unwrap_or_else(|_| late()))
                });
            } else {
                all.insert(name, Identity::NotAsked("too many contexts; load the page again"));
            }
        }
        while let Some(asked) = asking.join_next().await {
            let Ok((name, serial, identity)) = asked else { continue };
            let answer = Answer { serial, at: now, identity: identity.clone() };
            lock(&self.0).insert(name.clone(), answer);
            all.insert(name, identity);
        }
        all
    }
}

/// The credential to ask with, or why there is none that needs neither a plugin nor a person.
async fn usable(route: &Route) -> Result<Arc<Credential>, &'static str> {
    if route.signs() {
        return Err("the signer might need a PIN");
    }
    if !route.runs {
        let credential = route.source.credential().await;
        return credential.map_err(|_| "the credential cannot be read");
    }
    let credential = route.source.last().ok_or("there is no credential yet")?;
    match credential.expires() {
        Some(end) if end <= SystemClock.now() => Err("the credential has expired"),
        _ => Ok(credential),
    }
}

async fn review(route: &Route, credential: &Arc<Credential>) -> Identity {
    let unknown = |why: &str| Identity::Unknown(redact(why).into_owned());
    for request in self_subject_reviews() {
        let response = match route.client.send_with(request, credential).await {
            Ok(response) => response,
            Err(error) => return unknown(&with_causes(&error)),
        };
        match response.status() {
            StatusCode::NOT_FOUND => continue,
            code if !code.is_success() => return unknown(&format!("the server answers {code}")),
            _ => {}
        }
        let body = Limited::new(response.into_body(), LONGEST).collect().await;
        let body = body.map(Collected::to_bytes);
        let review: Option<Value> = body.ok().and_then(|body| serde_json::from_slice(&body).ok());
        let user = review.as_ref().map(|review| &review["status"]["userInfo"]);
        let Some((name, user)) = user.and_then(|user| Some((user["username"].as_str()?, user)))
        else {
            return unknown("the server's answer is not a review");
        };
        let groups = user["groups"].as_array().into_iter().flatten();
        let groups = groups.filter_map(Value::as_str).map(str::to_owned).collect();
        return Identity::User { name: name.to_owned(), groups };
    }
    unknown("the server does not have the API `SelfSubjectReview`, which is new in Kubernetes 1.28")
}
