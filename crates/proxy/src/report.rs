//! What the owner can query: metrics, and the status of the contexts.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use keyward_host::{Credential, PastRun, redact::redact};
use keyward_process::{
    clock::{Clock, SystemClock},
    lock,
};
use keyward_protocol::{
    jwt::Claims,
    prometheus::{Family, Text},
    url,
};
use serde_json::{Value, json};

use crate::{
    context::{ServedContext, ServedContexts, State},
    grants::{Grant, Grants, RecentRequest},
    metrics::Metrics,
    reload::ReloadStats,
    request_stats::RequestStats,
    route::Route,
};

/// How many runs are reported, and how many streams of each context.
const RUNS: usize = 50;
const STREAMS: usize = 100;

/// What a running proxy reports about itself.
pub(crate) struct Report {
    /// The name of the service, if it is one.
    pub(crate) service: Option<String>,
    pub(crate) url: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) contexts: Arc<ServedContexts>,
    pub(crate) grants: Grants,
    pub(crate) reloads: Arc<ReloadStats>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: Timestamp,
}

const REQUESTS: Family =
    Family::counter("keyward_proxy_requests_total", "requests of clients, by response code");
const REFUSALS: Family =
    Family::counter("keyward_proxy_refusals_total", "requests that were not forwarded");
const LATENCY: Family = Family::histogram(
    "keyward_proxy_request_duration_seconds",
    "time until the headers of the response",
);
const OPEN: Family =
    Family::gauge("keyward_proxy_requests_open", "open requests, including streams");
const UPGRADES_OPEN: Family = Family::gauge("keyward_proxy_upgrades_open", "open upgraded streams");
const UPGRADES: Family =
    Family::counter("keyward_proxy_upgrades_total", "upgraded streams, by protocol");
const RELOADS: Family = Family::counter(
    "keyward_proxy_config_reloads_total",
    "changes of the kubeconfig or kuberc, by whether they were applied",
);
const RELOADED: Family = Family::gauge(
    "keyward_proxy_config_last_reload_successful",
    "whether the current kubeconfig and kuberc are in force",
);
const SERVED: Family = Family::gauge(
    "keyward_proxy_context_served",
    "whether the kubeconfig and kuberc allow a context to be served",
);
const REFRESHED: Family = Family::gauge(
    "keyward_proxy_last_refresh_successful",
    "whether the last attempt to get a credential for a context succeeded",
);
const EXPIRY: Family = Family::gauge(
    "keyward_proxy_credential_expiry_timestamp_seconds",
    "when the credential of a context expires, as Unix time",
);

