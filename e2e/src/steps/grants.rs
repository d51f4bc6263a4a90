//! Grants before a real API server: they allow what roles with the same rules allow.

mod shapes;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use http_body_util::BodyExt;
use keyward::{Body, Client};
use keyward_host::{Kubeconfig, NoopObserver, Overrides, PlanSettings, Sources, rules::Rules};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use serde_json::{Value, json};

use self::shapes::{Asks, Entry, NAMESPACES, Shape};
use crate::{Outcome, cluster::Cluster, tools};

/// How many requests are under way.
const AT_ONCE: usize = 8;
/// How many shapes each grant is asked at least.
const LEAST: usize = 600;
const READ: [&str; 3] = ["get", "list", "watch"];
const ALL: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// A grant, and the role that allows the same.
struct Case {
    name: &'static str,
    args: &'static [&'static str],
    /// Where the role is bound; everywhere if it is empty.
    namespaces: &'static [&'static str],
    /// Verbs, and which entries of the server they are for.
    rules: &'static [Rule],
}

type Rule = (&'static [&'static str], fn(&Entry) -> bool);

/// What has to be named.
fn guarded(entry: &Entry) -> bool {
    let stream = ["exec", "attach", "portforward", "proxy"].contains(&entry.subresource.as_str());
    let Entry { group, resource, subresource, .. } = entry;
    stream
        || (resource == "serviceaccounts" && subresource == "token")
        || (group.is_empty() && resource == "secrets")
        || resource == "certificatesigningrequests"
}

fn is(entry: &Entry, group: &str, name: &str) -> bool {
    let (resource, subresource) = name.split_once('/').unwrap_or((name, ""));
    entry.group == group && entry.resource == resource && entry.subresource == subresource
}

const CASES: [Case; 6] = [
    Case {
        name: "reader",
        args: &["--read-only"],
        namespaces: &[],
        rules: &[(&READ, |entry| !guarded(entry))],
    },
    Case {
        name: "team-reader",
        args: &["--read-only", "--namespace", "team-a"],
        namespaces: &["team-a"],
        rules: &[(&READ, |entry| !guarded(entry))],
    },
    Case {
        name: "named",
        args: &[
            "--allow",
            "get,list:pods",
            "--allow",
            "create:pods/exec",
            "--allow",
            "get:pods/log",
            "--allow",
            "patch:deployments.apps",
            "--allow",
            "update,patch:*/scale.apps",
            "--allow",
            "*:configmaps",
            "--allow",
            "list:secrets",
            "--allow",
            "get:nodes/proxy",
            "--allow",
            "create:serviceaccounts/token",
            "--allow",
            "get,deletecollection:certificatesigningrequests.certificates.k8s.io",
        ],
        namespaces: &[],
        rules: &[
            (&["get", "list"], |entry| is(entry, "", "pods")),
            (&["create"], |entry| {
                is(entry, "", "pods/exec") || is(entry, "", "serviceaccounts/token")
            }),
            (&["get"], |entry| is(entry, "", "pods/log") || is(entry, "", "nodes/proxy")),
            (&["patch"], |entry| is(entry, "apps", "deployments")),
            (&["update", "patch"], |entry| entry.group == "apps" && entry.subresource == "scale"),
            (&ALL, |entry| is(entry, "", "configmaps")),
            (&["list"], |entry| is(entry, "", "secrets")),
            (&["get", "deletecollection"], |entry| {
                is(entry, "certificates.k8s.io", "certificatesigningrequests")
            }),
        ],
    },
    Case {
        name: "writer",
        args: &["--allow", "*:*"],
        namespaces: &[],
        rules: &[(&ALL, |entry| !guarded(entry))],
    },
    Case {
        name: "teams",
        args: &[
            "--namespace",
            "team-a",
            "--namespace",
            "team-b",
            "--allow",
            "*:*",
            "--allow",
            "*:secrets",
            "--allow",
            "*:*/exec",
            "--allow",
            "*:*/attach",
            "--allow",
            "*:*/portforward",
            "--allow",
            "*:*/proxy",
            "--allow",
            "*:serviceaccounts/token",
        ],
        namespaces: &NAMESPACES,
        rules: &[(&ALL, |entry| entry.resource != "certificatesigningrequests")],
    },
    Case {
        name: "apps",
        args: &["--allow", "*:*.apps", "--allow", "get:*/status", "--allow", "delete:pods.*"],
        namespaces: &[],
        rules: &[
            (&ALL, |entry| entry.group == "apps" && !guarded(entry)),
            (&["get"], |entry| {
                entry.subresource == "status" && entry.resource != "certificatesigningrequests"
            }),
            (&["delete"], |entry| entry.resource == "pods" && entry.subresource.is_empty()),
        ],
    },
];

