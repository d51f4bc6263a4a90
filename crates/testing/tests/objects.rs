//! Objects are kept, changed and watched as Kubernetes does it.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::similar_names)]

mod common;

use std::time::Duration;

use common::{Client, get, http2};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use keyward_testing::server::{Server, User};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";

async fn begin() -> (Server, Client) {
    let server = Server::setup().start().unwrap();
    server.users().token("t", User::new("anna"));
    let client = Client::connect(&server, http2(&server, None)).await;
    (server, client)
}

fn map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "labels": { "value": value } },
        "data": { "value": value },
    })
}

/// The events of a watch, one by one.
struct Events {
    body: Incoming,
    rest: Vec<u8>,
}

impl Events {
    async fn open(client: &mut Client, query: &str) -> Self {
        let answer = client.send(get(&format!("{MAPS}?watch=true&{query}"), "t")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        Self { body: answer.into_body(), rest: Vec::new() }
    }

    /// The next event, or `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        let hang = Duration::from_secs(60);
        tokio::time::timeout(hang, self.read()).await.expect("an event in time")
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(frame.data_ref().unwrap());
        }
    }

    async fn brief(&mut self) -> (String, String) {
        let event = self.next().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

fn event(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test]
async fn an_object_is_created_once_and_changed_only_from_its_latest_version() {
    let (_server, mut client) = begin().await;
    let (status, made) = client.call("POST", MAPS, JSON, "t", &map("a", "1")).await;
    assert_eq!(status, StatusCode::CREATED);
    assert!(made["metadata"]["uid"].is_string());
    let (status, again) = client.call("POST", MAPS, JSON, "t", &map("a", "1")).await;
    assert_eq!((status, &again["reason"]), (StatusCode::CONFLICT, &json!("AlreadyExists")));
    let path = format!("{MAPS}/a");
    let mut next = made.clone();
    next["data"]["value"] = "2".into();
    let (status, _) = client.call("PUT", &path, JSON, "t", &next).await;
    assert_eq!(status, StatusCode::OK);
    let (status, late) = client.call("PUT", &path, JSON, "t", &next).await;
    assert_eq!((status, &late["reason"]), (StatusCode::CONFLICT, &json!("Conflict")));
    let patch = json!({ "data": { "value": null, "other": "3" } });
    let (status, merged) =
        client.call("PATCH", &path, "application/merge-patch+json", "t", &patch).await;
    assert_eq!((status, &merged["data"]), (StatusCode::OK, &json!({ "other": "3" })));
    let (status, _) = client.call("DELETE", &path, JSON, "t", &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(client.get(&path, "t").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_nonsense_is_refused() {
    let (server, mut client) = begin().await;
    let path = format!("{MAPS}?dryRun=All");
    let (status, _) = client.call("POST", &path, JSON, "t", &map("a", "1")).await;
    assert_eq!(status, StatusCode::CREATED);
    assert!(server.store().all("configmaps").is_empty());
    for (path, body, expected) in [
        (MAPS, json!({ "kind": "Pod" }), StatusCode::BAD_REQUEST),
        (MAPS, json!([]), StatusCode::BAD_REQUEST),
        (MAPS, json!({ "metadata": {} }), StatusCode::UNPROCESSABLE_ENTITY),
        (MAPS, json!({ "metadata": "text" }), StatusCode::UNPROCESSABLE_ENTITY),
        ("/api/v1/namespaces/none/configmaps", map("a", "1"), StatusCode::NOT_FOUND),
        ("/api/v1/configmaps/a/b/c", map("a", "1"), StatusCode::NOT_FOUND),
    ] {
        let (status, answer) = client.call("POST", path, JSON, "t", &body).await;
        assert_eq!((status, &answer["kind"]), (expected, &json!("Status")), "{body}");
    }
}

#[tokio::test]
async fn a_patch_that_leaves_no_object_is_refused() {
    let (server, mut client) = begin().await;
    server.store().put(&map("a", "1")).unwrap();
    let path = format!("{MAPS}/a");
    for (media, patch) in [
        ("application/merge-patch+json", json!("text")),
        ("application/apply-patch+yaml", json!([1])),
        ("application/json-patch+json", json!([{ "op": "replace", "path": "/none", "value": 1 }])),
        ("application/nonsense", json!({})),
    ] {
        let (status, _) = client.call("PATCH", &path, media, "t", &patch).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{media}");
    }
    let patch = json!({ "metadata": "text", "data": { "value": "2" } });
    let apply = "application/apply-patch+yaml";
    let (status, made) = client.call("PATCH", &format!("{MAPS}/b"), apply, "t", &patch).await;
    assert_eq!((status, &made["metadata"]["name"]), (StatusCode::CREATED, &json!("b")));
}

#[tokio::test]
async fn a_list_is_selected_and_names_its_version() {
    let (server, mut client) = begin().await;
    for (name, value) in [("a", "1"), ("b", "2")] {
        server.store().put(&map(name, value)).unwrap();
    }
    let (_, list) = client.get(&format!("{MAPS}?labelSelector=value%3D2"), "t").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][0]["metadata"]["name"], "b");
    assert_eq!(list["metadata"]["resourceVersion"], server.store().version().to_string());
    let (_, all) = client.get("/api/v1/configmaps", "t").await;
    assert_eq!(all["items"], json!(server.store().all("configmaps")));
}

#[tokio::test]
async fn a_watch_goes_on_where_a_list_ended() {
    let (server, mut client) = begin().await;
    server.store().put(&map("a", "1")).unwrap();
    let (_, list) = client.get(MAPS, "t").await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    server.store().put(&map("a", "2")).unwrap();
    let mut events = Events::open(&mut client, &format!("resourceVersion={version}")).await;
    assert_eq!(events.brief().await, event("MODIFIED", "a"));
    server.store().put(&map("b", "1")).unwrap();
    assert_eq!(events.brief().await, event("ADDED", "b"));
    server.store().remove("configmaps", "default", "a").unwrap();
    assert_eq!(events.brief().await, event("DELETED", "a"));
}

#[tokio::test]
async fn a_watch_with_a_selector_sees_objects_come_and_go() {
    let (server, mut client) = begin().await;
    let mut events = Events::open(&mut client, "labelSelector=value%3D2").await;
    server.store().put(&map("a", "1")).unwrap();
    server.store().put(&map("a", "2")).unwrap();
    assert_eq!(events.brief().await, event("ADDED", "a"));
    server.store().put(&map("a", "3")).unwrap();
    assert_eq!(events.brief().await, event("DELETED", "a"));
}

#[tokio::test]
async fn a_version_too_old_is_gone() {
    let (server, mut client) = begin().await;
    let old = server.store().version();
    server.store().put(&map("a", "1")).unwrap();
    server.store().compact();
    let mut events = Events::open(&mut client, &format!("resourceVersion={old}")).await;
    let gone = events.next().await.unwrap();
    assert_eq!((&gone["type"], &gone["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(gone["object"]["reason"], "Expired");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark_and_a_time_limit_ends_the_watch() {
    let (server, mut client) = begin().await;
    server.store().put(&map("a", "1")).unwrap();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&timeoutSeconds=1";
    let mut events = Events::open(&mut client, query).await;
    assert_eq!(events.brief().await, event("ADDED", "a"));
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    let meta = &bookmark["object"]["metadata"];
    assert_eq!(meta["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(meta["resourceVersion"], server.store().version().to_string());
    assert_eq!(events.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_deleted_namespace_takes_its_objects_along() {
    let (server, mut client) = begin().await;
    let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" } });
    server.store().put(&space).unwrap();
    let mut inner = map("a", "1");
    inner["metadata"]["namespace"] = "x".into();
    server.store().put(&inner).unwrap();
    let (status, _) = client.call("DELETE", "/api/v1/namespaces/x", JSON, "t", &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert!(server.store().all("configmaps").is_empty());
}