impl Report {
    /// Metrics in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        let mut text = Text::default();
        self.metrics.write(&mut text, SystemClock.now());
        self.write_config(&mut text);
        self.write_credentials(&mut text);
        self.write_requests(&mut text);
        text.into_string()
    }

    fn write_config(&self, text: &mut Text) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (taken, broken) = (read(&self.reloads.taken), read(&self.reloads.broken));
        let mut reloads = text.family(RELOADS);
        reloads.sample(&[("outcome", "failure")], broken);
        reloads.sample(&[("outcome", "success")], taken);
        text.family(RELOADED).sample(&[], u8::from(lock(&self.reloads.last).fault.is_none()));
        let mut served = text.family(SERVED);
        for context in self.contexts.all().iter() {
            served.sample(&[("context", &context.name)], u8::from(context.route().is_some()));
        }
    }

    fn write_credentials(&self, text: &mut Text) {
        let all = self.contexts.all();
        let routes = || all.iter().filter_map(|context| Some((&*context.name, context.route()?)));
        let mut refreshed = text.family(REFRESHED);
        for (name, route) in routes() {
            let history = route.source.history();
            if history.ran.is_some() {
                refreshed.sample(&[("context", name)], u8::from(history.error.is_none()));
            }
        }
        let mut expiry = text.family(EXPIRY);
        for (name, route) in routes() {
            // Also when it has expired and there is no new one.
            if let Some(end) = route.source.last().and_then(|credential| credential.expires()) {
                expiry.sample(&[("context", name)], end.as_second());
            }
        }
    }

    fn write_requests(&self, text: &mut Text) {
        let all = self.contexts.all();
        let mut requests = text.family(REQUESTS);
        for (context, stats) in stats(&all) {
            for (code, count) in stats.codes() {
                requests.sample(&[("context", context), ("code", &code.to_string())], count);
            }
        }
        let mut refusals = text.family(REFUSALS);
        for (context, stats) in stats(&all) {
            for (reason, count) in lock(&stats.refused).iter() {
                refusals.sample(&[("context", context), ("reason", reason)], count);
            }
        }
        let mut latency = text.family(LATENCY);
        for (context, stats) in stats(&all) {
            latency.histogram(&[("context", context)], &stats.latency);
        }
        let mut open = text.family(OPEN);
        for (context, stats) in stats(&all) {
            open.sample(&[("context", context)], stats.open.load(Ordering::Relaxed));
        }
        let mut open = text.family(UPGRADES_OPEN);
        for (context, stats) in stats(&all) {
            open.sample(&[("context", context)], stats.tunnels.load(Ordering::Relaxed));
        }
        let mut upgrades = text.family(UPGRADES);
        for (context, stats) in stats(&all) {
            for (protocol, count) in [("websocket", &stats.websocket), ("spdy", &stats.spdy)] {
                let count = count.load(Ordering::Relaxed);
                upgrades.sample(&[("context", context), ("protocol", protocol)], count);
            }
        }
    }

    /// The status for `keyward proxy status`; docs/cli.md has the schema.
    pub(crate) fn status(&self) -> Value {
        let all = self.contexts.all();
        let config = lock(&self.reloads.last);
        json!({
            "pid": std::process::id(),
            "service": self.service,
            "url": self.url,
            "kubeconfig": self.kubeconfig,
            "started": self.started.to_string(),
            // What is in force of the kubeconfig and kuberc, and what is wrong with a newer version.
            "config": {
                "version": self.reloads.taken.load(Ordering::Relaxed) + 1,
                "since": config.since.to_string(),
                "fault": config.fault.clone().map(error),
            },
            "contexts": all.iter().map(|served| context(served)).collect::<Vec<_>>(),
            "grants": self.grants.list().iter().map(|one| grant(one)).collect::<Vec<_>>(),
            "runs": runs(&all),
        })
    }
}

fn stats(all: &[Arc<ServedContext>]) -> impl Iterator<Item = (&str, &RequestStats)> {
    all.iter().map(|context| (&*context.name, &*context.stats))
}

fn grant(grant: &Grant) -> Value {
    json!({
        "name": grant.stored.name,
        "context": grant.stored.context,
        "rules": grant.stored.rules.words(),
        "expires": grant.expires.to_string(),
        "requests": grant.requests.load(Ordering::Relaxed),
        "denied": grant.denied.load(Ordering::Relaxed),
        "connections": grant.connections.load(Ordering::Relaxed),
        "recent": lock(&grant.recent).iter().rev().map(recent).collect::<Vec<_>>(),
    })
}

fn recent(request: &RecentRequest) -> Value {
    json!({
        "at": request.at.to_string(),
        "verb": request.verb,
        "resource": request.resource,
        "namespace": request.namespace,
        "name": request.name,
        "status": request.status,
        "allowed": request.allowed,
    })
}

/// The last runs for the credentials of all contexts, the newest first. Contexts with the same user
/// share them.
fn runs(all: &[Arc<ServedContext>]) -> Vec<Value> {
    let mut sources: Vec<(Arc<Route>, VecDeque<PastRun>, Vec<&str>)> = Vec::new();
    for served in all {
        let Some(route) = served.route().filter(|route| route.runs) else { continue };
        let known = sources.iter_mut().find(|(known, ..)| known.source.same(&route.source));
        if let Some((.., names)) = known {
            names.push(&served.name);
            continue;
        }
        let recent = route.source.history().recent;
        if !recent.is_empty() {
            sources.push((route, recent, vec![&served.name]));
        }
    }
    let mut runs: Vec<(Timestamp, Value)> = Vec::new();
    for (route, recent, names) in sources {
        runs.extend(recent.into_iter().map(|run| {
            let value = json!({
                "at": run.ended.to_string(),
                "seconds": run.took.as_secs_f64(),
                "program": route.program,
                "contexts": names,
                "error": run.error.as_deref().map(redact),
            });
            (run.ended, value)
        }));
    }
    runs.sort_by_key(|(at, _)| Reverse(*at));
    runs.truncate(RUNS);
    runs.into_iter().map(|(_, run)| run).collect()
}

