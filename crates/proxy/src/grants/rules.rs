//! What a grant allows, as a role of the API server would.

use std::{fmt, str::FromStr};

use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Object};

/// The verbs of requests for objects.
const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

const READ: [&str; 3] = ["get", "list", "watch"];

const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");
const IMPERSONATE_GROUP: HeaderName = HeaderName::from_static("impersonate-group");

/// What a rule writes for everything.
const ALL: &str = "*";

/// What every grant may read: the paths of the role `system:discovery`.
const DISCOVERY: [&str; 11] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];

/// What every grant may create: questions about its own user.
const SELF_REVIEWS: [(&str, &str); 3] = [
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
];

/// Subresources that run programs in a container, or lead past the API server.
const GUARDED_SUBRESOURCES: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

/// Built-in resources of other groups, which are easily taken for the core group's.
const GROUPS: [(&str, &[&str]); 6] = [
    ("apps", &["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("batch", &["cronjobs", "jobs"]),
    ("networking.k8s.io", &["ingresses", "ingressclasses", "networkpolicies"]),
    (
        "rbac.authorization.k8s.io",
        &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
    ),
    ("storage.k8s.io", &["csidrivers", "csinodes", "storageclasses", "volumeattachments"]),
    ("certificates.k8s.io", &["certificatesigningrequests"]),
];

/// What a grant allows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    /// Allows reading everything but what has to be named.
    pub read_only: bool,
    /// Allows what these name.
    pub allow: Vec<Allow>,
    /// Allows objects only in these namespaces; all, and those in none, if it is empty.
    pub namespaces: Vec<String>,
    /// Acts as this user. Unless the rules above allow less, the server alone decides what that user
    /// may do, except what has to be named.
    pub as_user: Option<String>,
    /// Acts as a member of these groups; only with a user.
    pub as_groups: Vec<String>,
}

impl Rules {
    /// Whether a request is allowed.
    pub(crate) fn allows(&self, attributes: &Attributes) -> bool {
        match attributes {
            Attributes::Path { verb, path } => verb == "get" && is_discovery(path),
            Attributes::Object(object) if is_self_review(object) => true,
            Attributes::Object(object) => self.reaches(object) && self.allows_object(object),
        }
    }

    /// Whether an object is in one of the namespaces.
    pub(crate) fn reaches(&self, object: &Object) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(&object.namespace)
    }

    fn allows_object(&self, object: &Object) -> bool {
        let all = self.as_user.is_some() && !self.read_only && self.allow.is_empty();
        let verbs: &[&str] = if all { &VERBS } else { &READ };
        ((all || self.read_only) && !is_guarded(object) && verbs.contains(&&*object.verb))
            || self.allow.iter().any(|rule| rule.allows(object))
    }

    /// The headers that make requests act as the user of the rules; `None` if none can.
    pub(crate) fn headers(&self) -> Option<Vec<(HeaderName, HeaderValue)>> {
        let value = |text: &String| HeaderValue::from_str(text).ok().filter(|_| !text.is_empty());
        let users = self.as_user.iter().map(|user| (IMPERSONATE_USER, value(user)));
        let groups = self.as_groups.iter().map(|group| (IMPERSONATE_GROUP, value(group)));
        // Groups without a user would be those of the kubeconfig's own user.
        let complete = self.as_user.is_some() || self.as_groups.is_empty();
        let all = users.chain(groups).map(|(name, value)| Some((name, value?)));
        complete.then(|| all.collect())?
    }

    /// The rules in words, a line each.
    pub fn words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.read_only {
            lines.push("read everything but secrets".to_owned());
        }
        lines.extend(self.allow.iter().map(ToString::to_string));
        if !self.namespaces.is_empty() {
            lines.push(format!("only in {}", self.namespaces.join(", ")));
        }
        if let Some(user) = &self.as_user {
            let groups = match self.as_groups.as_slice() {
                [] => String::new(),
                groups => format!(" in {}", groups.join(", ")),
            };
            lines.push(format!("as {user}{groups}"));
        }
        lines
    }
}

/// One rule: `VERB[,VERB…]:RESOURCE[/SUBRESOURCE][.GROUP]`.
///
/// `*` stands for every verb, every resource with its subresources, or every group. What is denied by
/// default has to be named: `*` does not stand for it.
///
/// ```
/// use keyward_proxy::grants::Allow;
///
/// let rule: Allow = "get,patch:deployments/scale.apps".parse()?;
/// assert_eq!(rule.to_string(), "get,patch:deployments/scale.apps");
/// assert!("read:pods".parse::<Allow>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Allow {
    verbs: Vec<String>,
    resource: String,
    subresource: String,
    /// `None` for every group.
    group: Option<String>,
}

