//! Counts the host's events for Prometheus, without a metrics library.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use jiff::Timestamp;
use keyward_process::lock;
use keyward_protocol::prometheus::{Histogram, Samples, Text};

use super::{
    CallStatus, Observer,
    families::{
        CALLS, EXPIRY_SECONDS, INVALID, JUDGED, PROVIDER_CONFIG, PROVIDER_ERRORS, PROVIDER_SECONDS,
        REFRESH_SECONDS, REJECTIONS, ROTATION_AGE, RUN_SECONDS, SIGNATURES, TTL,
    },
};

/// Counts events, and writes them in Prometheus' text format.
///
/// Give it to [`Sources::new`](crate::Sources::new), or to what else takes an [`Observer`]. Programs that
/// use the `metrics` facade take `MetricsObserver` (feature `metrics`) instead; both have the same names
/// and labels, which `docs/metrics.md` lists.
#[derive(Debug)]
pub struct Metrics {
    plugin: Histogram,
    refresh: [Histogram; 2],
    rotated: Histogram,
    rest: Mutex<Rest>,
}

/// Upper bounds of the ages of certificates, in microseconds: client-go's.
pub(super) const ROTATION: [u64; 11] = {
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
    judged: [u64; 2],
    signed: [u64; 2],
    invalid: u64,
    rejected: u64,
    expires: Option<Timestamp>,
    certificates_end: Option<Timestamp>,
    images: Option<Images>,
}

/// What image credential providers did.
#[derive(Debug, Default)]
struct Images {
    runs: BTreeMap<String, (Histogram, u64)>,
    config: Option<String>,
}

impl Default for Metrics {
    /// Counts from zero.
    fn default() -> Self {
        Self {
            plugin: Histogram::default(),
            refresh: Default::default(),
            rotated: Histogram::with_bounds(&ROTATION),
            rest: Mutex::default(),
        }
    }
}

impl Metrics {
    /// Every metric in Prometheus' text format, as of `now`.
    pub fn text(&self, now: Timestamp) -> String {
        let mut text = Text::default();
        self.write(&mut text, now);
        text.into_string()
    }

    /// Writes every metric. Those of image credential providers appear once there is one.
    pub fn write(&self, text: &mut Text, now: Timestamp) {
        let rest = lock(&self.rest);
        let mut calls = text.family(CALLS);
        for ((code, status), count) in &rest.calls {
            calls.sample(&[("code", &code.to_string()), ("call_status", status)], count);
        }
        let mut judged = text.family(JUDGED);
        judged.sample(&[("status", "allowed")], rest.judged[1]);
        judged.sample(&[("status", "denied")], rest.judged[0]);
        outcomes(&mut text.family(SIGNATURES), rest.signed);
        text.family(REJECTIONS).sample(&[], rest.rejected);
        text.family(INVALID).sample(&[], rest.invalid);
        text.family(TTL).sample(&[], seconds_to(rest.certificates_end, now));
        text.family(EXPIRY_SECONDS).sample(&[], seconds_to(rest.expires, now));
        text.family(ROTATION_AGE).histogram(&[], &self.rotated);
        text.family(RUN_SECONDS).histogram(&[], &self.plugin);
        let mut refresh = text.family(REFRESH_SECONDS);
        refresh.histogram(&[("outcome", "failure")], &self.refresh[0]);
        refresh.histogram(&[("outcome", "success")], &self.refresh[1]);
        if let Some(images) = &rest.images {
            images.write(text);
        }
    }
}

impl Images {
    fn write(&self, text: &mut Text) {
        let mut errors = text.family(PROVIDER_ERRORS);
        for (name, (_, failed)) in &self.runs {
            errors.sample(&[("plugin_name", name)], failed);
        }
        let mut seconds = text.family(PROVIDER_SECONDS);
        for (name, (took, _)) in &self.runs {
            seconds.histogram(&[("plugin_name", name)], took);
        }
        let mut config = text.family(PROVIDER_CONFIG);
        if let Some(hash) = &self.config {
            config.sample(&[("hash", hash)], 1);
        }
    }
}

impl Observer for Metrics {
    fn ran(&self, _plugin: &str, code: i32, status: CallStatus, took: Duration) {
        // Exit codes end at 255; a client of the agent could claim any other, each a series.
        let code = code.clamp(-1, 255);
        *lock(&self.rest).calls.entry((code, status.label())).or_default() += 1;
        self.plugin.record(took);
    }

    fn judged(&self, allowed: bool) {
        lock(&self.rest).judged[usize::from(allowed)] += 1;
    }