/// A home with an agent and a background proxy, which end with it.
struct Home {
    keyward: PathBuf,
    path: PathBuf,
}

impl Home {
    fn new(cluster: &Cluster) -> Outcome<Self> {
        let path = cluster.path("grants");
        for folder in [path.clone(), path.join("run"), path.join(".kube")] {
            fs::create_dir_all(&folder)?;
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        }
        fs::copy(&cluster.admin, path.join(".kube/config"))?;
        Ok(Self { keyward: cluster.tools.own("keyward"), path })
    }

    async fn keyward(&self, args: &[&str]) -> Outcome<String> {
        let mut command = tools::command(&self.keyward, &self.path);
        command.env("XDG_RUNTIME_DIR", self.path.join("run"));
        for name in ["CI", "KEYWARD_AGENT", "KEYWARD_AGENT_SOCK", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        tools::succeed(command.args(args)).await
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let mut command = Command::new(&self.keyward);
        command.env("HOME", &self.path).env("XDG_RUNTIME_DIR", self.path.join("run"));
        command.env_remove("KEYWARD_AGENT_SOCK");
        let _ = command.args(["agent", "stop"]).output();
    }
}

/// A client that adds nothing to requests.
fn client(kubeconfig: &Path) -> Outcome<Client> {
    let target = Kubeconfig::from_bytes(&fs::read(kubeconfig)?)?
        .resolve(&Overrides::default(), &Surroundings::process())?;
    let sources = Sources::new(std::sync::Arc::new(SystemClock), std::sync::Arc::new(NoopObserver));
    let builder = Client::builder().without_defaults().plan(PlanSettings::default());
    Ok(builder.open(&target, &Rules::default(), &sources)?)
}

pub async fn equal_roles(cluster: &Cluster) -> Outcome<String> {
    let home = Home::new(cluster)?;
    let admin = client(&cluster.admin)?;
    let entries = shapes::discover(&admin).await?;
    let shapes = shapes::all(&entries);
    for namespace in NAMESPACES {
        let metadata = json!({ "name": namespace });
        cluster
            .apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }))
            .await?;
    }
    let (mut asked, mut allowed, mut by_default) = (0, 0, 0);
    for (number, case) in CASES.iter().enumerate() {
        bind(cluster, case, &entries).await?;
        let args = [&["grant", "create", case.name, "--context", "e2e"], case.args].concat();
        let granted = client(Path::new(home.keyward(&args).await?.trim_end()))?;
        // A part of them each, and to each what matters most.
        let own = shapes.iter().enumerate().filter(|(at, shape)| {
            at % CASES.len() == number
                || !matches!(&shape.asks, Asks::Object(asks) if !is_guarded(asks))
        });
        let own: Vec<&Shape> = own.map(|(_, shape)| shape).collect();
        if own.len() < LEAST {
            return Err(format!("only {} shapes", own.len()).into());
        }
        let (admin, granted) = (&admin, &granted);
        let judging: Vec<_> = own.iter().map(|shape| judge(case, shape, admin, granted)).collect();
        let judged: Vec<bool> =
            stream::iter(judging).buffer_unordered(AT_ONCE).try_collect().await?;
        let log = home.keyward(&["grant", "log", case.name, "-o", "json"]).await?;
        if log.lines().count() != own.len() {
            return Err(format!(
                "{} requests, {} lines in the log of `{}`",
                own.len(),
                log.lines().count(),
                case.name
            )
            .into());
        }
        asked += own.len();
        allowed += judged.iter().filter(|allowed| **allowed).count();
        by_default += own
            .iter()
            .filter(|shape| matches!(&shape.asks, Asks::Object(asks) if is_guarded(asks)))
            .count();
    }
    Ok(format!(
        "{} shapes of {} resources, {} grants: {asked} decisions equal ({allowed} allowed; {by_default} \
         about what has to be named), each in the log",
        shapes.len(),
        entries.len(),
        CASES.len(),
    ))
}

/// Whether a request is about what has to be named.
fn is_guarded(asks: &Value) -> bool {
    let text = |name: &str| asks[name].as_str().unwrap_or_default();
    ["exec", "attach", "portforward", "proxy", "token"].contains(&text("subresource"))
        || ["secrets", "certificatesigningrequests"].contains(&text("resource"))
}

