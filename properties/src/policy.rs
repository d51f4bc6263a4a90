//! A kuberc: it is a policy that can be said again, or an error of configuration.

use keyward_host::{Kind, rules::Policy};
use serde_json::json;

use crate::budget;

pub(crate) fn check(input: &[u8]) {
    match budget::within(input, || Policy::from_kuberc(input)) {
        Err(error) => assert_eq!(error.kind(), Kind::BadConfig),
        Ok(policy) => {
            let written = said(&policy);
            let again = Policy::from_kuberc(written.as_bytes()).expect("it was read before");
            assert_eq!(again, policy, "another policy after writing");
        }
    }
}

/// The policy as a kuberc says it.
fn said(policy: &Policy) -> String {
    let mut file = json!({
        "apiVersion": "kubectl.config.k8s.io/v1beta1",
        "kind": "Preference",
        "credentialPluginPolicy": policy.name(),
    });
    if let Policy::Allowlist(list) = policy {
        file["credentialPluginAllowlist"] =
            list.iter().map(|command| json!({ "command": command })).collect();
    }
    file.to_string()
}
