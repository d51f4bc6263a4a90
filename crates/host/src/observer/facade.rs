//! The adapter to the `metrics` facade, under the names and labels that client-go and the kubelet have.

use std::time::Duration;

use jiff::Timestamp;
use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::{
    CallStatus, Observer,
    families::{
        CALLS, EXPIRY_SECONDS, INVALID, JUDGED, PROVIDER_CONFIG, PROVIDER_ERRORS, PROVIDER_SECONDS,
        REFRESH_SECONDS, REJECTIONS, ROTATION_AGE, RUN_SECONDS, SIGNATURES, TTL,
    },
    prometheus::ROTATION,
};

/// Passes events to the recorder of the `metrics` facade.
///
/// The facade cannot compute a value when it is asked for: the two `ttl` gauges are as old as the
/// last refresh. [`MetricsObserver::ROTATION_BUCKETS`] are the reference's, for recorders that want them.
#[derive(Debug, Clone, Copy)]
pub struct MetricsObserver(());

impl MetricsObserver {
    /// The reference's buckets of `rest_client_exec_plugin_certificate_rotation_age`, in seconds.
    #[expect(clippy::cast_precision_loss, reason = "a few years in seconds are exact")]
    pub const ROTATION_BUCKETS: [f64; 11] = {
        let mut seconds = [0.0; 11];
        let mut index = 0;
        while index < seconds.len() {
            seconds[index] = (ROTATION[index] / 1_000_000) as f64;
            index += 1;
        }
        seconds
    };

    /// Describes the metrics to the recorder that is installed now.
    pub fn new() -> Self {
        for family in [CALLS, JUDGED, REJECTIONS, INVALID, SIGNATURES, PROVIDER_ERRORS] {
            describe_counter!(family.name, family.help);
        }
        for family in [TTL, EXPIRY_SECONDS] {
            describe_gauge!(family.name, Unit::Seconds, family.help);
        }
        describe_gauge!(PROVIDER_CONFIG.name, PROVIDER_CONFIG.help);
        for family in [ROTATION_AGE, RUN_SECONDS, REFRESH_SECONDS, PROVIDER_SECONDS] {
            describe_histogram!(family.name, Unit::Seconds, family.help);
        }
        gauge!(TTL.name).set(f64::INFINITY);
        Self(())
    }
}

impl Default for MetricsObserver {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for MetricsObserver {
    fn ran(&self, _plugin: &str, code: i32, status: CallStatus, took: Duration) {
        counter!(CALLS.name, "code" => code.to_string(), "call_status" => status.label())
            .increment(1);
        histogram!(RUN_SECONDS.name).record(took);
    }

    fn judged(&self, allowed: bool) {
        counter!(JUDGED.name, "status" => if allowed { "allowed" } else { "denied" }).increment(1);
    }

    fn refreshed(&self, took: Duration, came: bool) {
        let outcome = if came { "success" } else { "failure" };
        histogram!(REFRESH_SECONDS.name, "outcome" => outcome).record(took);
    }

    fn expires(&self, at: Option<Timestamp>, now: Timestamp) {
        gauge!(EXPIRY_SECONDS.name).set(seconds_to(at, now));
    }

    fn certificates_end(&self, earliest: Option<Timestamp>, now: Timestamp) {
        gauge!(TTL.name).set(seconds_to(earliest, now));
    }

    fn rotated(&self, age: Duration) {
        histogram!(ROTATION_AGE.name).record(age);
    }

    fn rejected(&self) {
        counter!(REJECTIONS.name).increment(1);
    }

    fn invalid_certificate(&self, _plugin: &str) {
        counter!(INVALID.name).increment(1);
    }

    fn signed(&self, _took: Duration, came: bool) {
        let outcome = if came { "success" } else { "failure" };
        counter!(SIGNATURES.name, "outcome" => outcome).increment(1);
    }

    fn provided(&self, provider: &str, took: Duration, failed: bool) {
        histogram!(PROVIDER_SECONDS.name, "plugin_name" => provider.to_owned()).record(took);
        if failed {
            counter!(PROVIDER_ERRORS.name, "plugin_name" => provider.to_owned()).increment(1);
        }
    }