/// Gives the user of a case the role that the grant is to equal.
async fn bind(cluster: &Cluster, case: &Case, entries: &[Entry]) -> Outcome<()> {
    let mut rules = Vec::new();
    for (verbs, chosen) in case.rules {
        for entry in entries.iter().filter(|entry| chosen(entry)) {
            let resource = match entry.subresource.as_str() {
                "" => entry.resource.clone(),
                part => format!("{}/{part}", entry.resource),
            };
            rules.push(
                json!({ "verbs": verbs, "apiGroups": [entry.group], "resources": [resource] }),
            );
        }
    }
    let api = "rbac.authorization.k8s.io/v1";
    let role = json!({ "apiVersion": api, "kind": "ClusterRole", "metadata": { "name": user(case) }, "rules": rules });
    cluster.apply(&role).await?;
    let everywhere = ["ClusterRoleBinding"].map(|kind| (kind, None));
    let bound: Vec<_> = match case.namespaces {
        [] => everywhere.to_vec(),
        some => some.iter().map(|namespace| ("RoleBinding", Some(*namespace))).collect(),
    };
    for (kind, namespace) in bound {
        cluster
            .apply(&json!({
                "apiVersion": api,
                "kind": kind,
                "metadata": { "name": user(case), "namespace": namespace },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user(case) },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user(case) }],
            }))
            .await?;
    }
    Ok(())
}

fn user(case: &Case) -> String {
    format!("user-of-{}", case.name)
}

/// Compares the grant's decision with the review, and with what the server does for the role's user.
async fn judge(case: &Case, shape: &Shape, admin: &Client, granted: &Client) -> Outcome<bool> {
    let (code, text) = send(granted, shape, None).await?;
    let ours = text.contains("keyward proxy: ");
    let what = format!("{} {} {:?} as `{}`", shape.method, shape.target, shape.upgrade, case.name);
    if matches!(shape.asks, Asks::Odd) {
        return if code == 400 && ours {
            Ok(false)
        } else {
            Err(format!("{what}: {code} {text}").into())
        };
    }
    // The administrator may do everything, so no other 403 exists.
    let allowed = code != 403;
    if !allowed && !ours && shape.method != "HEAD" || allowed && ours {
        return Err(format!("{what}: {code} {text}").into());
    }
    let reviewed = review(admin, case, &shape.asks).await?;
    if allowed != reviewed {
        return Err(
            format!("{what}: the grant says {allowed}, the review {reviewed}; {text}").into()
        );
    }
    let (code, text) = send(admin, shape, Some(&user(case))).await?;
    let denied = code == 403 && (text.contains("forbidden: User") || shape.method == "HEAD");
    // A WebSocket is denied for its other verb, after the request was authorized.
    if denied == allowed && shape.upgrade.is_none() {
        return Err(format!("{what}: the grant says {allowed}, the server {code}: {text}").into());
    }
    Ok(allowed)
}

/// Whether the server would let the user of a case do this.
async fn review(admin: &Client, case: &Case, asks: &Asks) -> Outcome<bool> {
    let (kind, attributes) = match asks {
        Asks::Object(attributes) => ("resourceAttributes", attributes),
        Asks::Path(attributes) => ("nonResourceAttributes", attributes),
        Asks::Odd => return Ok(false),
    };
    let object = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": { "user": user(case), "groups": ["system:authenticated"], kind: attributes },
    });
    let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
        .header("content-type", "application/json")
        .body(Body::from(object.to_string()))?;
    let response = admin.send(request).await?;
    let body: Value = serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?;
    body["status"]["allowed"].as_bool().ok_or_else(|| format!("no review: {body}").into())
}

/// Sends a request, as the user if there is one. The answer's code, and its text if it is an error.
async fn send(client: &Client, shape: &Shape, user: Option<&str>) -> Outcome<(u16, String)> {
    let mut request = http::Request::builder().method(shape.method).uri(&shape.target);
    if let Some(user) = user {
        let group = "system:authenticated";
        request = request.header("impersonate-user", user).header("impersonate-group", group);
    }
    if let Some(protocol) = shape.upgrade {
        request = request.header("connection", "Upgrade").header("upgrade", protocol);
        request = match protocol {
            "websocket" => request
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-protocol", "v5.channel.k8s.io"),
            _ => request.header("x-stream-protocol-version", "v4.channel.k8s.io"),
        };
    }
    let writes = ["POST", "PUT", "PATCH"].contains(&shape.method) && shape.upgrade.is_none();
    let kind = if shape.method == "PATCH" { "merge-patch+json" } else { "json" };
    let body = if writes {
        request = request.header("content-type", format!("application/{kind}"));
        Body::from("{}".to_owned())
    } else {
        Body::empty()
    };
    let response = client.send(request.body(body)?).await?;
    let code = response.status().as_u16();
    let text = if (400..500).contains(&code) && shape.method != "HEAD" {
        String::from_utf8_lossy(&response.into_body().collect().await?.to_bytes()).into_owned()
    } else {
        String::new()
    };
    Ok((code, text))
}
