//! The kinds of objects the server keeps, and how it tells clients about them.

use serde_json::{Value, json};

/// The version of every group.
pub(crate) const VERSION: &str = "v1";

/// A kind of object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    pub(crate) plural: &'static str,
    short: &'static [&'static str],
    pub(crate) namespaced: bool,
    subresources: &'static [&'static str],
}

impl Kind {
    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        join(self.group)
    }

    /// `pods` or `deployments.apps`, as in messages.
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The path of all objects of this kind.
    pub(crate) fn path(&self) -> String {
        let root = root(self.group);
        if self.namespaced {
            format!("{root}/namespaces/{{namespace}}/{}", self.plural)
        } else {
            format!("{root}/{}", self.plural)
        }
    }

    fn describe(&self) -> Vec<Value> {
        let mut whole = json!({
            "name": self.plural,
            "singularName": self.name.to_ascii_lowercase(),
            "namespaced": self.namespaced,
            "kind": self.name,
            "verbs": [
                "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
            ],
        });
        if !self.short.is_empty() {
            whole["shortNames"] = json!(self.short);
        }
        let parts = self.subresources.iter().map(|part| {
            json!({
                "name": format!("{}/{part}", self.plural),
                "singularName": "",
                "namespaced": self.namespaced,
                "kind": self.name,
                "verbs": ["create", "get", "patch", "update"],
            })
        });
        std::iter::once(whole).chain(parts).collect()
    }
}

/// Everything the server keeps.
pub(crate) static KINDS: &[Kind] = &[
    kind("", "Namespace", "namespaces", &["ns"], &["status"], false),
    kind("", "Pod", "pods", &["po"], &["attach", "exec", "log", "portforward", "status"], true),
    kind("", "ConfigMap", "configmaps", &["cm"], &[], true),
    kind("", "Secret", "secrets", &[], &[], true),
    kind("", "Service", "services", &["svc"], &["status"], true),
    kind("", "ServiceAccount", "serviceaccounts", &["sa"], &["token"], true),
    kind("", "Event", "events", &["ev"], &[], true),
    kind("", "Node", "nodes", &["no"], &["status"], false),
    kind("apps", "Deployment", "deployments", &["deploy"], &["status"], true),
    kind("coordination.k8s.io", "Lease", "leases", &[], &[], true),
    kind(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        &["csr"],
        &["approval", "status"],
        false,
    ),
    kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", &[], &[], false),
    kind("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", &[], &[], false),
];

const fn kind(
    group: &'static str,
    name: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    subresources: &'static [&'static str],
    namespaced: bool,
) -> Kind {
    Kind { group, name, plural, short, namespaced, subresources }
}

/// The kind with this plural name. `resource` may carry its group: `deployments.apps`.
pub(crate) fn by_resource(resource: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.plural == resource || kind.resource() == resource)
}

pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    of_group(group, version).find(|kind| kind.plural == plural)
}

/// The kinds of a group in this version.
pub(crate) fn of_group(group: &str, version: &str) -> impl Iterator<Item = &'static Kind> {
    let known = version == VERSION;
    KINDS.iter().filter(move |kind| known && kind.group == group)
}

/// The kind an object says it is.
pub(crate) fn of(object: &Value) -> Option<&'static Kind> {
    let api_version = object["apiVersion"].as_str()?;
    let said = object["kind"].as_str()?;
    KINDS.iter().find(|kind| kind.name == said && kind.api_version() == api_version)
}

/// Reviews: kinds that are answered, not kept.
const REVIEWS: &[(&str, &str, &str)] = &[
    ("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
    ("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
    ("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
];

/// The answer to `/api`.
pub(crate) fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": [VERSION], "serverAddressByClientCIDRs": [] })
}

/// The answer to `/apis`.
pub(crate) fn groups() -> Value {
    let groups: Vec<Value> = group_names().iter().map(|name| group_value(name)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// The answer to `/apis/GROUP`.
pub(crate) fn group(name: &str) -> Option<Value> {
    let known = group_names().contains(&name);
    known.then(|| {
        let mut group = group_value(name);
        group["kind"] = "APIGroup".into();
        group["apiVersion"] = "v1".into();
        group
    })
}

/// The answer to `/api/v1` and `/apis/GROUP/VERSION`.
pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    let mut resources: Vec<Value> = of_group(group, version).flat_map(Kind::describe).collect();
    for (of, kind, plural) in REVIEWS {
        if *of == group && version == VERSION {
            resources.push(json!({
                "name": plural,
                "singularName": "",
                "namespaced": false,
                "kind": kind,
                "verbs": ["create"],
            }));
        }
    }
    (!resources.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": join(group),
            "resources": resources,
        })
    })
}

/// Every group there is, the core one as an empty group.
pub(crate) fn all_groups() -> Vec<&'static str> {
    [vec![""], group_names()].concat()
}

/// `/api/v1` or `/apis/apps/v1`.
pub(crate) fn root(group: &str) -> String {
    if group.is_empty() { format!("/api/{VERSION}") } else { format!("/apis/{group}/{VERSION}") }
}

fn group_names() -> Vec<&'static str> {
    let kept = KINDS.iter().map(|kind| kind.group);
    let mut names: Vec<_> = kept.chain(REVIEWS.iter().map(|review| review.0)).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !name.is_empty());
    names
}

fn group_value(name: &str) -> Value {
    let version = json!({ "groupVersion": join(name), "version": VERSION });
    json!({ "name": name, "versions": [version.clone()], "preferredVersion": version })
}

/// `v1` or `apps/v1`.
fn join(group: &str) -> String {
    if group.is_empty() { VERSION.to_owned() } else { format!("{group}/{VERSION}") }
}
