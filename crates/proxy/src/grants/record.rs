//! One request of a grant's consumer: the rules decide about it once, and the log records it once.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::{Request, Response, header::UPGRADE};
use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::text::inline;
use serde_json::{Map, Value, json};

use super::{
    Grant, RecentRequest,
    attributes::{Attributes, Object, Query},
};
use crate::refusal::{
    GRANT_AUTHORIZATION, GRANT_IMPERSONATION, IMPERSONATION, OWN_AUTHORIZATION, Refusal,
};

/// The parts of a query that are recorded. Others may be secret, as the words of a command.
const KEYS: [&str; 12] = [
    "allowWatchBookmarks",
    "container",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "follow",
    "force",
    "labelSelector",
    "limit",
    "previous",
    "propagationPolicy",
    "watch",
];

/// Reasons of refusals that are about the owner's files.
const OF_OWNER: [&str; 3] = ["config", "policy", "context"];

/// The longest value that is recorded, in characters.
const LONGEST: usize = 256;

/// The longest value in a line that would be too long otherwise.
const SHORT: usize = 48;

/// The longest line. Long ones would soon push older ones out of the log.
const LONGEST_LINE: usize = 2048;

/// A request. It is recorded when this is dropped, also if the consumer leaves before the answer.
pub(crate) struct Record {
    grant: Arc<Grant>,
    at: jiff::Timestamp,
    begun: Duration,
    method: String,
    attributes: Option<Attributes>,
    query: Map<String, Value>,
    decision: Result<(), Refusal>,
    status: Option<u16>,
}

impl Record {
    /// Decides about a request.
    pub(crate) fn begin<B>(grant: &Arc<Grant>, request: &Request<B>) -> Self {
        let (method, uri) = (request.method(), request.uri());
        let read = Attributes::of(method, uri, request.headers().contains_key(UPGRADE));
        let decision = match &read {
            Err(refusal) => Err(refusal.clone()),
            Ok(attributes) if !grant.stored.rules.allows(attributes) => {
                Err(Refusal::closed("grant", denial(grant, attributes)))
            }
            Ok(_) => grant.log.ready().map_err(|error| {
                let name = &grant.stored.name;
                let message = format!("the log of grant `{name}` cannot be written: {error}");
                Refusal::unrecorded(message)
            }),
        };
        let query = uri.query().and_then(|query| Query::parse(query).ok());
        grant.requests.fetch_add(1, Ordering::Relaxed);
        Self {
            grant: grant.clone(),
            at: SystemClock.now(),
            begun: SystemClock.elapsed(),
            method: shortened(method.as_str(), SHORT).to_ascii_lowercase(),
            attributes: read.ok(),
            query: query.map(|query| recorded(&query)).unwrap_or_default(),
            decision,
            status: None,
        }
    }

