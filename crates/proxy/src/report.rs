//! What the owner can query: metrics, and the status of the contexts.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use keyward_host::{Credential, redact::redact};
use keyward_process::clock::{Clock, SystemClock};
use keyward_protocol::{
    jwt::Claims,
    prometheus::{Family, Text},
    url,
};
use serde_json::{Value, json};

use crate::{
    context::{ServedContext, ServedContexts, State},
    grants::{GrantStatus, Grants},
    metrics::Metrics,
    reload::ReloadStats,
    request_stats::RequestStats,
};

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
        text.family(RELOADED).sample(&[], u8::from(self.reloads.last().fault.is_none()));
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
            for (reason, count) in stats.refusals().iter() {
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
        json!({
            "pid": std::process::id(),
            "service": self.service,
            "url": self.url,
            "kubeconfig": self.kubeconfig,
            "started": self.started.to_string(),
            "config": self.config(),
            "contexts": all.iter().map(|served| context(served)).collect::<Vec<_>>(),
            "grants": self.grants.list().iter().map(grant).collect::<Vec<_>>(),
        })
    }
}

impl Report {
    /// The version of the kubeconfig and kuberc in force, and what is wrong with a newer one.
    fn config(&self) -> Value {
        let last = self.reloads.last();
        json!({
            "version": self.reloads.taken.load(Ordering::Relaxed) + 1,
            "since": last.since.to_string(),
            "fault": last.fault.map(error),
        })
    }
}

fn stats(all: &[Arc<ServedContext>]) -> impl Iterator<Item = (&str, &RequestStats)> {
    all.iter().map(|context| (&*context.name, &*context.stats))
}

fn grant(status: &GrantStatus) -> Value {
    json!({
        "name": status.name,
        "context": status.context,
        "rules": status.rules,
        "expires": status.expires.to_string(),
        "requests": status.requests,
        "denied": status.denied,
        "connections": status.connections,
    })
}

fn context(served: &ServedContext) -> Value {
    let state = served.state();
    let route = match &*state {
        State::Open(route) => route,
        State::Closed(refusal) => {
            return json!({
                "name": served.name,
                "url": served.url,
                "closed": refusal.message,
                "lastError": served.last_error().map(error),
                "requests": served.stats.codes().map(|(_, count)| count).sum::<u64>(),
                "open": served.stats.open.load(Ordering::Relaxed),
            });
        }
    };
    let history = route.source.history();
    // The status matters most when the credential has expired and there is no new one.
    let credential = route.source.last();
    let now = SystemClock.now();
    let age = history.came.map(|came| now.duration_since(came).as_secs());
    let failed = history.error.as_ref().zip(history.ran);
    let last_error = match (failed, served.last_error()) {
        (Some((error, at)), noted) if noted.as_ref().is_none_or(|(when, _)| *when < at) => {
            Some((at, redact(&error.to_string()).into_owned()))
        }
        (_, noted) => noted,
    };
    json!({
        "name": served.name,
        "url": served.url,
        "closed": null,
        "server": url::mask(&route.target.cluster.value.server),
        "user": route.target.user.name,
        "identity": credential.as_deref().and_then(identity),
        "credential": credential.as_ref().map(|credential| json!({
            "kind": kind(credential),
            "ageSeconds": age,
            "expires": credential.expires().map(|at| at.to_string()),
            "expired": credential.expires().is_some_and(|at| at <= now),
        })),
        "lastRun": history.ran.filter(|_| route.runs).map(|ran| json!({
            "at": ran.to_string(),
            "seconds": history.took.as_secs_f64(),
            "succeeded": history.error.is_none(),
        })),
        "lastError": last_error.map(error),
        "requests": served.stats.codes().map(|(_, count)| count).sum::<u64>(),
        "open": served.stats.open.load(Ordering::Relaxed),
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
