//! The objects the server keeps in memory, and the history of their changes.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use http::StatusCode;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::watch;

use super::kind::{self, Kind};
use crate::clock;

/// How many changes are remembered for watches that come back.
const HISTORY: usize = 10_000;

/// Why the store refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, reason: &'static str, message: String) -> Self {
        Self { status, reason, message }
    }

    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message.into())
    }

    fn missing(kind: &Kind, name: &str) -> Self {
        let message = format!("{} {name:?} not found", kind.resource());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

/// What happened to an object.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) kind: &'static Kind,
    /// As it is now, or as it was last when it is gone.
    pub(crate) object: Arc<Value>,
    /// As it was before; `None` when it is new.
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) gone: bool,
}

/// Where an object is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    resource: String,
    namespace: String,
    name: String,
}

impl Key {
    fn new(kind: &Kind, namespace: &str, name: &str) -> Self {
        Self { resource: kind.resource(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// The objects. Every change gets the next resource version.
pub struct Store {
    state: Mutex<State>,
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Key, Arc<Value>>,
    version: u64,
    made: u64,
    history: VecDeque<Change>,
    /// Changes up to this version are forgotten.
    horizon: u64,
}

impl Store {
    pub(crate) fn new() -> Self {
        let store = Self { state: Mutex::default(), version: watch::Sender::new(0) };
        for name in ["default", "kube-system"] {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
            });
            // An empty store refuses no namespace.
            let _ = store.put(&namespace);
        }
        store
    }

    /// Creates an object, or replaces the one of its kind and name. What is missing in its metadata
    /// is filled in; the namespace is `default` when nothing is said.
    pub fn put(&self, object: &Value) -> Result<Value, Refusal> {
        let kind = kind::of(object).ok_or_else(|| Refusal::bad("the kind is not known"))?;
        let namespace = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => namespace.to_owned(),
            None if kind.namespaced => "default".to_owned(),
            None => String::new(),
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let mut object = object.clone();
        if let Some(fields) = object["metadata"].as_object_mut() {
            fields.remove("resourceVersion");
        }
        if self.get(kind, &namespace, name).is_err() {
            return self.create(kind, &namespace, object, false);
        }
        self.change(kind, &namespace, name, false, |_| Ok(object))
    }

    /// The objects of a resource (`pods`, `deployments.apps`), of all namespaces, in order of
    /// namespace and name.
    pub fn all(&self, resource: &str) -> Vec<Value> {
        let Some(kind) = kind::by_resource(resource) else {
            return Vec::new();
        };
        let (objects, _) = self.list(kind, "");
        objects.iter().map(|object| object.as_ref().clone()).collect()
    }

    /// Removes an object.
    pub fn remove(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, Refusal> {
        let kind =
            kind::by_resource(resource).ok_or_else(|| Refusal::bad("the resource is not known"))?;
        self.delete(kind, namespace, name, false)
    }

    /// The resource version of the latest change.
    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// Forgets all history: watches that come back with an older version are told it is gone (410).
    pub fn compact(&self) {
        let mut state = self.state();
        state.history.clear();
        state.horizon = state.version;
    }

    pub(crate) fn get(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Refusal> {
        let state = self.state();
        state
            .objects
            .get(&Key::new(kind, namespace, name))
            .cloned()
            .ok_or_else(|| Refusal::missing(kind, name))
    }

    /// The objects of a namespace (of all when empty), and the version they are from.
    pub(crate) fn list(&self, kind: &Kind, namespace: &str) -> (Vec<Arc<Value>>, u64) {
        let state = self.state();
        (state.list(kind, namespace), state.version)
    }

    pub(crate) fn create(
        &self,
        kind: &'static Kind,
        namespace: &str,
        mut object: Value,
        dry: bool,
    ) -> Result<Value, Refusal> {
        let mut state = self.state();
        if kind.namespaced
            && let Some(home) = kind::by_resource("namespaces")
            && !state.objects.contains_key(&Key::new(home, "", namespace))
        {
            return Err(Refusal::missing(home, namespace));
        }
        state.made += 1;
        let made = state.made;
        let name = name(&object, made).ok_or_else(|| {
            let message = format!("{} is invalid: metadata.name: Required value", kind.name);
            Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
        })?;
        let key = Key::new(kind, namespace, &name);
        if state.objects.contains_key(&key) {
            let message = format!("{} {name:?} already exists", kind.resource());
            return Err(Refusal::new(StatusCode::CONFLICT, "AlreadyExists", message));
        }
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["metadata"]["name"] = name.into();
        object["metadata"]["uid"] = format!("00000000-0000-4000-8000-{made:012x}").into();
        object["metadata"]["creationTimestamp"] = now().into();
        begin(kind, &mut object);
        if kind.namespaced {
            object["metadata"]["namespace"] = namespace.into();
        }
        Ok(self.commit(state, kind, key, object, None, dry))
    }

    /// Changes an object that is there. A resource version in what `act` makes must be the current.
    pub(crate) fn change(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        dry: bool,
        act: impl FnOnce(&Value) -> Result<Value, Refusal>,
    ) -> Result<Value, Refusal> {
        let state = self.state();
        let key = Key::new(kind, namespace, name);
        let before =
            state.objects.get(&key).cloned().ok_or_else(|| Refusal::missing(kind, name))?;
        let mut after = act(&before)?;
        if !after.is_object() {
            return Err(Refusal::bad("what comes out is no object"));
        }
        let meta = &before["metadata"];
        let claimed = after["metadata"]["resourceVersion"].as_str();
        if claimed.is_some_and(|claimed| !claimed.is_empty() && meta["resourceVersion"] != claimed)
        {
            let message = format!(
                "Operation cannot be fulfilled on {} {name:?}: the object has been modified; please \
                 apply your changes to the latest version and try again",
                kind.resource()
            );
            return Err(Refusal::new(StatusCode::CONFLICT, "Conflict", message));
        }
        if !after["metadata"].is_object() {
            after["metadata"] = json!({});
        }
        for field in ["name", "namespace", "uid", "creationTimestamp", "resourceVersion"] {
            if let Some(value) = meta.get(field) {
                after["metadata"][field] = value.clone();
            }
        }
        after["apiVersion"] = kind.api_version().into();
        after["kind"] = kind.name.into();
        if after == *before {
            return Ok(after);
        }
        Ok(self.commit(state, kind, key, after, Some(before), dry))
    }

    pub(crate) fn delete(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        dry: bool,
    ) -> Result<Value, Refusal> {
        let mut state = self.state();
        let key = Key::new(kind, namespace, name);
        if !state.objects.contains_key(&key) {
            return Err(Refusal::missing(kind, name));
        }
        if dry {
            return Ok(state.objects[&key].as_ref().clone());
        }
        if kind.name == "Namespace" {
            for kind in kind::KINDS.iter().filter(|kind| kind.namespaced) {
                for object in state.list(kind, name) {
                    let inner = object["metadata"]["name"].as_str().unwrap_or_default();
                    state.bury(kind, &Key::new(kind, name, inner));
                }
            }
        }
        let last = state.bury(kind, &key).ok_or_else(|| Refusal::missing(kind, name))?;
        self.tell(state);
        Ok(last.as_ref().clone())
    }

    /// The changes after this version, and the version they lead to. `None` when some of them are
    /// forgotten.
    pub(crate) fn since(&self, version: u64) -> Option<(Vec<Change>, u64)> {
        let state = self.state();
        if version < state.horizon {
            return None;
        }
        let begin = state.history.partition_point(|change| change.version <= version);
        Some((state.history.range(begin..).cloned().collect(), state.version))
    }

    /// Tells of every new version.
    pub(crate) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    fn commit(
        &self,
        mut state: MutexGuard<'_, State>,
        kind: &'static Kind,
        key: Key,
        mut object: Value,
        before: Option<Arc<Value>>,
        dry: bool,
    ) -> Value {
        if dry {
            return object;
        }
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.name.into();
        let version = state.version + 1;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let kept = Arc::new(object.clone());
        state.objects.insert(key, kept.clone());
        state.log(Change { version, kind, object: kept, before, gone: false });
        self.tell(state);
        object
    }

    fn tell(&self, state: MutexGuard<'_, State>) {
        let version = state.version;
        drop(state);
        self.version.send_if_modified(|now| {
            let newer = version > *now;
            *now = version.max(*now);
            newer
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl State {
    fn list(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>> {
        let first = Key::new(kind, namespace, "");
        self.objects
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(|(key, _)| key.resource == kind.resource())
            .take_while(|(key, _)| namespace.is_empty() || key.namespace == namespace)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Removes an object; its last words carry the version of its end.
    fn bury(&mut self, kind: &'static Kind, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        let version = self.version + 1;
        let mut last = before.as_ref().clone();
        last["metadata"]["resourceVersion"] = version.to_string().into();
        let last = Arc::new(last);
        self.log(Change { version, kind, object: last.clone(), before: Some(before), gone: true });
        Some(last)
    }

    fn log(&mut self, change: Change) {
        self.version = change.version;
        self.history.push_back(change);
        while self.history.len() > HISTORY {
            if let Some(oldest) = self.history.pop_front() {
                self.horizon = oldest.version;
            }
        }
    }
}

/// The object's name, or one made from `generateName`.
fn name(object: &Value, made: u64) -> Option<String> {
    let text = |field| object["metadata"][field].as_str().filter(|text| !text.is_empty());
    if let Some(name) = text("name") {
        return Some(name.to_owned());
    }
    text("generateName").map(|prefix| format!("{prefix}{made:05x}"))
}

/// What a cluster would do to a new object by and by: here pods run as soon as they are made.
fn begin(kind: &Kind, object: &mut Value) {
    match kind.name {
        "Namespace" => object["status"] = json!({ "phase": "Active" }),
        "Pod" => {
            let started = object["metadata"]["creationTimestamp"].clone();
            let containers: Vec<Value> = object["spec"]["containers"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|container| {
                    json!({
                        "name": container["name"],
                        "image": container["image"],
                        "imageID": "",
                        "ready": true,
                        "restartCount": 0,
                        "state": { "running": { "startedAt": started } },
                    })
                })
                .collect();
            let conditions: Vec<Value> = [
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            ]
            .iter()
            .map(|name| json!({ "type": name, "status": "True", "lastTransitionTime": started }))
            .collect();
            object["status"] = json!({
                "phase": "Running",
                "hostIP": "127.0.0.1",
                "podIP": "127.0.0.1",
                "startTime": started,
                "conditions": conditions,
                "containerStatuses": containers,
            });
        }
        _ => {}
    }
}

/// The current second, as Kubernetes writes it.
pub(crate) fn now() -> String {
    stamp(clock::now())
}

/// A moment as Kubernetes writes it.
pub(crate) fn stamp(time: SystemTime) -> String {
    let now = OffsetDateTime::from(time);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        now.year(),
        u8::from(now.month()),
        now.day(),
        now.hour(),
        now.minute(),
        now.second()
    )
}