    /// Combines the decision with what the listener's gate says of the request.
    pub(crate) fn combine_with_gate<T>(&mut self, gate: Result<T, Refusal>) -> Result<T, Refusal> {
        match (gate, &self.decision) {
            (Ok(passed), Ok(())) => Ok(passed),
            (Ok(_), Err(refusal)) => Err(refusal.clone()),
            (Err(refusal), _) => {
                // No flag of the proxy allows these to consumers.
                let refusal = match refusal {
                    refusal if refusal == IMPERSONATION => GRANT_IMPERSONATION,
                    refusal if refusal == OWN_AUTHORIZATION => GRANT_AUTHORIZATION,
                    refusal => refusal,
                };
                self.decision = Err(refusal.clone());
                Err(refusal)
            }
        }
    }

    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.grant
    }

    /// A refusal as the consumer may read it: why the owner's credential or kubeconfig does not work is
    /// the owner's business.
    pub(crate) fn discreet(&self, refusal: Refusal) -> Refusal {
        if refusal.reason.is_some_and(|reason| !OF_OWNER.contains(&reason)) {
            return refusal;
        }
        let context = inline(&self.grant.stored.context);
        let message = format!(
            "context `{context}` cannot be used now; its owner sees why with `keyward proxy status`"
        );
        Refusal { message: message.into(), ..refusal }
    }

    /// The answer that the consumer gets.
    pub(crate) fn answered<B>(&mut self, response: &Response<B>) {
        self.status = Some(response.status().as_u16());
    }

    fn line(&self) -> String {
        let mut line = self.entry(LONGEST);
        if !self.query.is_empty() {
            line["query"] = Value::Object(self.query.clone());
        }
        let text = line.to_string();
        if text.len() <= LONGEST_LINE {
            return text;
        }
        let mut line = self.entry(SHORT);
        line["shortened"] = true.into();
        line.to_string()
    }

    fn entry(&self, longest: usize) -> Value {
        let took = SystemClock.elapsed().saturating_sub(self.begun);
        let mut line = json!({
            "time": self.at.to_string(),
            "grant": self.grant.stored.name,
            "context": shortened(&self.grant.stored.context, longest),
            "allowed": self.decision.is_ok(),
            "status": self.status,
            "ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        match &self.attributes {
            // The path of such a request could be anything.
            None => line["verb"] = self.method.as_str().into(),
            Some(Attributes::Path { path, .. }) => {
                line["verb"] = self.method.as_str().into();
                line["path"] = shortened(path, longest).into();
            }
            Some(Attributes::Object(object)) => {
                line["verb"] = object.verb.into();
                line["resource"] = shortened(&object.in_rule_form(), longest).into();
                line["namespace"] = shortened(&object.namespace, longest).into();
                line["name"] = shortened(&object.name, longest).into();
            }
        }
        line
    }

    fn recent(&self) -> RecentRequest {
        let (verb, resource, namespace, name) = match &self.attributes {
            None => (self.method.clone(), String::new(), String::new(), String::new()),
            Some(Attributes::Path { path, .. }) => {
                (self.method.clone(), shortened(path, LONGEST), String::new(), String::new())
            }
            Some(Attributes::Object(object)) => (
                object.verb.to_owned(),
                shortened(&object.in_rule_form(), LONGEST),
                shortened(&object.namespace, LONGEST),
                shortened(&object.name, LONGEST),
            ),
        };
        let (at, status, allowed) = (self.at, self.status, self.decision.is_ok());
        RecentRequest { at, verb, resource, namespace, name, status, allowed }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.decision.is_err() {
            self.grant.denied.fetch_add(1, Ordering::Relaxed);
        }
        self.grant.log.write(&self.line(), self.decision.is_ok());
        self.grant.remember(self.recent());
    }
}

/// What the consumer reads.
fn denial(grant: &Grant, attributes: &Attributes) -> String {
    let name = &grant.stored.name;
    match attributes {
        Attributes::Path { verb, path } => {
            format!("grant `{name}` does not allow `{} {}`", inline(verb), inline(path))
        }
        Attributes::Object(object) => {
            let Object { verb, namespace, .. } = object;
            let (verb, resource) = (inline(verb), inline(&object.in_rule_form()));
            let rules = &grant.stored.rules;
            let next = if rules.reaches(object) {
                format!("`--allow {verb}:{resource}` would")
            } else {
                format!("it is for {}", rules.namespaces.join(", "))
            };
            let place = match namespace.as_str() {
                "" => "for the whole cluster".to_owned(),
                namespace => format!("in namespace `{}`", inline(namespace)),
            };
            format!("grant `{name}` does not allow `{verb} {resource}` {place}; {next}")
        }
    }
}

fn recorded(query: &Query) -> Map<String, Value> {
    let pairs = KEYS.iter().filter_map(|key| Some((*key, query.values(key).next()?)));
    pairs.map(|(key, value)| (key.to_owned(), shortened(value, LONGEST).into())).collect()
}

fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
