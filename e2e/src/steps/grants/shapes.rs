//! Requests of every shape, made from what the API server says it has, with the attributes that each has.

use http_body_util::BodyExt;
use keyward::Client;
use serde_json::{Value, json};

use crate::Outcome;

/// A resource or subresource of the server.
pub struct Entry {
    pub group: String,
    version: String,
    pub resource: String,
    pub subresource: String,
    namespaced: bool,
}

/// A request, and what it asks for.
pub struct Shape {
    pub method: &'static str,
    pub target: String,
    pub upgrade: Option<&'static str>,
    pub asks: Asks,
}

/// What the authorizer is asked, as a `SubjectAccessReview` writes it.
pub enum Asks {
    Object(Value),
    Path(Value),
    /// Nothing: the request can be read in two ways.
    Odd,
}

/// Where objects are asked for.
pub const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
/// No object has this name.
const NAME: &str = "no-such-object";
/// Subresources that a client upgrades. A grant has to name every other that is upgraded, except `log`; a
/// role knows nothing of upgrades, so there is nothing to compare.
const STREAMS: [&str; 4] = ["exec", "attach", "portforward", "proxy"];
/// Changes nothing, whatever is asked for.
const DRY: &str = "dryRun=All";

/// Everything that the server has, in the preferred version of each group.
pub async fn discover(admin: &Client) -> Outcome<Vec<Entry>> {
    let get = async |path: &str| -> Outcome<Value> {
        let response = admin.get(path).await?;
        Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
    };
    let groups = get("/apis").await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut versions = vec![(String::new(), "v1".to_owned())];
    for group in groups["groups"].as_array().into_iter().flatten() {
        versions.push((text(&group["name"]), text(&group["preferredVersion"]["version"])));
    }
    let mut entries = Vec::new();
    for (group, version) in versions {
        let list = get(&base(&group, &version)).await?;
        for resource in list["resources"].as_array().into_iter().flatten() {
            let name = text(&resource["name"]);
            let (name, subresource) = name.split_once('/').unwrap_or((&name, ""));
            entries.push(Entry {
                group: group.clone(),
                version: version.clone(),
                resource: name.to_owned(),
                subresource: subresource.to_owned(),
                namespaced: resource["namespaced"] == true,
            });
        }
    }
    Ok(entries)
}

fn base(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// The shapes of requests for all entries, and of those for no object.
pub fn all(entries: &[Entry]) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for entry in entries {
        let scopes = if entry.namespaced { &NAMESPACES[..] } else { &[""] };
        for scope in scopes {
            if entry.subresource.is_empty() {
                entry.whole(scope, &mut shapes);
            } else {
                entry.part(scope, &mut shapes);
            }
        }
    }
    paths(&mut shapes);
    odd(&mut shapes);
    shapes
}

impl Entry {
    fn base(&self) -> String {
        base(&self.group, &self.version)
    }

    fn path(&self, prefix: &str, namespace: &str) -> String {
        let place =
            if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        format!("{}{prefix}{place}/{}", self.base(), self.resource)
    }

    fn shape(
        &self,
        method: &'static str,
        target: String,
        verb: &str,
        place: (&str, &str),
    ) -> Shape {
        let (mut namespace, name) = place;
        if self.group.is_empty() && self.resource == "namespaces" {
            // A namespace is in itself, and the list of them is in none.
            namespace = name;
        }
        let asks = Asks::Object(json!({
            "verb": verb,
            "group": self.group,
            "version": self.version,
            "resource": self.resource,
            "subresource": self.subresource,
            "namespace": namespace,
            "name": name,
        }));
        Shape { method, target, upgrade: None, asks }
    }

