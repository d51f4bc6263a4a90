//! The names and meanings of the host's metrics.

use keyward_protocol::prometheus::Family;

pub(super) const CALLS: Family = Family::counter(
    "rest_client_exec_plugin_call_total",
    "runs of credential plugins, by exit code and outcome",
);
pub(super) const JUDGED: Family =
    Family::counter("rest_client_exec_plugin_policy_call_total", "decisions of the plugin policy");
pub(super) const TTL: Family = Family::gauge(
    "rest_client_exec_plugin_ttl_seconds",
    "time until the first of the plugins' certificates expires",
);
pub(super) const ROTATION_AGE: Family = Family::histogram(
    "rest_client_exec_plugin_certificate_rotation_age",
    "age of certificates when they were replaced, in seconds",
);
pub(super) const RUN_SECONDS: Family =
    Family::histogram("keyward_plugin_duration_seconds", "how long plugins ran");
pub(super) const REFRESH_SECONDS: Family = Family::histogram(
    "keyward_refresh_duration_seconds",
    "how long it took to get a credential, or to fail",
);
pub(super) const EXPIRY_SECONDS: Family = Family::gauge(
    "keyward_credential_ttl_seconds",
    "time until the most recently obtained credential expires",
);
pub(super) const REJECTIONS: Family = Family::counter(
    "keyward_credential_rejections_total",
    "responses with which servers rejected a credential",
);
pub(super) const INVALID: Family = Family::counter(
    "keyward_invalid_certificates_total",
    "certificates that were not valid when plugins returned them",
);
pub(super) const SIGNATURES: Family =
    Family::counter("keyward_signatures_total", "signatures requested from external signers");
pub(super) const PROVIDER_ERRORS: Family = Family::counter(
    "kubelet_credential_provider_plugin_errors_total",
    "runs of image credential providers that failed",
);
pub(super) const PROVIDER_SECONDS: Family = Family::histogram(
    "kubelet_credential_provider_plugin_duration",
    "how long image credential providers ran, in seconds",
);
pub(super) const PROVIDER_CONFIG: Family = Family::gauge(
    "kubelet_credential_provider_config_info",
    "the configuration of image credential providers in force",
);