    /// The facade cannot remove a series: the old one goes to zero.
    fn configured(&self, hash: Option<&str>, before: Option<&str>) {
        if let Some(before) = before {
            gauge!(PROVIDER_CONFIG.name, "hash" => before.to_owned()).set(0.0);
        }
        if let Some(hash) = hash {
            gauge!(PROVIDER_CONFIG.name, "hash" => hash.to_owned()).set(1.0);
        }
    }
}

/// Negative when it is past, infinite when it never comes (ME-05).
fn seconds_to(at: Option<Timestamp>, now: Timestamp) -> f64 {
    at.map_or(f64::INFINITY, |at| at.duration_since(now).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use metrics::{
        Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata,
        Recorder, SharedString,
    };

    use super::*;

    type Values = Arc<Mutex<BTreeMap<String, f64>>>;

    /// Writes down every series with the sum (or, for gauges, the last) of its values.
    #[derive(Default)]
    struct Paper(Values);

    struct Line(Values, String);

    impl Line {
        fn put(&self, change: impl FnOnce(f64) -> f64) {
            let mut values = self.0.lock().expect("whole");
            let value = values.entry(self.1.clone()).or_default();
            *value = change(*value);
        }
    }

    impl CounterFn for Line {
        fn increment(&self, by: u64) {
            self.put(|sum| sum + f64::from(u32::try_from(by).expect("small")));
        }
        fn absolute(&self, _value: u64) {}
    }

    impl GaugeFn for Line {
        fn increment(&self, _by: f64) {}
        fn decrement(&self, _by: f64) {}
        fn set(&self, value: f64) {
            self.put(|_| value);
        }
    }

    impl HistogramFn for Line {
        fn record(&self, value: f64) {
            self.put(|sum| sum + value);
        }
    }

    impl Paper {
        fn line(&self, key: &Key) -> Arc<Line> {
            let labels: Vec<_> =
                key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
            Arc::new(Line(Arc::clone(&self.0), format!("{}{{{}}}", key.name(), labels.join(","))))
        }
    }

    impl Recorder for Paper {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.line(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.line(key))
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.line(key))
        }
    }

    #[test]
    fn names_and_labels_are_the_references() {
        let paper = Paper::default();
        let at = |second| Timestamp::from_second(second).ok();
        let now = Timestamp::from_second(100).expect("a time");
        metrics::with_local_recorder(&paper, || {
            let facade = MetricsObserver::new();
            assert!(
                paper.0.lock().expect("whole")["rest_client_exec_plugin_ttl_seconds{}"]
                    .is_infinite()
            );
            facade.ran("p", -1, CallStatus::PluginExecutionError, Duration::from_secs(2));
            facade.ran("p", 0, CallStatus::NoError, Duration::from_secs(1));
            facade.ran("q", 0, CallStatus::NoError, Duration::from_secs(1));
            facade.judged(true);
            facade.judged(false);
            facade.refreshed(Duration::from_secs(3), false);
            facade.expires(at(160), now);
            facade.certificates_end(at(90), now);
            facade.rotated(Duration::from_secs(7));
            facade.rejected();
            facade.invalid_certificate("p");
            facade.provided("ecr", Duration::from_secs(2), false);
            facade.provided("ecr", Duration::from_secs(1), true);
            facade.configured(Some("sha256:aa"), None);
            facade.configured(Some("sha256:bb"), Some("sha256:aa"));
        });
        let values = paper.0.lock().expect("whole");
        let found: Vec<_> = values.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(
            found,
            [
                "keyward_credential_rejections_total{} 1",
                "keyward_credential_ttl_seconds{} 60",
                "keyward_invalid_certificates_total{} 1",
                "keyward_plugin_duration_seconds{} 4",
                "keyward_refresh_duration_seconds{outcome=failure} 3",
                "kubelet_credential_provider_config_info{hash=sha256:aa} 0",
                "kubelet_credential_provider_config_info{hash=sha256:bb} 1",
                "kubelet_credential_provider_plugin_duration{plugin_name=ecr} 3",
                "kubelet_credential_provider_plugin_errors_total{plugin_name=ecr} 1",
                "rest_client_exec_plugin_call_total{code=-1,call_status=plugin_execution_error} 1",
                "rest_client_exec_plugin_call_total{code=0,call_status=no_error} 2",
                "rest_client_exec_plugin_certificate_rotation_age{} 7",
                "rest_client_exec_plugin_policy_call_total{status=allowed} 1",
                "rest_client_exec_plugin_policy_call_total{status=denied} 1",
                "rest_client_exec_plugin_ttl_seconds{} -10",
            ]
        );
    }
}
