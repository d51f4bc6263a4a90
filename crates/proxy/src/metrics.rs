//! Counters of the whole proxy: connections, rejected clients, and the host's events about plugins.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use keyward_host::{CallStatus, Observer};

use crate::request_stats::Histogram;

/// Counters of one proxy. Names and labels of the host's events are client-go's, as in the host's
/// own adapter for the `metrics` facade.
#[derive(Debug)]
pub(crate) struct Metrics {
    connections: AtomicU64,
    rejected: AtomicU64,
    invalid: AtomicU64,
    plugin: Histogram,
    refresh: [Histogram; 2],
    rotated: Histogram,
    rest: Mutex<Rest>,
}

/// Upper bounds of the ages of certificates, in microseconds: client-go's.
static ROTATION: [u64; 11] = {
    const MINUTE: u64 = 60 * 1_000_000;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const MONTH: u64 = 30 * DAY;
    [
        10 * MINUTE,
        30 * MINUTE,
        HOUR,
        4 * HOUR,
        DAY,
        7 * DAY,
        MONTH,
        3 * MONTH,
        6 * MONTH,
        12 * MONTH,
        48 * MONTH,
    ]
};

#[derive(Debug, Default)]
struct Rest {
    calls: BTreeMap<(i32, &'static str), u64>,
    judged: BTreeMap<bool, u64>,
    signed: [u64; 2],
    expires: Option<Timestamp>,
    certificates_end: Option<Timestamp>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self {
            connections: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
            plugin: Histogram::default(),
            refresh: Default::default(),
            rotated: Histogram::with(&ROTATION),
            rest: Mutex::default(),
        }
    }

    /// A client connected.
    pub(crate) fn connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A client was rejected.
    pub(crate) fn rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes Prometheus' text format.
    pub(crate) fn write(&self, out: &mut String, now: Timestamp) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rest = self.rest();
        head(out, "rest_client_exec_plugin_call_total", "counter", "runs of credential plugins");
        for ((code, status), count) in &rest.calls {
            let _ = writeln!(
                out,
                "rest_client_exec_plugin_call_total{{code=\"{code}\",call_status=\"{status}\"}} {count}"
            );
        }
        let name = "rest_client_exec_plugin_policy_call_total";
        head(out, name, "counter", "decisions of the plugin policy");
        for (allowed, count) in &rest.judged {
            let status = if *allowed { "allowed" } else { "denied" };
            let _ = writeln!(out, "{name}{{status=\"{status}\"}} {count}");
        }
        let name = "keyward_signatures_total";
        head(out, name, "counter", "signatures asked of external signers");
        for (outcome, count) in ["failure", "success"].iter().zip(rest.signed) {
            let _ = writeln!(out, "{name}{{outcome=\"{outcome}\"}} {count}");
        }
        let name = "rest_client_exec_plugin_ttl_seconds";
        head(out, name, "gauge", "time to the earliest expiry of a plugin's certificate");
        let _ = writeln!(out, "{name} {}", seconds_to(rest.certificates_end, now));
        let name = "keyward_credential_ttl_seconds";
        head(out, name, "gauge", "time to the expiry of the last credential");
        let _ = writeln!(out, "{name} {}", seconds_to(rest.expires, now));
        drop(rest);
        let name = "rest_client_exec_plugin_certificate_rotation_age";
        head(out, name, "histogram", "age of certificates when they were replaced");
        histogram(out, name, "", &self.rotated);
        let name = "keyward_plugin_duration_seconds";
        head(out, name, "histogram", "time that plugins took");
        histogram(out, name, "", &self.plugin);
        let name = "keyward_refresh_duration_seconds";
        head(out, name, "histogram", "time that a refresh took");
        histogram(out, name, "outcome=\"failure\"", &self.refresh[0]);
        histogram(out, name, "outcome=\"success\"", &self.refresh[1]);
        for (name, help, value) in [
            (
                "keyward_invalid_certificates_total",
                "certificates that were not valid on arrival",
                &self.invalid,
            ),
            ("keyward_proxy_connections_total", "connections of clients", &self.connections),
            ("keyward_proxy_strangers_total", "rejected connections", &self.rejected),
        ] {
            head(out, name, "counter", help);
            let _ = writeln!(out, "{name} {}", read(value));
        }
    }
}

impl Observer for Metrics {
    fn ran(&self, _plugin: &str, code: i32, status: CallStatus, took: Duration) {
        *self.rest().calls.entry((code, status.label())).or_default() += 1;
        self.plugin.record(took);
    }

    fn judged(&self, allowed: bool) {
        *self.rest().judged.entry(allowed).or_default() += 1;
    }

    fn signed(&self, _took: Duration, came: bool) {
        self.rest().signed[usize::from(came)] += 1;
    }

    fn refreshed(&self, took: Duration, came: bool) {
        self.refresh[usize::from(came)].record(took);
    }

    fn expires(&self, at: Option<Timestamp>, _now: Timestamp) {
        self.rest().expires = at;
    }

    fn certificates_end(&self, earliest: Option<Timestamp>, _now: Timestamp) {
        self.rest().certificates_end = earliest;
    }

    fn rotated(&self, age: Duration) {
        self.rotated.record(age);
    }

    fn invalid_certificate(&self, _plugin: &str) {
        self.invalid.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writes the lines before a metric.
pub(crate) fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Writes a histogram's lines, each with these labels.
pub(crate) fn histogram(out: &mut String, name: &str, labels: &str, histogram: &Histogram) {
    let (buckets, sum) = histogram.read();
    let more = if labels.is_empty() { "" } else { "," };
    let total = buckets.last().map_or(0, |(_, count)| *count);
    for (bound, count) in buckets {
        let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
        let _ = writeln!(out, "{name}_bucket{{{labels}{more}le=\"{bound}\"}} {count}");
    }
    let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(out, "{name}_sum{braces} {sum}\n{name}_count{braces} {total}");
}

/// The seconds until a time: negative if it is past, infinite if it never comes.
fn seconds_to(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "+Inf".to_owned(), |at| at.duration_since(now).as_secs_f64().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_host_tells_of_plugins_has_the_hosts_own_name() {
        let metrics = Metrics::new();
        metrics.rotated(Duration::from_secs(7200));
        let mut out = String::new();
        metrics.write(&mut out, Timestamp::UNIX_EPOCH);
        for name in [
            "rest_client_exec_plugin_call_total",
            "rest_client_exec_plugin_policy_call_total",
            "rest_client_exec_plugin_ttl_seconds",
            "rest_client_exec_plugin_certificate_rotation_age",
            "keyward_plugin_duration_seconds",
            "keyward_refresh_duration_seconds",
            "keyward_credential_ttl_seconds",
            "keyward_invalid_certificates_total",
            "keyward_signatures_total",
        ] {
            assert!(out.contains(&format!("# TYPE {name} ")), "{name}");
        }
        let age = "rest_client_exec_plugin_certificate_rotation_age";
        for (bound, count) in [("3600", 0), ("14400", 1), ("124416000", 1), ("+Inf", 1)] {
            assert!(out.contains(&format!("{age}_bucket{{le=\"{bound}\"}} {count}\n")), "{out}");
        }
        assert!(out.contains(&format!("{age}_sum 7200\n")), "{out}");
    }
}