impl Allow {
    fn allows(&self, object: &Object) -> bool {
        let verb = match self.verbs.as_slice() {
            [all] if all == ALL => VERBS.contains(&&*object.verb),
            verbs => verbs.iter().any(|verb| *verb == object.verb),
        };
        verb && self.group.as_ref().is_none_or(|group| *group == object.group)
            && self.covers(object)
            && (!is_guarded(object) || self.names(object))
    }

    /// As the server's roles do: `*` covers subresources, and a plain name does not.
    fn covers(&self, object: &Object) -> bool {
        let resource = self.resource == ALL || self.resource == object.resource;
        let whole = self.resource == ALL && self.subresource.is_empty();
        resource && (whole || self.subresource == object.subresource)
    }

    /// Whether the rule names what is denied by default.
    fn names(&self, object: &Object) -> bool {
        if is_guarded_subresource(object) {
            self.subresource == object.subresource
        } else {
            self.resource == object.resource
        }
    }
}

impl FromStr for Allow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (verbs, resource) =
            text.split_once(':').ok_or("write VERB:RESOURCE, such as `get:pods`")?;
        let verbs: Vec<String> = verbs.split(',').map(str::to_owned).collect();
        let all = verbs.len() == 1 && verbs[0] == ALL;
        if let Some(verb) = verbs.iter().find(|verb| !all && !VERBS.contains(&verb.as_str())) {
            return Err(format!("`{verb}` is not a verb; there are {}, and `*`", VERBS.join(", ")));
        }
        let (resource, group) = match resource.split_once('.') {
            Some((resource, group)) => (resource, Some(group)),
            None => (resource, None),
        };
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let word = |word: &str| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        };
        let good = (resource == ALL || word(resource))
            && (subresource.is_empty() || word(subresource))
            && group.is_none_or(|group| group == ALL || word(group));
        if !good || text.contains("/.") || text.ends_with('/') {
            return Err("write VERB:RESOURCE[/SUBRESOURCE][.GROUP], such as `get:pods/log` or \
                        `patch:deployments.apps`"
                .to_owned());
        }
        let known = GROUPS.iter().find(|(_, resources)| resources.contains(&resource));
        if let (None, Some((group, _))) = (group, known) {
            return Err(format!(
                "`{resource}` is in the group `{group}`: write `{resource}.{group}`"
            ));
        }
        let group = match group {
            None if resource == ALL => None,
            None => Some(String::new()),
            Some(ALL) => None,
            Some(group) => Some(group.to_owned()),
        };
        let (resource, subresource) = (resource.to_owned(), subresource.to_owned());
        Ok(Self { verbs, resource, subresource, group })
    }
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.verbs.join(","), self.resource)?;
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        match &self.group {
            None if self.resource == ALL => Ok(()),
            None => f.write_str(".*"),
            Some(group) if group.is_empty() => Ok(()),
            Some(group) => write!(f, ".{group}"),
        }
    }
}

impl TryFrom<String> for Allow {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Allow> for String {
    fn from(rule: Allow) -> Self {
        rule.to_string()
    }
}

fn is_discovery(path: &str) -> bool {
    DISCOVERY.iter().any(|known| match known.strip_suffix(ALL) {
        Some(prefix) => path.starts_with(prefix),
        None => path == *known,
    })
}

fn is_self_review(object: &Object) -> bool {
    object.verb == "create"
        && object.subresource.is_empty()
        && SELF_REVIEWS.contains(&(object.group.as_str(), object.resource.as_str()))
}

/// Whether only a rule that names it allows this: it gives out credentials, or gives access that no
/// rule describes.
fn is_guarded(object: &Object) -> bool {
    is_guarded_subresource(object)
        || matches!(
            (object.group.as_str(), object.resource.as_str()),
            ("", "secrets") | ("certificates.k8s.io", "certificatesigningrequests")
        )
}

fn is_guarded_subresource(object: &Object) -> bool {
    GUARDED_SUBRESOURCES.contains(&object.subresource.as_str())
        || (object.resource == "serviceaccounts" && object.subresource == "token")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn rules(allow: &[&str]) -> Rules {
        Rules {
            allow: allow.iter().map(|rule| rule.parse().unwrap()).collect(),
            ..Rules::default()
        }
    }

    fn judge(rules: &Rules, request: &str) -> bool {
        let (method, target) = request.split_once(' ').unwrap();
        let attributes = Attributes::of(&method.parse().unwrap(), &target.parse().unwrap());
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
            (
                "get:pods.metrics.k8s.io",
                "GET /apis/metrics.k8s.io/v1beta1/namespaces/a/pods/b",
                true,
            ),
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
            (
                "create:serviceaccounts/token",
                "POST /api/v1/namespaces/a/serviceaccounts/b/token",
                true,
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
        assert_eq!(both.words(), ["read everything but secrets", "as viewer"]);
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
}