fn context(served: &ServedContext) -> Value {
    let state = served.state();
    let errors = served.errors();
    let noted = errors.first().map(|last| (last.at, last.message.clone()));
    let streams = served.stats.streams(STREAMS);
    let shared = json!({
        "name": served.name,
        "url": served.url,
        "fault": *lock(&served.fault),
        "requests": served.stats.codes().map(|(_, count)| count).sum::<u64>(),
        "open": served.stats.open.load(Ordering::Relaxed),
        "errors": errors.iter().map(|error| json!({
            "at": error.at.to_string(), "message": error.message, "times": error.times,
        })).collect::<Vec<_>>(),
        "streams": streams.iter().map(|stream| json!({
            "kind": stream.kind, "path": stream.path, "since": stream.since.to_string(),
        })).collect::<Vec<_>>(),
    });
    let own = match &*state {
        State::Open(route) => of_route(route, noted),
        State::Closed(refusal) => {
            json!({ "closed": refusal.message, "lastError": noted.map(error) })
        }
    };
    match (shared, own) {
        (Value::Object(mut all), Value::Object(own)) => {
            all.extend(own);
            all.into()
        }
        (shared, _) => shared,
    }
}

/// What is known of a context that is served. `noted` is the last error that a client was told.
fn of_route(route: &Route, noted: Option<(Timestamp, String)>) -> Value {
    let history = route.source.history();
    // The status matters most when the credential has expired and there is no new one.
    let credential = route.source.last();
    let now = SystemClock.now();
    let age = history.came.map(|came| now.duration_since(came).as_secs());
    let failed = history.error.as_ref().zip(history.ran);
    let last_error = match (failed, noted) {
        (Some((error, at)), noted) if noted.as_ref().is_none_or(|(when, _)| *when < at) => {
            Some((at, redact(&error.to_string()).into_owned()))
        }
        (_, noted) => noted,
    };
    json!({
        "closed": null,
        "server": url::mask(&route.target.cluster.value.server),
        "user": route.target.user.name,
        "identity": credential.as_deref().and_then(identity),
        "credential": credential.as_ref().map(|credential| json!({
            "kind": kind(credential),
            "ageSeconds": age,
            "since": history.came.map(|came| came.to_string()),
            "expires": credential.expires().map(|at| at.to_string()),
            "expired": credential.expires().is_some_and(|at| at <= now),
        })),
        "lastRun": history.ran.filter(|_| route.runs).map(|ran| json!({
            "at": ran.to_string(),
            "seconds": history.took.as_secs_f64(),
            "succeeded": history.error.is_none(),
        })),
        "lastError": last_error.map(error),
    })
}

fn error((at, message): (Timestamp, String)) -> Value {
    json!({ "at": at.to_string(), "message": message })
}

fn kind(credential: &Credential) -> &'static str {
    let token = credential.authorization().is_some();
    match (credential.pair().is_some(), credential.signer().is_some(), token) {
        (_, true, _) => "external signer",
        (true, _, true) => "certificate and token",
        (true, _, false) => "certificate",
        (false, _, true) => "token",
        _ => "none",
    }
}

/// The user that the credential names: the certificate's common name, or the subject of a JWT.
fn identity(credential: &Credential) -> Option<String> {
    if let Some(name) = credential.pair().and_then(|pair| pair.common_name.clone()) {
        return Some(name);
    }
    if let Some(name) = credential.signer().and_then(|signer| signer.common_name.clone()) {
        return Some(name);
    }
    let claims = Claims::read(credential.token()?.expose())?;
    claims.text("sub").map(str::to_owned)
}
