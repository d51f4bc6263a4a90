//! Tests of which requests rules allow.

#![allow(clippy::unwrap_used)]

use super::*;

fn rules(allow: &[&str]) -> Rules {
    Rules { allow: allow.iter().map(|rule| rule.parse().unwrap()).collect(), ..Rules::default() }
}

fn judge(rules: &Rules, request: &str) -> bool {
    let (method, target) = request.split_once(' ').unwrap();
    let (target, upgrade) = match target.strip_suffix(" upgraded") {
        Some(target) => (target, true),
        None => (target, false),
    };
    let attributes = Attributes::of(&method.parse().unwrap(), &target.parse().unwrap(), upgrade);
    rules.allows(&attributes.unwrap())
}

#[test]
fn a_reader_reads_everything_but_what_has_to_be_named() {
    let reader = Rules { read_only: true, ..Rules::default() };
    for (request, allowed) in [
        ("GET /api/v1/pods", true),
        ("GET /api/v1/pods?watch=1", true),
        ("GET /api/v1/namespaces/a/pods/b/log", true),
        ("GET /apis/any.example/v1/namespaces/a/things/b", true),
        ("HEAD /api/v1/namespaces/a/pods/b", true),
        ("POST /api/v1/namespaces/a/pods", false),
        ("DELETE /api/v1/namespaces/a/pods", false),
        ("OPTIONS /api/v1/pods", false),
        ("GET /api/v1/namespaces/a/pods/b/exec", false),
        ("POST /api/v1/namespaces/a/pods/b/exec", false),
        ("GET /api/v1/namespaces/a/pods/b/attach", false),
        ("GET /api/v1/namespaces/a/pods/b/portforward", false),
        ("GET /api/v1/namespaces/a/pods/b/proxy/metrics", false),
        ("GET /api/v1/namespaces/a/services/b:80/proxy/", false),
        ("GET /api/v1/nodes/n/proxy/pods", false),
        ("GET /api/v1/proxy/nodes/n", false),
        ("GET /api/v1/secrets", false),
        ("GET /api/v1/watch/secrets", false),
        ("GET /api/v1/namespaces/a/secrets/b", false),
        ("POST /api/v1/namespaces/a/serviceaccounts/b/token", false),
        ("GET /apis/certificates.k8s.io/v1/certificatesigningrequests", false),
        ("GET /apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", false),
        ("GET /apis/vm.example/v1/namespaces/a/machines/b/console", true),
        ("GET /apis/vm.example/v1/namespaces/a/machines/b/console upgraded", false),
        ("GET /api/v1/namespaces/a/pods/b/log upgraded", true),
        ("GET /api/v1/pods?watch=1 upgraded", true),
        ("GET /version", true),
        ("GET /apis", true),
        ("GET /openapi/v3/api/v1", true),
        ("GET /healthz", true),
        ("GET /healthz/etcd", false),
        ("GET /", false),
        ("GET /metrics", false),
        ("GET /logs/", false),
        ("POST /version", false),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews", true),
        ("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", true),
        ("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", false),
    ] {
        assert_eq!(judge(&reader, request), allowed, "{request}");
    }
}

#[test]
fn a_rule_allows_what_it_names() {
    for (rule, request, allowed) in [
        ("get:pods", "GET /api/v1/namespaces/a/pods/b", true),
        ("get:pods", "GET /api/v1/namespaces/a/pods", false),
        ("get:pods", "GET /api/v1/namespaces/a/pods/b/log", false),
        ("get:pods/log", "GET /api/v1/namespaces/a/pods/b/log", true),
        ("get,list:pods", "GET /api/v1/namespaces/a/pods", true),
        ("get:pods", "GET /apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b", false),
        ("get:pods.metrics.k8s.io", "GET /apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b", true),
        ("get:pods.*", "GET /apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b", true),
        ("*:*", "POST /api/v1/namespaces/a/pods", true),
        ("*:*", "PUT /apis/apps/v1/namespaces/a/deployments/b/scale", true),
        ("*:*.apps", "PUT /apis/apps/v1/namespaces/a/deployments/b/scale", true),
        ("*:*.apps", "GET /api/v1/pods", false),
        ("*:*/scale", "PUT /apis/apps/v1/namespaces/a/deployments/b/scale", true),
        ("*:*/scale.apps", "GET /apis/apps/v1/namespaces/a/deployments/b", false),
        ("*:*", "OPTIONS /api/v1/pods", false),
        ("*:*", "GET /api/v1/proxy/nodes/n", false),
        ("*:*", "GET /api/v1/secrets", false),
        ("*:secrets", "GET /api/v1/secrets", true),
        ("list:secrets", "GET /api/v1/namespaces/a/secrets/b", false),
        ("*:*", "POST /api/v1/namespaces/a/pods/b/exec", false),
        ("*:pods", "POST /api/v1/namespaces/a/pods/b/exec", false),
        ("create:pods/exec", "POST /api/v1/namespaces/a/pods/b/exec", true),
        ("create:pods/exec", "GET /api/v1/namespaces/a/pods/b/exec", false),
        ("*:*/proxy", "GET /api/v1/nodes/n/proxy/x", true),
        ("*:*", "POST /api/v1/namespaces/a/serviceaccounts/b/token", false),
        ("create:serviceaccounts/token", "POST /api/v1/namespaces/a/serviceaccounts/b/token", true),
        ("*:*", "GET /apis/vm.example/v1/machines/b/console upgraded", false),
        ("*:machines.vm.example", "GET /apis/vm.example/v1/machines/b/console upgraded", false),
        ("*:*/console", "GET /apis/vm.example/v1/machines/b/console upgraded", true),
        (
            "get:*/approval.certificates.k8s.io",
            "GET /apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval upgraded",
            false,
        ),
        (
            "*:*.certificates.k8s.io",
            "POST /apis/certificates.k8s.io/v1/certificatesigningrequests",
            false,
        ),
        (
            "*:certificatesigningrequests.certificates.k8s.io",
            "POST /apis/certificates.k8s.io/v1/certificatesigningrequests",
            true,
        ),
    ] {
        assert_eq!(judge(&rules(&[rule]), request), allowed, "{rule}: {request}");
    }
}

