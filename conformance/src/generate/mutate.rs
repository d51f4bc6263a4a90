//! Changes a case a little, wherever it has text.

use serde_json::Value;

use super::pick::Rng;

/// Characters that mean something to some reader.
const MARKS: &[&str] = &[
    "\n",
    "\r\n",
    "\t",
    " ",
    "  ",
    "\"",
    "'",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    ",",
    "-",
    "- ",
    "#",
    " #",
    "&",
    "*",
    "!",
    "!!str ",
    "!!binary ",
    "|",
    "|\n",
    ">",
    "%",
    "%20",
    "%zz",
    "@",
    "`",
    "?",
    "/",
    "//",
    "..",
    ".",
    "~",
    "$",
    "=",
    "<<",
    "---\n",
    "...\n",
    "\u{feff}",
    "\u{feff}\u{feff}",
    "\u{0}",
    "\u{1b}",
    "\u{85}",
    "\u{a0}",
    "\u{2028}",
    "é",
    "п",
    "\u{1f600}",
    "\\u0041",
    "\\ud800",
    "\\n",
    "0",
    "1",
    "-1",
    "9",
    "null",
    "true",
    "yes",
    "1e3",
    "0x1f",
    "0o7",
    "1_0",
    ".5",
    "^",
    "|",
    "(",
    ")",
    "+",
    ";",
    "_",
];

/// Fields that are no input.
const FIXED: &[&str] = &["name", "note", "expect", "op", "load", "path", "match", "error"];

/// Changes one text of the case.
pub(super) fn case(case: &mut Value, rng: &mut Rng, words: &[&str]) {
    let count = texts(case, &mut |_| ());
    if count == 0 {
        return;
    }
    let wanted = rng.below(count);
    let mut at = 0;
    texts(case, &mut |text| {
        if at == wanted {
            change(text, rng, words);
        }
        at += 1;
    });
}

/// Visits every text that goes in; how many there are.
fn texts(value: &mut Value, visit: &mut dyn FnMut(&mut String)) -> usize {
    match value {
        Value::String(text) => {
            visit(text);
            1
        }
        Value::Array(items) => items.iter_mut().map(|item| texts(item, visit)).sum(),
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(name, _)| !FIXED.contains(&name.as_str()))
            .map(|(_, field)| texts(field, visit))
            .sum(),
        _ => 0,
    }
}

fn change(text: &mut String, rng: &mut Rng, words: &[&str]) {
    let (from, to) = span(text, rng);
    match rng.below(12) {
        0 => text.replace_range(from..to, ""),
        1 | 2 => text.insert_str(from, rng.of(MARKS)),
        3 => text.replace_range(from..to, rng.of(MARKS)),
        4 => {
            let part = text[from..to].to_owned();
            text.insert_str(to, &part);
        }
        5 => text.truncate(from),
        6 | 7 => {
            let word = word(text, from);
            text.replace_range(word, rng.of(words));
        }
        8 => text.insert_str(from, rng.of(words)),
        9 => {
            let part = text[from..to].to_owned();
            let other = if rng.chance(50) { part.to_uppercase() } else { part.to_lowercase() };
            text.replace_range(from..to, &other);
        }
        10 => lines(text, rng),
        _ => {
            if rng.chance(50) {
                text.push_str(rng.of(MARKS));
            } else {
                text.insert_str(0, rng.of(MARKS));
            }
        }
    }
}

/// Drops, doubles or moves a line.
fn lines(text: &mut String, rng: &mut Rng) {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if lines.is_empty() {
        return;
    }
    let at = rng.below(lines.len());
    let line = lines[at].clone();
    match rng.below(4) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, line),
        2 => lines[at] = format!("  {line}"),
        _ => {
            lines.remove(at);
            let to = rng.below(lines.len() + 1);
            lines.insert(to, line);
        }
    }
    *text = lines.concat();
}

/// A short stretch of the text, at the borders of characters.
fn span(text: &str, rng: &mut Rng) -> (usize, usize) {
    let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let from = rng.below(borders.len());
    let most = if rng.chance(80) { 4 } else { 40 };
    let length = 1 + rng.below(most);
    (borders[from], borders[(from + length).min(borders.len() - 1)])
}

/// The word around a place.
fn word(text: &str, at: usize) -> std::ops::Range<usize> {
    let inside = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == '.';
    let from = text[..at]
        .rfind(|c| !inside(c))
        .map_or(0, |i| i + text[i..].chars().next().map_or(1, char::len_utf8));
    let to = text[at..].find(|c| !inside(c)).map_or(text.len(), |i| at + i);
    from..to
}
