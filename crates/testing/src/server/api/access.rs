//! Who may do what, by the cluster roles that the server keeps.

use serde_json::{Value, json};

use crate::server::Shared;

/// Answers a `SubjectAccessReview`: whether a cluster role that is bound to the user, or to one of
/// its groups, has a rule for what is asked.
pub(crate) fn review(shared: &Shared, request: &Value) -> Value {
    let spec = &request["spec"];
    let bindings = shared.store.all("clusterrolebindings.rbac.authorization.k8s.io");
    let roles = shared.store.all("clusterroles.rbac.authorization.k8s.io");
    let role = |binding: &Value| {
        let name = &binding["roleRef"]["name"];
        roles.iter().find(|role| role["metadata"]["name"] == *name)
    };
    let allowed = bindings
        .iter()
        .filter(|binding| items(&binding["subjects"]).any(|subject| means(subject, spec)))
        .filter_map(role)
        .flat_map(|role| items(&role["rules"]))
        .any(|rule| permits(rule, &spec["resourceAttributes"]));
    let mut answer = json!({
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "status": { "allowed": allowed },
    });
    answer["spec"] = spec.clone();
    answer
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn means(subject: &Value, spec: &Value) -> bool {
    match subject["kind"].as_str() {
        Some("Group") => items(&spec["groups"]).any(|group| *group == subject["name"]),
        Some("User") => spec["user"] == subject["name"],
        _ => false,
    }
}

fn permits(rule: &Value, asked: &Value) -> bool {
    let has = |list: &str, asked: &Value| {
        let asked = asked.as_str().unwrap_or_default();
        items(&rule[list]).any(|item| *item == "*" || *item == asked)
    };
    has("verbs", &asked["verb"])
        && has("apiGroups", &asked["group"])
        && has("resources", &asked["resource"])
}
