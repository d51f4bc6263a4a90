//! Makes a case that differs as small as it can be.

use serde_json::Value;

use crate::generate::bare;

/// Fields that only cases have, and those of a case that it can do without.
const REQUIRED: &[&str] =
    &["configApiVersion", "env", "files", "command", "pattern", "configs", "interactiveMode"];
const OPTIONAL: &[&str] = &["extraFiles", "overrides", "op", "cluster", "stdinUnavailableMessage"];

/// How many cases are put at once, and how many at most; a case is small long before.
const BATCH: usize = 40;
const PATIENCE: usize = 12_000;

/// A case that differs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// With what the reference answered.
    pub(crate) case: Value,
    /// In what it differs.
    pub(crate) found: String,
    /// The reference's own message.
    pub(crate) said: String,
}

/// Puts cases to both sides; those that differ, in the order of the cases.
pub(crate) type Ask<'a> = dyn FnMut(&[Value]) -> Result<Vec<Option<Difference>>, String> + 'a;

/// The smallest case found that still differs: one from which nothing more can be taken, unless that took
/// too long. `None` when the case does not differ again.
pub(crate) fn shrink(case: &Value, ask: &mut Ask) -> Result<Option<Difference>, String> {
    let mut current = case.clone();
    bare(&mut current);
    let mut best = ask(std::slice::from_ref(&current))?.pop().flatten();
    let mut patience = PATIENCE;
    while best.is_some() && patience > 0 {
        // Small bites are many: only when nothing larger can go.
        let mut found = bite(&current, Bite::Large, &mut patience, ask)?;
        if found.is_none() {
            found = bite(&current, Bite::Any, &mut patience, ask)?;
        }
        let Some((candidate, difference)) = found else { break };
        current = candidate;
        best = Some(difference);
    }
    Ok(best)
}

/// How much of a text goes at once.
#[derive(Clone, Copy, PartialEq)]
enum Bite {
    /// A sixteenth or more, or a line.
    Large,
    Any,
}

