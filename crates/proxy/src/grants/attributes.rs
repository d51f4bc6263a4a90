//! What the API server's authorizer decides on: verb, group, resource, subresource, namespace, name.
//!
//! Follows the server's `RequestInfoFactory` (k8s.io/apiserver, `endpoints/request`), so that a grant
//! and a role with the same rules agree. The server looks at the decoded path. A path that two readers
//! could take apart differently is refused instead.

use http::{Method, Uri};
use keyward_protocol::url::percent_decode;

use crate::refusal::{ODD_PATH, ODD_QUERY, Refusal};

/// The attributes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// Something that is no object, such as `/version`.
    Path {
        /// The method in lower case.
        verb: String,
        /// The decoded path.
        path: String,
    },
    /// An object, or a list of objects.
    Object(Object),
}

/// The attributes of a request for objects. A field is empty if the request does not have it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Object {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) name: String,
    /// Whether the client wants to upgrade the connection.
    pub(crate) upgrade: bool,
}

/// Old paths have one of these after the version. It is the verb, and the server still takes it off.
const VERB_PREFIXES: [&str; 2] = ["proxy", "watch"];

/// What follows the name of a namespace and is not a kind of objects in it.
const OF_NAMESPACES: [&str; 2] = ["status", "finalize"];

impl Attributes {
    /// Reads the attributes of a request. The server's authorizer does not see whether it is an upgrade.
    pub(crate) fn of(method: &Method, uri: &Uri, upgrade: bool) -> Result<Self, Refusal> {
        let path = decode_path(uri.path())?;
        let query = Query::parse(uri.query().unwrap_or_default())?;
        let other = |path: &[String]| Self::Path {
            verb: method.as_str().to_ascii_lowercase(),
            path: format!("/{}", path.join("/")),
        };
        let parts = match path.split_last() {
            // A slash at the end.
            Some((last, before)) if last.is_empty() => before,
            _ => &path,
        };
        let (group, rest) = match parts {
            [api, rest @ ..] if api == "api" && rest.len() >= 2 => ("", rest),
            [apis, group, rest @ ..] if apis == "apis" && rest.len() >= 2 => (group.as_str(), rest),
            _ => return Ok(other(&path)),
        };
        // After the version.
        let mut rest = &rest[1..];
        let mut verb = match method.as_str() {
            "POST" => "create",
            "GET" | "HEAD" => "get",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "",
        };
        if let Some(prefix) = VERB_PREFIXES.into_iter().find(|prefix| rest[0] == *prefix) {
            if rest.len() < 2 {
                return Err(ODD_PATH);
            }
            verb = prefix;
            rest = &rest[1..];
        }
        let mut namespace = "";
        if rest[0] == "namespaces" && rest.len() > 1 {
            namespace = &rest[1];
            if rest.len() > 2 && !OF_NAMESPACES.contains(&rest[2].as_str()) {
                rest = &rest[2..];
            }
        }
        let part = |at: usize| rest.get(at).cloned().unwrap_or_default();
        let mut object = Object {
            verb,
            group: group.to_owned(),
            namespace: namespace.to_owned(),
            resource: part(0),
            subresource: String::new(),
            name: part(1),
            upgrade,
        };
        if object.verb != "proxy" {
            object.subresource = part(2);
        }
        if object.name.is_empty() && object.verb == "get" {
            object.verb = if query.watches()? { "watch" } else { "list" };
            object.name = query.name().unwrap_or_default();
        } else if object.name.is_empty() && object.verb == "delete" {
            object.verb = "deletecollection";
        }
        Ok(Self::Object(object))
    }
}

impl Object {
    /// The resource as rules write it: `pods`, `pods/exec`, `deployments/scale.apps`.
    pub(crate) fn in_rule_form(&self) -> String {
        let mut text = self.resource.clone();
        for (mark, part) in [('/', &self.subresource), ('.', &self.group)] {
            if !part.is_empty() {
                text.push(mark);
                text += part;
            }
        }
        text
    }
}

