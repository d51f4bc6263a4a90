//! The pod that pulls an image, completed with data from the cluster.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error as StdError,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Request;
use keyward_image::{Account, Accounts, Pod, TokenRequest};
use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::Secret;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    globals::Globals,
    output::inline,
    server::{self, Server},
};

/// The pod that pulls. Its namespace is that of `--namespace` or of the context.
///
/// Not a clap group: it would have the same name as the command's own.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(crate) struct PodArgs {
    /// The pod that pulls: providers get tokens of its service account, bound to the pod. What is
    /// not given is read from the cluster
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pod: Option<String>,

    /// The UID of the pod
    #[arg(long, value_name = "UID", requires = "pod", help_heading = HEADING)]
    pod_uid: Option<String>,

    /// The service account of the pod; without `--pod` its tokens are not bound to a pod
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    service_account: Option<String>,
}

const HEADING: &str = "Pod (for providers with tokenAttributes)";

impl PodArgs {
    /// The given pod, if any, and the source of its service account's data and tokens. Reads what was
    /// not given from the cluster.
    pub(super) fn find(&self, globals: &Globals) -> Result<Option<(Pod, Arc<Cluster>)>, Failure> {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (name, account) = (said(&self.pod), said(&self.service_account));
        if name.is_none() && account.is_none() {
            return Ok(None);
        }
        let server = Server::open(&server::Args::default(), globals)?;
        let cluster = Cluster { server, known: Mutex::default() };
        let mut pod = Pod {
            namespace: globals.target()?.namespace,
            name: name.unwrap_or_default(),
            uid: said(&self.pod_uid).unwrap_or_default(),
            service_account: account.unwrap_or_default(),
        };
        if !pod.name.is_empty() && (pod.uid.is_empty() || pod.service_account.is_empty()) {
            cluster.complete(&mut pod)?;
        }
        Ok(Some((pod, Arc::new(cluster))))
    }
}

/// How long a service account that was read from the cluster is cached.
const BELIEVED: Duration = Duration::from_secs(10);

/// The cluster of the current context.
pub(super) struct Cluster {
    server: Server,
    /// By namespace and name, with the time of reading.
    known: Mutex<HashMap<(String, String), (Duration, Account)>>,
}

impl Cluster {
    /// Fills in what was not given of a pod.
    fn complete(&self, pod: &mut Pod) -> Result<(), Failure> {
        let path = path(&pod.namespace, "pods", &pod.name)?;
        let object = self.server.ask_json(Request::get(path), None)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        if pod.uid.is_empty() {
            pod.uid = text(&object["metadata"]["uid"]);
        }
        if pod.service_account.is_empty() {
            pod.service_account = text(&object["spec"]["serviceAccountName"]);
        }
        Ok(())
    }

    fn read(&self, pod: &Pod) -> Result<Account, Failure> {
        let key = (pod.namespace.clone(), pod.service_account.clone());
        let now = SystemClock.elapsed();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((read, account)) = known().get(&key)
            && now.saturating_sub(*read) < BELIEVED
        {
            return Ok(account.clone());
        }
        let path = path(&pod.namespace, "serviceaccounts", &pod.service_account)?;
        let object = self.server.ask_json(Request::get(path), None)?;
        let annotations = object["metadata"]["annotations"].as_object();
        let texts = annotations.into_iter().flatten();
        let annotations: BTreeMap<_, _> = texts
            .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
            .collect();
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let account = Account { uid, annotations };
        known().insert(key, (now, account.clone()));
        Ok(account)
    }

    fn request(&self, request: &TokenRequest<'_>) -> Result<Secret, Failure> {
        let TokenRequest { pod, account, audience } = request;
        let path = path(&pod.namespace, "serviceaccounts", &pod.service_account)? + "/token";
        let mut object = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": { "uid": account.uid },
            "spec": { "audiences": [audience] },
        });
        if !pod.name.is_empty() {
            let pod =
                json!({ "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid });
            object["spec"]["boundObjectRef"] = pod;
        }
        let answer = self.server.ask_json(Request::post(path), Some(&object))?;
        let token = answer["status"]["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Failure::failed("the server's answer has no token"));
        }
        Ok(Secret::new(token))
    }
}

impl Accounts for Cluster {
    fn account(&self, pod: &Pod) -> Result<Account, Box<dyn StdError + Send + Sync>> {
        self.read(pod).map_err(|failure| told(&failure))
    }

    fn token(&self, request: &TokenRequest<'_>) -> Result<Secret, Box<dyn StdError + Send + Sync>> {
        self.request(request).map_err(|failure| told(&failure))
    }
}

/// A failure as the cause of another one: its message and the server's.
fn told(failure: &Failure) -> Box<dyn StdError + Send + Sync> {
    let notes = failure.notes().map(|(_, text)| text);
    let words: Vec<&str> = std::iter::once(failure.message()).chain(notes).collect();
    words.join(": ").into()
}

/// The path of an object. Other characters in the name would lead to another path.
fn path(namespace: &str, resource: &str, name: &str) -> Result<String, Failure> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
    for text in [namespace, name] {
        if text.is_empty() || text.starts_with('.') || !text.bytes().all(plain) {
            return Err(Failure::usage(format!("`{}` is not a valid object name", inline(text))));
        }
    }
    Ok(format!("/api/v1/namespaces/{namespace}/{resource}/{name}"))
}
