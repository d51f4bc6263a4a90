//! What the owner can query: metrics, and the status of the contexts.

use std::{
    fmt::Write as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use keyward_host::{Credential, redact::redact};
use keyward_process::clock::{Clock, SystemClock};
use keyward_protocol::{jwt::Claims, url};
use serde_json::{Value, json};

use crate::{
    context::{ServedContext, State},
    metrics::{Metrics, head, histogram},
    reload::ReloadStats,
    request_stats::RequestStats,
};

/// What a running proxy reports about itself.
pub(crate) struct Report {
    pub(crate) url: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) contexts: Vec<Arc<ServedContext>>,
    pub(crate) reloads: Arc<ReloadStats>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) started: Timestamp,
}

type Count = fn(&RequestStats) -> u64;

impl Report {
    /// Metrics in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        let mut out = String::new();
        self.metrics.write(&mut out, SystemClock.now());
        self.write_versions(&mut out);
        let name = "keyward_proxy_requests_total";
        head(&mut out, name, "counter", "requests of clients, by response code");
        for (label, stats) in self.stats() {
            for (code, count) in stats.codes() {
                let _ = writeln!(out, "{name}{{{label},code=\"{code}\"}} {count}");
            }
        }
        let name = "keyward_proxy_refusals_total";
        head(&mut out, name, "counter", "requests that were not forwarded");
        for (label, stats) in self.stats() {
            for (reason, count) in stats.refusals().iter() {
                let _ = writeln!(out, "{name}{{{label},reason=\"{reason}\"}} {count}");
            }
        }
        let name = "keyward_proxy_request_duration_seconds";
        head(&mut out, name, "histogram", "time to the first byte of a response");
        for (label, stats) in self.stats() {
            histogram(&mut out, name, &label, &stats.latency);
        }
        let gauges: [(&str, &str, Count); 2] = [
            ("keyward_proxy_requests_open", "open requests, including streams", |stats| {
                stats.open.load(Ordering::Relaxed)
            }),
            ("keyward_proxy_upgrades_open", "open streams", |stats| {
                stats.tunnels.load(Ordering::Relaxed)
            }),
        ];
        for (name, help, read) in gauges {
            head(&mut out, name, "gauge", help);
            for (label, stats) in self.stats() {
                let _ = writeln!(out, "{name}{{{label}}} {}", read(stats));
            }
        }
        let name = "keyward_proxy_upgrades_total";
        head(&mut out, name, "counter", "streams, by protocol");
        for (label, stats) in self.stats() {
            for (protocol, count) in [("websocket", &stats.websocket), ("spdy", &stats.spdy)] {
                let count = count.load(Ordering::Relaxed);
                let _ = writeln!(out, "{name}{{{label},protocol=\"{protocol}\"}} {count}");
            }
        }
        out
    }

    fn write_versions(&self, out: &mut String) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "keyward_proxy_config_reloads_total";
        head(
            out,
            name,
            "counter",
            "changes of the kubeconfig or kuberc, by whether they were applied",
        );
        let (taken, broken) = (read(&self.reloads.taken), read(&self.reloads.broken));
        for (outcome, count) in [("failure", broken), ("success", taken)] {
            let _ = writeln!(out, "{name}{{outcome=\"{outcome}\"}} {count}");
        }
        let last = self.reloads.last();
        let name = "keyward_proxy_config_last_reload_successful";
        head(out, name, "gauge", "whether the current kubeconfig and kuberc are in force");
        let _ = writeln!(out, "{name} {}", u8::from(last.fault.is_none()));
        let name = "keyward_proxy_context_served";
        head(out, name, "gauge", "whether the kubeconfig and kuberc allow a context to be served");
        for context in &self.contexts {
            let open = u8::from(context.route().is_some());
            let _ = writeln!(out, "{name}{{{}}} {open}", label(&context.name));
        }
    }

    fn stats(&self) -> impl Iterator<Item = (String, &RequestStats)> {
        self.contexts.iter().map(|context| (label(&context.name), &*context.stats))
    }

    /// The status for `keyward proxy status`; docs/cli.md has the schema.
    pub(crate) fn status(&self) -> Value {
        json!({
            "pid": std::process::id(),
            "url": self.url,
            "kubeconfig": self.kubeconfig,
            "started": self.started.to_string(),
            "config": self.config(),
            "contexts": self.contexts.iter().map(|served| context(served)).collect::<Vec<_>>(),
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

/// A context as a label, quoted as Prometheus wants it.
fn label(name: &str) -> String {
    let name = name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    format!("context=\"{name}\"")
}