/// The decoded parts of a path; the last one is empty if the path ends in a slash.
///
/// Refuses what is normalised in different ways: empty parts, `.` and `..`, an encoded slash, and
/// characters that some readers give a meaning.
fn decode_path(path: &str) -> Result<Vec<String>, Refusal> {
    let parts: Vec<&str> = path.strip_prefix('/').ok_or(ODD_PATH)?.split('/').collect();
    let last = parts.len() - 1;
    let decode = |(at, part): (usize, &&str)| {
        let odd = |c: char| c.is_control() || "/\\%;?#".contains(c);
        let decoded = part.is_ascii().then(|| decode(part)).flatten().ok_or(ODD_PATH)?;
        let good = (!decoded.is_empty() || at == last)
            && ![".", ".."].contains(&decoded.as_str())
            && !decoded.contains(odd);
        if good { Ok(decoded) } else { Err(ODD_PATH) }
    };
    parts.iter().enumerate().map(decode).collect()
}

/// Decodes percent escapes; `None` if one is incomplete, or the text is not UTF-8.
fn decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    String::from_utf8(percent_decode(text)?).ok()
}

/// The decoded query.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Go ignores a part that it cannot decode, and other readers do not.
    pub(crate) fn parse(query: &str) -> Result<Self, Refusal> {
        if !query.is_ascii() || query.contains(';') {
            return Err(ODD_QUERY);
        }
        let text = |part: &str| decode(&part.replace('+', " ")).ok_or(ODD_QUERY);
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((text(key)?, text(value)?))
        });
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }

    /// The values of a key.
    pub(crate) fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// Whether a list is watched: every value but `0` and `false` says so.
    fn watches(&self) -> Result<bool, Refusal> {
        let mut values = self.values("watch");
        let Some(value) = values.next() else { return Ok(false) };
        // The server takes the first, and a reader in between may take the last.
        if values.next().is_some() {
            return Err(ODD_QUERY);
        }
        Ok(value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// The only name that a list can contain.
    fn name(&self) -> Option<String> {
        let selector = self.values("fieldSelector").next()?;
        let name = |term: &str| {
            let (field, value) = term.split_once('=')?;
            let value = value.strip_prefix('=').unwrap_or(value);
            let plain = !value.contains(['/', '%', '\\']) && ![".", ".."].contains(&value);
            (field == "metadata.name" && plain).then(|| value.to_owned())
        };
        selector.split(',').find_map(name).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(method: &str, target: &str) -> Option<String> {
        let attributes = Attributes::of(&method.parse().unwrap(), &target.parse().unwrap(), false);
        Some(match attributes.ok()? {
            Attributes::Path { verb, path } => format!("{verb} {path}"),
            Attributes::Object(object) => {
                let resource = object.in_rule_form();
                let Object { verb, namespace, name, .. } = object;
                format!("{verb} {resource} in `{namespace}` named `{name}`")
            }
        })
    }

    #[test]
    fn requests_have_the_attributes_that_the_server_sees() {
        for (method, target, expected) in [
            ("GET", "/api/v1/pods", "list pods in `` named ``"),
            ("GET", "/api/v1/pods?watch=true", "watch pods in `` named ``"),
            ("GET", "/api/v1/pods?watch", "watch pods in `` named ``"),
            ("GET", "/api/v1/pods?watch=", "watch pods in `` named ``"),
            ("GET", "/api/v1/pods?%77atch=1", "watch pods in `` named ``"),
            ("GET", "/api/v1/pods?watch=false", "list pods in `` named ``"),
            ("GET", "/api/v1/pods?watch=False", "list pods in `` named ``"),
            ("GET", "/api/v1/pods?watch=0", "list pods in `` named ``"),
            ("GET", "/api/v1/pods?watch=no", "watch pods in `` named ``"),
            ("GET", "/api/v1/pods?Watch=1", "list pods in `` named ``"),
            ("GET", "/api/v1/namespaces/a/pods/b?watch=1", "get pods in `a` named `b`"),
            ("HEAD", "/api/v1/namespaces/a/pods/b", "get pods in `a` named `b`"),
            ("HEAD", "/api/v1/namespaces/a/pods", "list pods in `a` named ``"),
            ("GET", "/api/v1/watch/pods", "watch pods in `` named ``"),
            ("GET", "/api/v1/watch/namespaces/a/pods/b", "watch pods in `a` named `b`"),
            ("DELETE", "/api/v1/watch/pods", "watch pods in `` named ``"),
            ("GET", "/api/v1/proxy/namespaces/a/pods/b/x", "proxy pods in `a` named `b`"),
            ("POST", "/api/v1/namespaces/a/pods", "create pods in `a` named ``"),
            ("POST", "/api/v1/namespaces/a/pods/b/exec", "create pods/exec in `a` named `b`"),
            ("GET", "/api/v1/namespaces/a/pods/b/exec?command=x", "get pods/exec in `a` named `b`"),
            ("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", "get pods/log in `a` named `b`"),
            ("GET", "/api/v1/namespaces/a/pods/b/proxy/x/y", "get pods/proxy in `a` named `b`"),
            ("GET", "/api/v1/nodes/n/proxy/run", "get nodes/proxy in `` named `n`"),
            ("PUT", "/api/v1/namespaces/a/pods/b/status", "update pods/status in `a` named `b`"),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "patch deployments/scale.apps in `a` named `b`",
            ),
            ("DELETE", "/api/v1/namespaces/a/pods/b", "delete pods in `a` named `b`"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection pods in `a` named ``"),
            ("OPTIONS", "/api/v1/pods", " pods in `` named ``"),
            ("get", "/api/v1/pods", " pods in `` named ``"),
            ("GET", "/api/v1/namespaces", "list namespaces in `` named ``"),
            ("GET", "/api/v1/namespaces/a", "get namespaces in `a` named `a`"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize in `a` named `a`"),
            ("PATCH", "/api/v1/namespaces/a/status", "patch namespaces/status in `a` named `a`"),
            ("GET", "/api/v1/namespaces/a/statuses", "list statuses in `a` named ``"),
            (
                "GET",
                "/api/v1/namespaces/namespaces/namespaces",
                "list namespaces in `namespaces` named ``",
            ),
            ("GET", "/api/v1/pods/", "list pods in `` named ``"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "list pods in `` named `x`"),
            (
                "GET",
                "/api/v1/pods?watch=1&fieldSelector=a%3Db,metadata.name==x",
                "watch pods in `` named `x`",
            ),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!%3Dx", "list pods in `` named ``"),
            ("GET", "/apis/a.b/v1/cs/system%3Ax", "get cs.a.b in `` named `system:x`"),
            ("GET", "/api/%76%31/%73ecrets", "list secrets in `` named ``"),
            ("GET", "/%61pi/v1/secrets", "list secrets in `` named ``"),
            ("GET", "/", "get /"),
            ("GET", "/version", "get /version"),
            ("GET", "/version/", "get /version/"),
            ("POST", "/version", "post /version"),
            ("GET", "/api", "get /api"),
            ("GET", "/api/v1", "get /api/v1"),
            ("GET", "/api/v1/", "get /api/v1/"),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("GET", "/apis/apps/v1/", "get /apis/apps/v1/"),
            ("GET", "/openapi/v3/apis/apps/v1", "get /openapi/v3/apis/apps/v1"),
            ("GET", "/API/v1/pods", "get /API/v1/pods"),
        ] {
            assert_eq!(read(method, target).as_deref(), Some(expected), "{method} {target}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for target in [
            "//api/v1/pods",
            "/api//v1/pods",
            "/api/v1/pods//",
            "/api/v1/./pods",
            "/api/v1/../v1/pods",
            "/api/v1/namespaces/a/pods/%2e%2e/secrets",
            "/api/v1/namespaces/a%2fb/pods",
            "/api/v1/namespaces/a%2Fsecrets",
            "/api/v1/pods%3Fwatch=1",
            "/api/v1/pods%23",
            "/api/v1/pods%25",
            "/api/v1/pods;a=b",
            "/api/v1/pods%5cx",
            "/api/v1/pods%00",
            "/api/v1/pods%0a",
            "/api/v1/pods%zz",
            "/api/v1/pods%f",
            "/api/v1/pods%ff",
            "/api/v1/watch",
            "/apis/apps/v1/watch",
            "/api/v1/pods?watch=%zz",
            "/api/v1/pods?x=1;watch=1",
            "/api/v1/pods?watch=0&watch=1",
        ] {
            assert_eq!(read("GET", target), None, "{target}");
        }
        assert_eq!(read("OPTIONS", "*"), None);
    }
}
