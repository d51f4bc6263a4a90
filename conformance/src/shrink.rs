//! Makes a case that differs as small as it can be.

use serde_json::Value;

use crate::{
    areas::{Area, Verdict},
    generate::bare,
    reference::{Answer, Reference},
};

/// Fields that only cases have, and those of a case that it can do without.
const REQUIRED: &[&str] =
    &["configApiVersion", "env", "files", "command", "pattern", "configs", "interactiveMode"];
const OPTIONAL: &[&str] = &["extraFiles", "overrides", "op", "cluster", "stdinUnavailableMessage"];

/// The most rounds of asking; a case is small long before.
const ROUNDS: usize = 40;

/// The smallest case found that still differs, its difference, and what the reference said to it.
pub(crate) fn shrink(
    area: &Area,
    case: &Value,
    reference: &mut Reference,
) -> Result<Option<(Value, String, String)>, String> {
    let mut best = None;
    let mut current = case.clone();
    bare(&mut current);
    for _ in 0..ROUNDS {
        let mut candidates = if best.is_none() { vec![current.clone()] } else { Vec::new() };
        smaller(&current, &mut |candidate| candidates.push(candidate));
        candidates.sort_by_cached_key(|candidate| candidate.to_string().len());
        let mut found = None;
        for some in candidates.chunks(40).take(12) {
            found = first(area, some, reference)?;
            if found.is_some() {
                break;
            }
        }
        let Some((candidate, whole, difference, said)) = found else { break };
        let done = best.is_some() && candidate.to_string().len() >= current.to_string().len();
        current = candidate;
        best = Some((whole, difference, said));
        if done {
            break;
        }
    }
    Ok(best)
}

/// The first of them that still differs: itself, with the reference's answer, the difference, and the message.
fn first(
    area: &Area,
    candidates: &[Value],
    reference: &mut Reference,
) -> Result<Option<(Value, Value, String, String)>, String> {
    let answers = reference.ask(area, candidates)?;
    Ok(candidates.iter().zip(answers).find_map(|(candidate, answer)| match answer {
        Answer::Is(whole, said) => match area.judge(&whole) {
            Verdict::Differs(difference) => Some((candidate.clone(), whole, difference, said)),
            _ => None,
        },
        _ => None,
    }))
}

/// Every value that is this one with something less.
fn smaller(value: &Value, give: &mut dyn FnMut(Value)) {
    match value {
        Value::String(text) => shorter(text, &mut |text| give(Value::String(text))),
        Value::Array(items) => {
            for at in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(at);
                give(Value::Array(fewer));
            }
            for (at, item) in items.iter().enumerate() {
                smaller(item, &mut |smaller| {
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
                smaller(field, &mut |smaller| {
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
fn shorter(text: &str, give: &mut dyn FnMut(String)) {
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
    while length > 0 {
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