#[test]
fn namespaces_limit_every_rule() {
    let mut rules = rules(&["*:*"]);
    rules.namespaces = vec!["dev".into(), "test".into()];
    for (request, allowed) in [
        ("GET /api/v1/namespaces/dev/pods", true),
        ("POST /api/v1/namespaces/test/pods", true),
        ("GET /api/v1/namespaces/prod/pods", false),
        ("GET /api/v1/pods", false),
        ("GET /api/v1/nodes", false),
        ("GET /api/v1/namespaces/dev", true),
        ("GET /api/v1/namespaces", false),
        ("GET /api", true),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true),
    ] {
        assert_eq!(judge(&rules, request), allowed, "{request}");
    }
}

#[test]
fn with_a_user_alone_the_server_decides_but_not_on_what_has_to_be_named() {
    let rules = Rules { as_user: Some("viewer".into()), ..Rules::default() };
    assert!(judge(&rules, "DELETE /api/v1/namespaces/a/pods/b"));
    assert!(!judge(&rules, "GET /api/v1/secrets"));
    let both = Rules { read_only: true, ..rules };
    assert!(!judge(&both, "DELETE /api/v1/namespaces/a/pods/b"));
    assert_eq!(both.words(), ["read everything except sensitive resources", "as viewer"]);
}

#[test]
fn a_namespace_is_one_label() {
    let long = "x".repeat(64);
    for (name, good) in [
        ("dev", true),
        ("team-1", true),
        (&long[1..], true),
        (&long, false),
        ("", false),
        (" ", false),
        ("*", false),
        ("Dev", false),
        ("-dev", false),
        ("dev-", false),
        ("a.b", false),
        ("a/b", false),
    ] {
        let rules = Rules { namespaces: vec!["dev".into(), name.into()], ..Rules::default() };
        assert_eq!(rules.bad_namespace(), (!good).then_some(name), "{name}");
    }
}

#[test]
fn nobody_is_impersonated_by_a_name_that_http_changes() {
    for (user, group, good) in [
        (Some("ann"), "a b", true),
        (Some("system:serviceaccount:a:b"), "x", true),
        (None, "x", false),
        (Some(""), "x", false),
        (Some(" "), "x", false),
        (Some("ann "), "x", false),
        (Some("\tann"), "x", false),
        (Some("ann"), "", false),
        (Some("ann"), " x", false),
        (Some("ann"), "x\n", false),
    ] {
        let (as_user, as_groups) = (user.map(str::to_owned), vec![group.to_owned()]);
        let rules = Rules { as_user, as_groups, ..Rules::default() };
        assert_eq!(rules.headers().is_some(), good, "{user:?} {group:?}");
    }
}

#[test]
fn a_rule_that_would_allow_nothing_is_explained() {
    for (rule, part) in [
        ("pods", "VERB:RESOURCE"),
        ("read:pods", "`read` is not a verb"),
        ("impersonate:users", "`impersonate` is not a verb"),
        ("get:", "VERB:RESOURCE"),
        ("get:pods/", "VERB:RESOURCE"),
        ("get:pods.", "VERB:RESOURCE"),
        ("get:deployments", "write `deployments.apps`"),
        ("get:a b", "VERB:RESOURCE"),
        ("*,get:pods", "`*` is not a verb"),
    ] {
        let error = rule.parse::<Allow>().unwrap_err();
        assert!(error.contains(part), "{rule}: {error}");
    }
    for rule in ["*:*", "get,list:pods/log", "*:pods.*", "get:*.apps", "patch:a/b.c.d"] {
        assert_eq!(rule.parse::<Allow>().unwrap().to_string(), rule);
    }
}
