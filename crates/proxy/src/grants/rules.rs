//! What a grant allows, as a role of the API server would.

use std::{fmt, str::FromStr};

use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Object};
use crate::gate::IMPERSONATE_USER;

/// The verbs of requests for objects.
const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

const READ: [&str; 3] = ["get", "list", "watch"];

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
const SENSITIVE_SUBRESOURCES: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

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
    /// Allows reading everything but sensitive resources.
    pub read_only: bool,
    /// Allows what these name.
    pub allow: Vec<Allow>,
    /// Allows objects only in these namespaces; all, and those in none, if it is empty.
    pub namespaces: Vec<String>,
    /// Acts as this user. Unless the rules above allow less, the server alone decides what that user
    /// may do, except with sensitive resources.
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
        ((all || self.read_only) && !is_sensitive(object) && verbs.contains(&object.verb))
            || self.allow.iter().any(|rule| rule.allows(object))
    }

    /// The headers that make requests act as the user of the rules; `None` if none can.
    pub(crate) fn headers(&self) -> Option<Vec<(HeaderName, HeaderValue)>> {
        // HTTP/1.1 drops white space at the ends, and the server acts as the owner if nothing is left.
        let plain = |text: &str| !text.is_empty() && text.trim() == text;
        let value = |text: &String| HeaderValue::from_str(text).ok().filter(|_| plain(text));
        let users = self.as_user.iter().map(|user| (IMPERSONATE_USER, value(user)));
        let groups = self.as_groups.iter().map(|group| (IMPERSONATE_GROUP, value(group)));
        // Groups without a user would be those of the kubeconfig's own user.
        let complete = self.as_user.is_some() || self.as_groups.is_empty();
        let all = users.chain(groups).map(|(name, value)| Some((name, value?)));
        complete.then(|| all.collect())?
    }

    /// A namespace of the rules that cannot exist. An empty one would stand for the whole cluster.
    pub(crate) fn bad_namespace(&self) -> Option<&str> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let label = |name: &String| {
            (1..=63).contains(&name.len())
                && name.starts_with(plain)
                && name.ends_with(plain)
                && name.chars().all(|c| plain(c) || c == '-')
        };
        self.namespaces.iter().find(|name| !label(name)).map(String::as_str)
    }

    /// The rules in words, a line each.
    pub fn words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.read_only {
            lines.push("read everything except sensitive resources".to_owned());
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
/// `*` stands for every verb, every resource with its subresources, or every group. Sensitive
/// resources have to be named: `*` does not stand for them.
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
            [all] if all == ALL => VERBS.contains(&object.verb),
            verbs => verbs.iter().any(|verb| *verb == object.verb),
        };
        verb && self.group.as_ref().is_none_or(|group| *group == object.group)
            && self.covers(object)
            && (!is_sensitive(object) || self.names_explicitly(object))
    }

    /// As the server's roles do: `*` covers subresources, and a plain name does not.
    fn covers(&self, object: &Object) -> bool {
        let resource = self.resource == ALL || self.resource == object.resource;
        let whole = self.resource == ALL && self.subresource.is_empty();
        resource && (whole || self.subresource == object.subresource)
    }

    /// Whether the rule names what makes the object sensitive.
    fn names_explicitly(&self, object: &Object) -> bool {
        (!is_sensitive_subresource(object) || self.subresource == object.subresource)
            && (!is_sensitive_resource(object) || self.resource == object.resource)
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
/// rule describes. `docs/grants.md` lists these resources.
fn is_sensitive(object: &Object) -> bool {
    is_sensitive_subresource(object) || is_sensitive_resource(object)
}

fn is_sensitive_resource(object: &Object) -> bool {
    matches!(
        (object.group.as_str(), object.resource.as_str()),
        ("", "secrets") | ("certificates.k8s.io", "certificatesigningrequests")
    )
}

fn is_sensitive_subresource(object: &Object) -> bool {
    let part = object.subresource.as_str();
    SENSITIVE_SUBRESOURCES.contains(&part)
        || (object.resource == "serviceaccounts" && part == "token")
        // Other APIs have streams too, such as the consoles of virtual machines.
        || (object.upgrade && !["", "log"].contains(&part))
}

#[cfg(test)]
mod tests;