/// The smallest that still differs of those with something less.
fn bite(
    current: &Value,
    bite: Bite,
    patience: &mut usize,
    ask: &mut Ask,
) -> Result<Option<(Value, Difference)>, String> {
    let mut candidates = Vec::new();
    smaller(current, bite, &mut |candidate| candidates.push(candidate));
    candidates.sort_by_cached_key(|candidate| candidate.to_string().len());
    candidates.truncate(*patience);
    for some in candidates.chunks(BATCH) {
        *patience -= some.len();
        let mut differing = some.iter().zip(ask(some)?);
        let found = differing.find_map(|(candidate, seen)| Some((candidate.clone(), seen?)));
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Every value that is this one with something less.
fn smaller(value: &Value, bite: Bite, give: &mut dyn FnMut(Value)) {
    match value {
        Value::String(text) => shorter(text, bite, &mut |text| give(Value::String(text))),
        Value::Array(items) => {
            let mut length = items.len();
            while length > 0 {
                for at in (0..items.len()).step_by(length) {
                    let end = (at + length).min(items.len());
                    give(Value::Array([&items[..at], &items[end..]].concat()));
                }
                length /= 2;
            }
            for (at, item) in items.iter().enumerate() {
                smaller(item, bite, &mut |smaller| {
                    let mut items = items.clone();
                    items[at] = smaller;
                    give(Value::Array(items));
                });
            }
        }
        Value::Object(fields) => {
            // Of the case itself only what may be missing can go.
            let whole = REQUIRED.iter().any(|name| fields.contains_key(*name));
            for name in fields.keys().filter(|name| !whole || OPTIONAL.contains(&name.as_str())) {
                let mut fewer = fields.clone();
                fewer.remove(name);
                give(Value::Object(fewer));
            }
            for (name, field) in fields {
                smaller(field, bite, &mut |smaller| {
                    let mut fields = fields.clone();
                    fields[name] = smaller;
                    give(Value::Object(fields));
                });
            }
        }
        Value::Bool(true) => give(Value::Bool(false)),
        _ => {}
    }
}

/// The text without a line, or without a stretch of characters.
fn shorter(text: &str, bite: Bite, give: &mut dyn FnMut(String)) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.len() > 1 {
        for at in 0..lines.len() {
            give(
                lines.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, line)| *line).collect(),
            );
        }
    }
    let characters: Vec<char> = text.chars().collect();
    let mut length = characters.len();
    let least = if bite == Bite::Large { characters.len() / 16 } else { 0 };
    while length > least {
        // Few places for long stretches, every place for short ones in short texts.
        let step = if characters.len() <= 120 { length.clamp(1, 4) } else { length };
        let step = if length <= 8 && characters.len() <= 400 { 1 } else { step };
        for at in (0..characters.len()).step_by(step) {
            let end = (at + length).min(characters.len());
            give(characters[..at].iter().chain(&characters[end..]).collect());
        }
        length /= 2;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Shrinks a case that differs wherever `planted` says so.
    fn shrunk(case: &Value, planted: fn(&Value) -> bool) -> Option<Value> {
        let mut ask = |cases: &[Value]| {
            let judge = |case: &Value| {
                let case = case.clone();
                planted(&case).then(|| Difference {
                    case,
                    found: String::new(),
                    said: String::new(),
                })
            };
            Ok(cases.iter().map(judge).collect())
        };
        shrink(case, &mut ask).unwrap().map(|difference| difference.case)
    }

    fn text<'a>(case: &'a Value, name: &str) -> &'a str {
        case[name].as_str().unwrap_or_default()
    }

    #[test]
    fn a_planted_difference_is_cut_down_to_its_minimum() {
        let filler =
            "  - name: something\n    value: \"that has nothing to do with it\"\n".repeat(12);
        let case = json!({
            "name": "a vector's",
            "expect": { "ok": {} },
            "env": format!("{filler}the née{filler}dle\n{filler}"),
            "args": ["one", "two", "three of five", "four", "a five too"],
            "cluster": { "server": "https://example.com", "config": [1, { "a": "b" }] },
            "terminal": true,
            "op": "merge",
        });
        let planted = |case: &Value| {
            let args = case["args"].as_array().into_iter().flatten();
            text(case, "env").contains("né")
                && text(case, "env").contains("dle")
                && args.filter(|arg| arg.as_str().is_some_and(|arg| arg.contains("five"))).count()
                    > 1
        };
        // What a case must have stays; all that is in it goes.
        let minimum = json!({ "env": "nédle", "args": ["five", "five"], "terminal": false });
        assert_eq!(shrunk(&case, planted), Some(minimum.clone()));
        assert_eq!(shrunk(&case, planted), Some(minimum), "the second time");
    }

    #[test]
    fn what_can_only_go_piece_by_piece_goes() {
        let case = json!({ "env": "xab".repeat(25) });
        let planted = |case: &Value| text(case, "env").matches('x').count() == 25;
        assert_eq!(shrunk(&case, planted), Some(json!({ "env": "x".repeat(25) })));
    }

    #[test]
    fn what_is_nested_is_reached() {
        let entry = |name: &str| json!({ "name": name, "list": [{ "deep": [name, "k"] }, "rest"] });
        let case =
            json!({ "configs": (0..30).map(|at| entry(&format!("n{at}"))).collect::<Value>() });
        let planted = |case: &Value| {
            let mut entries = case["configs"].as_array().into_iter().flatten();
            entries.any(|entry| entry["list"][0]["deep"][0] == "n17")
        };
        let minimum = json!({ "configs": [{ "list": [{ "deep": ["n17"] }] }] });
        assert_eq!(shrunk(&case, planted), Some(minimum));
    }

    #[test]
    fn a_difference_that_does_not_come_again_is_not_shrunk() {
        assert_eq!(shrunk(&json!({ "env": "x" }), |_| false), None);
    }
}
