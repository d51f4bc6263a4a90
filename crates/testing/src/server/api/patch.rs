//! Changing an object by a patch.

use serde_json::{Map, Value};

/// Applies a patch of this media type; the message says why it cannot be.
pub(crate) fn apply(object: &mut Value, media: &str, patch: &Value) -> Result<(), String> {
    match media {
        "application/merge-patch+json" => json_patch::merge(object, patch),
        "application/strategic-merge-patch+json" | "application/apply-patch+yaml" => {
            merge_by_name(object, patch);
        }
        "application/json-patch+json" => {
            let patch: json_patch::Patch =
                serde_json::from_value(patch.clone()).map_err(|error| error.to_string())?;
            json_patch::patch(object, &patch).map_err(|error| error.to_string())?;
        }
        _ => return Err(format!("the patch type {media:?} is not known")),
    }
    Ok(())
}

/// A merge patch, but lists whose elements all have a name are merged element by element, and the
/// directives of a strategic merge (`$patch`, `$setElementOrder/…`, `$retainKeys`) are understood as
/// far as that takes. A stand-in for what the real server reads from its schemas.
fn merge_by_name(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(changes) => {
            if changes.get("$patch").and_then(Value::as_str) == Some("replace") {
                *target = Value::Object(without_directives(changes));
                return;
            }
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Some(fields) = target.as_object_mut() else { return };
            for (key, change) in changes {
                if key.starts_with('$') {
                    continue;
                }
                if change.is_null() {
                    fields.remove(key);
                } else {
                    merge_by_name(fields.entry(key.as_str()).or_insert(Value::Null), change);
                }
            }
        }
        Value::Array(changes) => match target {
            Value::Array(elements) if named(changes) && named(elements) => {
                for change in changes {
                    merge_element(elements, change);
                }
            }
            _ => *target = patch.clone(),
        },
        _ => *target = patch.clone(),
    }
}

fn merge_element(elements: &mut Vec<Value>, change: &Value) {
    let place = elements.iter().position(|element| element["name"] == change["name"]);
    let gone = change["$patch"] == "delete";
    match place {
        Some(place) if gone => {
            elements.remove(place);
        }
        Some(place) => merge_by_name(&mut elements[place], change),
        None if gone => {}
        None => elements.push(change.clone()),
    }
}

fn named(list: &[Value]) -> bool {
    list.iter().all(|element| element["name"].is_string())
}

fn without_directives(changes: &Map<String, Value>) -> Map<String, Value> {
    changes
        .iter()
        .filter(|(key, _)| !key.starts_with('$'))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_sets_and_removes() {
        let mut object = json!({ "a": 1, "b": { "c": 2, "d": 3 }, "l": [1, 2] });
        let patch =
            json!({ "a": null, "b": { "c": 4 }, "l": [3], "n": { "x": { "y": 1, "z": null } } });
        apply(&mut object, "application/merge-patch+json", &patch).unwrap();
        let expected = json!({ "b": { "c": 4, "d": 3 }, "l": [3], "n": { "x": { "y": 1 } } });
        assert_eq!(object, expected);
    }

    #[test]
    fn a_strategic_patch_merges_containers_by_name() {
        let mut object = json!({ "containers": [
            { "name": "a", "image": "1" }, { "name": "b", "image": "1" }, { "name": "c" },
        ] });
        let patch = json!({
            "$setElementOrder/containers": [{ "name": "a" }, { "name": "b" }],
            "containers": [{ "name": "b", "image": "2" }, { "name": "c", "$patch": "delete" }, { "name": "d" }],
        });
        apply(&mut object, "application/strategic-merge-patch+json", &patch).unwrap();
        let expected = json!({ "containers": [
            { "name": "a", "image": "1" }, { "name": "b", "image": "2" }, { "name": "d" },
        ] });
        assert_eq!(object, expected);
    }

    #[test]
    fn a_json_patch_takes_every_step_or_says_why_not() {
        let mut object = json!({ "a": [1, 3], "b": { "x/y": 1 } });
        let patch = json!([
            { "op": "test", "path": "/a/0", "value": 1 },
            { "op": "add", "path": "/a/1", "value": 2 },
            { "op": "add", "path": "/a/-", "value": 4 },
            { "op": "replace", "path": "/b/x~1y", "value": 5 },
            { "op": "copy", "from": "/b/x~1y", "path": "/c" },
            { "op": "move", "from": "/c", "path": "/d" },
            { "op": "remove", "path": "/a/0" },
        ]);
        apply(&mut object, "application/json-patch+json", &patch).unwrap();
        assert_eq!(object, json!({ "a": [2, 3, 4], "b": { "x/y": 5 }, "d": 5 }));
        for bad in [
            json!([{ "op": "test", "path": "/d", "value": 6 }]),
            json!([{ "op": "remove", "path": "/a/7" }]),
            json!([{ "op": "add", "path": "a", "value": 1 }]),
            json!([{ "op": "leap", "path": "/a" }]),
            json!({}),
        ] {
            assert!(apply(&mut object, "application/json-patch+json", &bad).is_err());
        }
    }
}