    /// Requests for objects and lists of them.
    fn whole(&self, namespace: &str, shapes: &mut Vec<Shape>) {
        let list = self.path("", namespace);
        let one = format!("{list}/{NAME}");
        let (all, named) = ((namespace, ""), (namespace, NAME));
        let dry = |path: &str| format!("{path}?{DRY}");
        let mut add = |method, target: String, verb, place| {
            shapes.push(self.shape(method, target, verb, place));
        };
        add("GET", list.clone(), "list", all);
        add("GET", format!("{list}?watch=true&timeoutSeconds=1"), "watch", all);
        add("POST", dry(&list), "create", all);
        add("DELETE", dry(&list), "deletecollection", all);
        add("GET", one.clone(), "get", named);
        add("GET", format!("{one}?watch=true"), "get", named);
        add("HEAD", one.clone(), "get", named);
        add("PUT", dry(&one), "update", named);
        add("PATCH", dry(&one), "patch", named);
        add("DELETE", dry(&one), "delete", named);
        if namespace == NAMESPACES[1] {
            // Once is enough: in all namespaces.
            let every = self.path("", "");
            add("GET", every.clone(), "list", ("", ""));
            add("GET", format!("{every}?watch=1&timeoutSeconds=1"), "watch", ("", ""));
            return;
        }
        let watched = self.path("/watch", namespace);
        add("GET", format!("{watched}?timeoutSeconds=1"), "watch", all);
        add("GET", format!("{watched}/{NAME}?timeoutSeconds=1"), "watch", named);
        add("GET", format!("{list}?watch=false"), "list", all);
        add("GET", format!("{list}?%77atch=0"), "list", all);
        add("HEAD", list.clone(), "list", all);
        add("OPTIONS", list.clone(), "", all);
        let selected = format!("{list}?fieldSelector=metadata.name%3D{NAME}");
        if self.resource != "namespaces" {
            add("GET", selected, "list", named);
        }
        // Escapes that spell the same.
        let letter = self.resource.as_bytes()[0];
        let spelled = format!("%{letter:02x}{}", &self.resource[1..]);
        add(
            "GET",
            list.replace(&format!("/{}", self.resource), &format!("/{spelled}")),
            "list",
            all,
        );
        add("GET", format!("{list}/system%3Anone"), "get", (namespace, "system:none"));
    }

    /// Requests for a part of an object.
    fn part(&self, namespace: &str, shapes: &mut Vec<Shape>) {
        let target = format!("{}/{NAME}/{}", self.path("", namespace), self.subresource);
        let named = (namespace, NAME);
        let methods = [
            ("GET", "get"),
            ("POST", "create"),
            ("PUT", "update"),
            ("PATCH", "patch"),
            ("DELETE", "delete"),
        ];
        for (method, verb) in methods {
            let query = if method == "GET" { String::new() } else { format!("?{DRY}") };
            shapes.push(self.shape(method, format!("{target}{query}"), verb, named));
        }
        if STREAMS.contains(&self.subresource.as_str()) {
            let query = "?command=true&stdout=true&ports=80";
            for (method, verb, upgrade) in [
                ("GET", "get", "websocket"),
                ("POST", "create", "SPDY/3.1"),
                ("GET", "get", "SPDY/3.1"),
            ] {
                let mut shape = self.shape(method, format!("{target}{query}"), verb, named);
                shape.upgrade = Some(upgrade);
                shapes.push(shape);
            }
        }
        if self.subresource == "proxy" {
            shapes.push(self.shape("GET", format!("{target}/metrics/x"), "get", named));
            shapes.push(self.shape("HEAD", format!("{target}/"), "get", named));
        }
    }
}

/// Requests for no object.
fn paths(shapes: &mut Vec<Shape>) {
    for path in [
        "/",
        "/api",
        "/api/",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/version",
        "/version/",
        "/healthz",
        "/healthz/ping",
        "/livez",
        "/livez/ping",
        "/readyz",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
        "/logs",
        "/debug/pprof",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/nothing",
        "/API/v1/secrets",
    ] {
        for method in ["GET", "POST", "HEAD", "DELETE"] {
            let verb = method.to_ascii_lowercase();
            let asks = Asks::Path(json!({ "verb": verb, "path": path }));
            shapes.push(Shape { method, target: path.to_owned(), upgrade: None, asks });
        }
    }
}

/// What no grant allows, because two readers could disagree about it.
fn odd(shapes: &mut Vec<Shape>) {
    for target in [
        "/api/v1/namespaces/team-a/pods/x%2f..%2f..%2fsecrets",
        "/api/v1/namespaces/team-a/pods/../secrets",
        "/api/v1/namespaces/team-a/pods/%2e%2e/secrets",
        "/api/v1/namespaces/team-a/./secrets",
        "/api/v1/namespaces/team-a%2fsecrets",
        "/api/v1/namespaces//secrets",
        "//api/v1/secrets",
        "/api//v1/secrets",
        "/api/v1/secrets//",
        "/api/v1/secrets%00",
        "/api/v1/secrets%0a",
        "/api/v1/secrets;x=y",
        "/api/v1/pods%3fwatch=1",
        "/api/v1/secrets%23",
        "/api/v1/pods%5c..%5csecrets",
        "/api/v1/pods%252f",
        "/api/v1/pods%zz",
        "/api/v1/pods%ff",
        "/api/v1/watch",
        "/api/v1/pods?a=1;watch=1",
        "/api/v1/pods?watch=%zz",
    ] {
        for method in ["GET", "DELETE"] {
            let target = target.to_owned();
            shapes.push(Shape { method, target, upgrade: None, asks: Asks::Odd });
        }
    }
    let target = "/api/v1/pods?watch=0&watch=1".to_owned();
    shapes.push(Shape { method: "GET", target, upgrade: None, asks: Asks::Odd });
}
