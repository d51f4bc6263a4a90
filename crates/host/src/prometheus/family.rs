//! A metric's name, type and meaning.

/// A metric: its name, its type and its meaning.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    pub(crate) name: &'static str,
    pub(super) kind: &'static str,
    pub(crate) help: &'static str,
}

impl Family {
    /// A count that only grows.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "counter", help }
    }

    /// A value that goes up and down.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "gauge", help }
    }

    /// A distribution of durations.
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "histogram", help }
    }
}

pub(crate) const CALLS: Family = Family::counter(
    "rest_client_exec_plugin_call_total",
    "runs of credential plugins, by exit code and outcome",
);
pub(crate) const JUDGED: Family =
    Family::counter("rest_client_exec_plugin_policy_call_total", "decisions of the plugin policy");
pub(crate) const TTL: Family = Family::gauge(
    "rest_client_exec_plugin_ttl_seconds",
    "time until the first of the plugins' certificates expires",
);
pub(crate) const ROTATION_AGE: Family = Family::histogram(
    "rest_client_exec_plugin_certificate_rotation_age",
    "age of certificates when they were replaced, in seconds",
);
pub(crate) const RUN_SECONDS: Family =
    Family::histogram("keyward_plugin_duration_seconds", "how long plugins ran");
pub(crate) const REFRESH_SECONDS: Family = Family::histogram(
    "keyward_refresh_duration_seconds",
    "how long it took to get a credential, or to fail",
);
pub(crate) const EXPIRY_SECONDS: Family = Family::gauge(
    "keyward_credential_ttl_seconds",
    "time until the most recently obtained credential expires",
);
pub(crate) const REJECTIONS: Family = Family::counter(
    "keyward_credential_rejections_total",
    "responses with which servers rejected a credential",
);
pub(crate) const INVALID: Family = Family::counter(
    "keyward_invalid_certificates_total",
    "certificates that were not valid when plugins returned them",
);
pub(crate) const SIGNATURES: Family =
    Family::counter("keyward_signatures_total", "signatures requested from external signers");
pub(crate) const PROVIDER_ERRORS: Family = Family::counter(
    "kubelet_credential_provider_plugin_errors_total",
    "runs of image credential providers that failed",
);
pub(crate) const PROVIDER_SECONDS: Family = Family::histogram(
    "kubelet_credential_provider_plugin_duration",
    "how long image credential providers ran, in seconds",
);
pub(crate) const PROVIDER_CONFIG: Family = Family::gauge(
    "kubelet_credential_provider_config_info",
    "the configuration of image credential providers in force",
);
