//! As much of the schema documents as kubectl needs to leave validation to the server.

use serde_json::{Value, json};

use super::kind::{self, Kind, VERSION};

/// `/openapi/v2` in protocol buffers, the only form old clients read: a document that says nothing
/// but its own version (field 1, `swagger: "2.0"`), so that they skip what they cannot look up.
pub(crate) const V2: &[u8] = b"\x0a\x032.0";

/// The media type of [`V2`].
pub(crate) const V2_MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `/openapi/v2` in JSON.
pub(crate) fn v2() -> Value {
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": "v1.34.0" },
        "paths": {},
        "definitions": {},
    })
}

/// `/openapi/v3`: where the documents are.
pub(crate) fn v3() -> Value {
    let mut paths = json!({});
    for group in kind::all_groups() {
        let root = kind::root(group);
        let place = json!({ "serverRelativeURL": format!("/openapi/v3{root}?hash=1") });
        paths[root.trim_start_matches('/')] = place;
    }
    json!({ "paths": paths })
}

/// `/openapi/v3/…`: what can be done to the kinds of one group and version.
pub(crate) fn v3_of(group: &str, version: &str) -> Option<Value> {
    if version != VERSION || !kind::all_groups().contains(&group) {
        return None;
    }
    let mut paths = json!({});
    for kind in kind::of_group(group, version) {
        paths[format!("{}/{{name}}", kind.path())] = json!({
            "patch": operation(kind),
            "put": operation(kind),
        });
        paths[kind.path()] = json!({ "post": operation(kind) });
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": "v1.34.0" },
        "paths": paths,
        "components": { "schemas": {} },
    }))
}

fn operation(kind: &Kind) -> Value {
    let parameter = |name: &str| {
        json!({
            "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true },
        })
    };
    json!({
        "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")],
        "responses": { "200": { "description": "OK" } },
        "x-kubernetes-group-version-kind": {
            "group": kind.group, "version": VERSION, "kind": kind.name,
        },
    })
}