    fn refreshed(&self, took: Duration, came: bool) {
        self.refresh[usize::from(came)].record(took);
    }

    fn expires(&self, at: Option<Timestamp>, _now: Timestamp) {
        lock(&self.rest).expires = at;
    }

    fn certificates_end(&self, earliest: Option<Timestamp>, _now: Timestamp) {
        lock(&self.rest).certificates_end = earliest;
    }

    fn rotated(&self, age: Duration) {
        self.rotated.record(age);
    }

    fn rejected(&self) {
        lock(&self.rest).rejected += 1;
    }

    fn invalid_certificate(&self, _plugin: &str) {
        lock(&self.rest).invalid += 1;
    }

    fn signed(&self, _took: Duration, came: bool) {
        lock(&self.rest).signed[usize::from(came)] += 1;
    }

    fn provided(&self, provider: &str, took: Duration, failed: bool) {
        let mut rest = lock(&self.rest);
        let runs = &mut rest.images.get_or_insert_default().runs;
        let (seconds, errors) = runs.entry(provider.to_owned()).or_default();
        seconds.record(took);
        *errors += u64::from(failed);
    }

    fn configured(&self, hash: Option<&str>, _before: Option<&str>) {
        lock(&self.rest).images.get_or_insert_default().config = hash.map(str::to_owned);
    }
}

fn outcomes(samples: &mut Samples<'_>, [failure, success]: [u64; 2]) {
    samples.sample(&[("outcome", "failure")], failure).sample(&[("outcome", "success")], success);
}

/// The seconds until a time: negative if it is past, infinite if it never comes (ME-05).
fn seconds_to(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "+Inf".to_owned(), |at| at.duration_since(now).as_secs_f64().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_counted_under_its_name() {
        let metrics = Metrics::default();
        let at = |second| Timestamp::from_second(second).ok();
        assert!(
            !metrics.text(Timestamp::UNIX_EPOCH).contains("kubelet_"),
            "there are no images yet"
        );
        metrics.ran("p", 0, CallStatus::NoError, Duration::from_secs(2));
        metrics.ran("p", 70_000, CallStatus::PluginExecutionError, Duration::ZERO);
        metrics.judged(true);
        metrics.refreshed(Duration::from_secs(1), true);
        metrics.expires(at(60), Timestamp::UNIX_EPOCH);
        metrics.certificates_end(at(-10), Timestamp::UNIX_EPOCH);
        metrics.rotated(Duration::from_secs(7200));
        metrics.rejected();
        metrics.invalid_certificate("p");
        metrics.signed(Duration::ZERO, false);
        metrics.provided("ecr", Duration::from_secs(1), false);
        metrics.provided("ecr", Duration::from_secs(1), true);
        metrics.configured(Some("sha256:aa"), None);
        metrics.configured(Some("sha256:bb"), Some("sha256:aa"));
        let text = metrics.text(Timestamp::UNIX_EPOCH);
        let age = "rest_client_exec_plugin_certificate_rotation_age";
        for line in [
            "rest_client_exec_plugin_call_total{code=\"0\",call_status=\"no_error\"} 1",
            "rest_client_exec_plugin_call_total{code=\"255\",call_status=\"plugin_execution_error\"} 1",
            "rest_client_exec_plugin_policy_call_total{status=\"allowed\"} 1",
            "rest_client_exec_plugin_policy_call_total{status=\"denied\"} 0",
            "rest_client_exec_plugin_ttl_seconds -10",
            "keyward_plugin_duration_seconds_sum 2",
            "keyward_plugin_duration_seconds_count 2",
            "keyward_refresh_duration_seconds_count{outcome=\"failure\"} 0",
            "keyward_refresh_duration_seconds_bucket{outcome=\"success\",le=\"1\"} 1",
            "keyward_credential_ttl_seconds 60",
            "keyward_credential_rejections_total 1",
            "keyward_invalid_certificates_total 1",
            "keyward_signatures_total{outcome=\"failure\"} 1",
            "kubelet_credential_provider_plugin_errors_total{plugin_name=\"ecr\"} 1",
            "kubelet_credential_provider_plugin_duration_count{plugin_name=\"ecr\"} 2",
            "kubelet_credential_provider_config_info{hash=\"sha256:bb\"} 1",
            &format!("{age}_bucket{{le=\"3600\"}} 0"),
            &format!("{age}_bucket{{le=\"14400\"}} 1"),
            &format!("{age}_sum 7200"),
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains("sha256:aa"), "{text}");
    }
}
