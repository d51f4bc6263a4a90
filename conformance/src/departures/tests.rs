//! Outcomes are given by hand: a check that compares what a case expects with what is said to be found.

use std::cell::RefCell;

use super::*;

thread_local! {
    /// What we are said to have found.
    static FOUND: RefCell<Value> = const { RefCell::new(Value::Null) };
}

fn check(case: &Value) -> Result<(), String> {
    FOUND.with_borrow(|found| if case["expect"] == *found { Ok(()) } else { Err(String::new()) })
}

fn excused(file: &str, case: &Value, found: &Value) -> Option<&'static str> {
    FOUND.set(found.clone());
    explains(file, case, check)
}

/// A case for each rule, and what we do instead.
fn samples() -> Vec<(&'static str, Value, Value)> {
    let request = |version: &str, more: &str| {
        format!(
            r#"{{"apiVersion":"client.authentication.k8s.io/{version}","spec":{{"interactive":true}}{more}}}"#
        ) + "\n"
    };
    let told = |version: &str, more: &str| {
        let request = request(version, more);
        json!({ "ok": {
            "execInfo": request,
            "stdin": "inherited",
            "environment": ["A=1", format!("KUBERNETES_EXEC_INFO={request}")],
        } })
    };
    let surrounded = |names: &[&str]| json!({ "ok": { "environment": names } });
    let resolved = |exec: Value, provider: &str, transport: Value| json!({ "ok": { "exec": exec, "authProvider": provider, "transport": transport } });
    let unknown = json!({ "error": ["auth_provider_unknown"] });
    let outcome = json!({ "ok": { "token": "x", "hasCert": false, "expiry": null } });
    let refused = json!({ "error": { "class": "config_api_version" } });
    let chain = format!("{}={}", areas::CHAIN.0, areas::CHAIN.1);
    let alpha = json!({ "apiVersion": ALPHA });
    let unsupported = json!({ "error": ["exec_api_version_unsupported"] });
    let (plugin, none) = (json!({ "pluginWired": true }), json!({ "pluginWired": false }));
    let mut samples = vec![
        (
            "exec-output",
            json!({ "stdout": " ", "expect": { "error": { "class": "decode", "detail": "syntax" } } }),
            json!({ "error": { "class": "empty" } }),
        ),
        (
            "exec-output",
            json!({ "configApiVersion": ALPHA, "stdout": "x", "expect": refused, "spoken": outcome }),
            outcome.clone(),
        ),
        (
            "exec-output",
            json!({
                "configApiVersion": ALPHA,
                "stdout": json!({ "apiVersion": ALPHA, "clientCertificateData": 5 }).to_string(),
                "expect": refused,
                "spoken": { "error": { "class": "missing_status" } },
            }),
            json!({ "error": { "class": "decode", "detail": "field_type" } }),
        ),
        (
            "exec-input",
            json!({ "configApiVersion": ALPHA, "expect": refused, "spoken": told("v1beta1", "") }),
            told("v1alpha1", r#","interactive":true"#),
        ),
        (
            "exec-input",
            json!({ "chained": true, "expect": surrounded(&["A=1", "Z=1"]) }),
            surrounded(&["A=1", &chain, "Z=1"]),
        ),
        (
            "exec-input",
            json!({
                "outer": [{ "name": signer::REQUEST_VARIABLE, "value": "x" }],
                "expect": surrounded(&["A=1", "EXTERNAL_SIGNER_PLUGIN_CONFIG=x"]),
            }),
            surrounded(&["A=1"]),
        ),
        (
            "exec-info-helper",
            json!({
                "env": json!({ "apiVersion": ALPHA }).to_string(),
                "expect": { "error": { "class": "decode" } },
                "spoken": { "ok": { "apiVersion": BETA, "server": "s" } },
            }),
            json!({ "ok": { "apiVersion": ALPHA, "server": "s" } }),
        ),
        (
            "kubeconfig",
            json!({ "expect": resolved(alpha.clone(), "", unsupported) }),
            resolved(alpha, "", plugin),
        ),
        (
            "kubeconfig",
            json!({ "expect": resolved(Value::Null, "gcp", unknown.clone()) }),
            resolved(Value::Null, "gcp", json!({ "error": ["auth_provider_removed"] })),
        ),
    ];
    samples.push(empty_authority());
    for name in ["externalSigner", "oidc"] {
        samples.push((
            "kubeconfig",
            json!({ "expect": resolved(Value::Null, name, unknown.clone()) }),
            resolved(Value::Null, name, none.clone()),
        ));
    }
    for (policy, class) in [("", "start_failed"), ("Allowlist", "policy_unresolvable")] {
        samples.push((
            "plugin-policy",
            json!({ "command": "./plug", "policy": policy, "expect": { "ok": { "ranFrom": "d1" } } }),
            json!({ "error": { "class": class, "phase": "run" } }),
        ));
    }
    samples
}

/// An authority that the kubeconfig names and that is empty.
fn empty_authority() -> (&'static str, Value, Value) {
    let expect = |transport: Value| {
        json!({ "ok": {
            "exec": null, "authProvider": "", "transport": transport, "caFile": "/home/ca.crt",
        } })
    };
    (
        "kubeconfig",
        json!({ "extraFiles": { "ca.crt": "" }, "expect": expect(json!({ "pluginWired": false })) }),
        expect(json!({ "pluginWired": false, "tlsError": true })),
    )
}

#[test]
fn every_rule_excuses_what_it_describes() {
    let mut used = Vec::new();
    for (file, case, instead) in samples() {
        used.extend(excused(file, &case, &instead));
        assert!(excused(file, &case, &instead).is_some(), "{file}: {case}");
    }
    for rule in RULES {
        assert!(used.contains(&rule.reason), "no sample for: {}", rule.reason);
    }
}

#[test]
fn no_rule_excuses_what_neither_the_reference_does_nor_the_rule_describes() {
    let samples = samples();
    for (file, case, instead) in &samples {
        let others = samples.iter().map(|(_, _, other)| other.clone());
        let classes = [
            "decode",
            "empty",
            "unknown",
            "not_found",
            "start_failed",
            "other",
            "interactive",
            "policy_denied_all",
            "policy_denied_allowlist",
            "config_api_version",
            "missing_status",
        ];
        let failures = classes.iter().flat_map(|class| {
            [json!({ "class": class }), json!({ "class": class, "phase": "run" })]
                .map(|error| json!({ "error": error }))
        });
        let nothing =
            [json!(null), json!({}), json!({ "ok": {} }), json!({ "ok": null }), json!("")];
        for found in others.chain(failures).chain(nothing).chain(spoilt(instead)) {
            let may = found == *instead;
            assert_eq!(excused(file, case, &found).is_some(), may, "{file}: {case}: {found}");
        }
    }
}

/// What we do instead, with something of it left out or changed.
fn spoilt(instead: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for kind in ["ok", "error"] {
        for name in instead[kind].as_object().into_iter().flatten().map(|(name, _)| name) {
            let mut less = instead.clone();
            less[kind].as_object_mut().unwrap().remove(name);
            let mut other = instead.clone();
            other[kind][name] = json!("something else");
            all.extend([less, other]);
        }
    }
    let variables = instead["ok"]["environment"].as_array().map_or(0, Vec::len);
    for at in 0..variables {
        let mut less = instead.clone();
        less["ok"]["environment"].as_array_mut().unwrap().remove(at);
        let mut twice = instead.clone();
        let again = twice["ok"]["environment"][at].clone();
        twice["ok"]["environment"].as_array_mut().unwrap().insert(at, again);
        all.extend([less, twice]);
    }
    all
}

#[test]
fn a_path_under_a_policy_that_denies_all_is_no_matter_of_the_search() {
    let denied = json!({ "error": { "class": "policy_denied_all", "phase": "run" } });
    let case = json!({ "command": "./plug", "policy": "DenyAll", "expect": denied });
    for class in ["not_found", "start_failed", "policy_unresolvable"] {
        let found = json!({ "error": { "class": class, "phase": "run" } });
        assert_eq!(excused("plugin-policy", &case, &found), None, "{class}");
    }
}
