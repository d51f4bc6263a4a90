//! A value with an order, and the many ways to write it down.

use std::fmt::Write as _;

use super::pick::Rng;

/// What is written.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    /// As it stands, where the format can have it so: numbers, odd scalars, fragments.
    Bare(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A map from pairs.
pub(super) fn map<const N: usize>(pairs: [(&str, Tree); N]) -> Tree {
    Tree::Map(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A value of the wrong kind, or an empty one.
pub(super) fn odd(rng: &mut Rng) -> Tree {
    match rng.below(12) {
        0 | 1 => Tree::Null,
        2 => Tree::Bool(rng.chance(50)),
        3 => Tree::Bare("1".to_owned()),
        4 => Tree::Bare("1.5".to_owned()),
        5 => Tree::from(""),
        6 => Tree::List(Vec::new()),
        7 => Tree::Map(Vec::new()),
        8 => Tree::List(vec![Tree::from("a")]),
        9 => map([("a", Tree::from("b"))]),
        10 => Tree::Bare(rng.of(SCALARS).to_owned()),
        _ => Tree::from(rng.of(SCALARS)),
    }
}

/// Plain scalars that YAML reads in surprising ways.
pub(super) const SCALARS: &[&str] = &[
    "y",
    "Y",
    "yes",
    "Yes",
    "NO",
    "n",
    "on",
    "Off",
    "true",
    "True",
    "FALSE",
    "null",
    "Null",
    "NULL",
    "~",
    "nil",
    "010",
    "0o10",
    "0x1F",
    "0b11",
    "1_000",
    "12:30:45",
    "190:20:30",
    "1.2.3",
    "1e3",
    "1E+3",
    ".5",
    "5.",
    "-.5",
    "+1",
    "-0",
    "0.0",
    ".inf",
    "-.INF",
    ".nan",
    ".NaN",
    "<<",
    "=",
    "2001-12-14",
    "2001-12-14T21:59:43.10-05:00",
    "2001-12-14 21:59:43",
    "1e400",
    "18446744073709551616",
    "9223372036854775808",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "0x_1",
    "0b2",
    "08",
    "1__0",
    "_1",
    "1_",
    "+.inf",
    "1e",
    "e1",
    "0.1e-7",
    "1e21",
    "123456789.125",
    "0.000001",
    "1e-7",
    "100000000000000000000000",
    "1.0",
    "-1.5e10",
    "3.0e2",
    "0777",
    "-0x1f",
    "+0b1",
    "1,000",
    "0x",
    "0o",
    ".",
    "-",
    "..5",
    "1.e3",
    ".e3",
    "+",
    "!!str 1",
    "!!int \"3\"",
    "!!binary aGk=",
    "!!float 1",
    "!foo bar",
    "'it''s'",
    "\"a\\tb\\x41\\u00e9\"",
    "\"\\/\"",
    "a: b",
    "a #b",
    "a#b",
    "#b",
    "@a",
    "`a",
    "%a",
    "&x a",
    "*x",
    "|",
    ">",
    "- a",
    "? a",
    "[a, b]",
    "{a: b}",
    "[a, b",
    "{a}",
    "a\\nb",
    "'a",
    "\"a",
    "\u{e9}",
    "\u{1f600}",
];

/// Writes it as JSON or YAML, in one of their styles.
pub(super) fn write(tree: &Tree, rng: &mut Rng) -> String {
    match rng.below(10) {
        0..=4 => json(tree, &mut Style::of(rng), rng),
        5 => yaml_flow(tree, rng),
        _ => yaml(tree, rng),
    }
}

/// Whether JSON is written with spaces, doubled keys and the like.
pub(super) struct Style {
    space: &'static str,
    odd: bool,
}

impl Style {
    pub(super) fn of(rng: &mut Rng) -> Self {
        Self { space: ["", " ", "\n", "\t"][rng.below(4)], odd: rng.chance(25) }
    }
}

pub(super) fn json(tree: &Tree, style: &mut Style, rng: &mut Rng) -> String {
    let gap = style.space;
    match tree {
        Tree::Null => "null".to_owned(),
        Tree::Bool(flag) => flag.to_string(),
        Tree::Bare(text) if bare(text) => text.clone(),
        Tree::Bare(text) | Tree::Text(text) => quote(text, style.odd, rng),
        Tree::List(items) => {
            let items: Vec<_> = items.iter().map(|item| json(item, style, rng)).collect();
            format!("[{gap}{}{gap}]", items.join(&format!(",{gap}")))
        }
        Tree::Map(fields) => {
            let mut parts = Vec::new();
            for (name, value) in fields {
                parts.push(format!("{}:{gap}{}", quote(name, false, rng), json(value, style, rng)));
                if style.odd && rng.chance(8) {
                    let again = if rng.chance(50) { value.clone() } else { odd(rng) };
                    parts.push(format!(
                        "{}:{gap}{}",
                        quote(name, false, rng),
                        json(&again, style, rng)
                    ));
                }
            }
            format!("{{{gap}{}{gap}}}", parts.join(&format!(",{gap}")))
        }
    }
}

/// Whether JSON can have it without quotes.
fn bare(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text)
        .is_ok_and(|value| !value.is_object() && !value.is_array())
}

fn quote(text: &str, odd: bool, rng: &mut Rng) -> String {
    let plain = serde_json::Value::from(text).to_string();
    if !odd || !rng.chance(20) {
        return plain;
    }
    let escape = |c: char| match u32::from(c) {
        code @ 0..=0xffff => format!("\\u{code:04x}"),
        _ => c.to_string(),
    };
    match rng.below(3) {
        0 => format!("\"{}\"", text.chars().map(escape).collect::<String>()),
        1 => plain.replace('/', "\\/"),
        _ => plain.replace('<', "\\u003c").replace('a', "\\u0061"),
    }
}

/// Flow style: like JSON, with scalars as YAML has them.
pub(super) fn yaml_flow(tree: &Tree, rng: &mut Rng) -> String {
    match tree {
        Tree::Null => rng.of(&["null", "~", "Null"]).to_owned(),
        Tree::Bool(flag) => flag.to_string(),
        Tree::Bare(text) => text.clone(),
        Tree::Text(text) => scalar(text, true, rng),
        Tree::List(items) => {
            let items: Vec<_> = items.iter().map(|item| yaml_flow(item, rng)).collect();
            format!("[{}]", items.join(", "))
        }
        Tree::Map(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| {
                    format!("{}: {}", scalar(name, true, rng), yaml_flow(value, rng))
                })
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
    }
}

/// Block style, with odd documents around it now and then.
pub(super) fn yaml(tree: &Tree, rng: &mut Rng) -> String {
    let mut text = String::new();
    match rng.below(30) {
        0 => text.push_str("---\n"),
        1 => text.push_str("# a comment\n"),
        2 => text.push_str("%YAML 1.1\n---\n"),
        3 => text.push('\n'),
        _ => {}
    }
    block(tree, 0, false, &mut text, rng);
    match rng.below(30) {
        0 => text.push_str("---\nother: document\n"),
        1 => text.push_str("...\n"),
        2 => text.push_str("# the end"),
        3 => text = text.replace('\n', "\r\n"),
        4 => text.truncate(text.trim_end().len()),
        _ => {}
    }
    if rng.chance(8) {
        mark(&mut text, rng);
    }
    text
}

/// Byte order marks: before everything, where a line starts, around the end of a portion that the
/// reference reads at once, or anywhere.
fn mark(text: &mut String, rng: &mut Rng) {
    for _ in 0..=rng.below(3) {
        let mut at = match rng.below(5) {
            0 | 1 => 0,
            2 => {
                let starts: Vec<_> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
                if starts.is_empty() { 0 } else { starts[rng.below(starts.len())] }
            }
            3 => 512 * (1 + rng.below(text.len() / 512 + 1)) - rng.below(7),
            _ => rng.below(text.len() + 1),
        };
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.insert(at, '\u{feff}');
    }
}

fn block(tree: &Tree, depth: usize, inline: bool, text: &mut String, rng: &mut Rng) {
    let indent = "  ".repeat(depth);
    match tree {
        Tree::Map(fields) if !fields.is_empty() && !rng.chance(4) => {
            for (at, (name, value)) in fields.iter().enumerate() {
                if !(inline && at == 0) {
                    text.push_str(&indent);
                }
                text.push_str(&scalar(name, false, rng));
                text.push(':');
                below(value, depth, text, rng);
            }
        }
        Tree::List(items) if !items.is_empty() && !rng.chance(4) => {
            for (at, item) in items.iter().enumerate() {
                if !(inline && at == 0) {
                    text.push_str(&indent);
                }
                text.push_str("- ");
                match item {
                    Tree::Map(fields) if !fields.is_empty() => {
                        block(item, depth + 1, true, text, rng);
                    }
                    _ => {
                        text.push_str(&yaml_flow(item, rng));
                        text.push('\n');
                    }
                }
            }
        }
        other => {
            text.push_str(&yaml_flow(other, rng));
            text.push('\n');
        }
    }
}

/// What stands after a key.
fn below(value: &Tree, depth: usize, text: &mut String, rng: &mut Rng) {
    match value {
        Tree::Map(fields) if !fields.is_empty() && !rng.chance(10) => {
            text.push('\n');
            block(value, depth + 1, false, text, rng);
        }
        Tree::List(items) if !items.is_empty() && !rng.chance(10) => {
            text.push('\n');
            block(value, depth + usize::from(rng.chance(30)), false, text, rng);
        }
        Tree::Null if rng.chance(40) => text.push('\n'),
        Tree::Text(lines) if (lines.contains('\n') && rng.chance(70)) || rng.chance(3) => {
            let indent = "  ".repeat(depth + 1);
            text.push_str(rng.of(&[" |", " |-", " |+", " >", " >-", " |2"]));
            text.push('\n');
            for line in lines.split('\n') {
                let _ = writeln!(text, "{indent}{line}");
            }
        }
        other => {
            text.push(' ');
            text.push_str(&yaml_flow(other, rng));
            if rng.chance(4) {
                text.push_str(" # said");
            }
            text.push('\n');
        }
    }
}

/// A text as a YAML scalar: plain where that is safe, or quoted.
fn scalar(text: &str, flow: bool, rng: &mut Rng) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let plain = !text.is_empty()
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| safe(c) || (!flow && c == ':'))
        && !text.ends_with(':');
    match rng.below(20) {
        _ if plain && !rng.chance(6) => text.to_owned(),
        0..=4 if !text.contains('\n') => format!("'{}'", text.replace('\'', "''")),
        _ => serde_json::Value::from(text).to_string(),
    }
}
