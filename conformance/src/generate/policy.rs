//! Commands under a policy.

use serde_json::{Value, json};

use super::pick::Rng;

pub(super) const WORDS: &[&str] = &[
    "plug",
    "ghost",
    "other",
    "$ROOT",
    "$ROOT/d1",
    "d1",
    "d2",
    "d3",
    "alias",
    "noexec",
    "..",
    ".",
    "Allowlist",
    "AllowAll",
    "DenyAll",
    "/",
    "//",
    "./plug",
];

const COMMANDS: &[&str] = &[
    "plug",
    "other",
    "ghost",
    "alias",
    "noexec",
    "$ROOT/d1/plug",
    "$ROOT/d2/plug",
    "$ROOT/d1/other",
    "$ROOT/d3/plug",
    "$ROOT/d3/alias",
    "$ROOT/d3/noexec",
    "$ROOT/d1/ghost",
    "./plug",
    "./d1/plug",
    "d1/plug",
    "d1/../d2/plug",
    "d3/alias",
    "$ROOT/d2/../d1/plug",
    "$ROOT//d1/plug",
    "$ROOT/d1/./plug",
    "$ROOT/d1",
    "d1",
    "$ROOT/d1/",
    "d1/plug/",
    ".",
    "..",
    "/",
    "",
    "../x",
    "plug ",
    "PLUG",
    "/no/ghost",
    "d3/noexec",
    "$ROOT/d1/plug/x",
    "./../plug",
    "d1//plug",
    "./alias",
    "plug/.",
];

const PATHS: &[&str] = &[
    "$ROOT/d1",
    "$ROOT/d2",
    "$ROOT/d3",
    "$ROOT/d2:$ROOT/d1",
    "$ROOT/d3:$ROOT/d1",
    "d1",
    ".",
    "",
    "d1:$ROOT/d2",
    "$ROOT/d1/",
    "$ROOT/d1:d2",
    "/no",
    "$ROOT/d1/../d2",
    "::$ROOT/d1",
    "$ROOT",
    "./d1:$ROOT/d1",
    "$ROOT/d1/plug",
];

/// A case for `plugin-policy`.
pub(super) fn case(rng: &mut Rng) -> Value {
    let policy = rng.mostly(
        75,
        "Allowlist",
        &["", "AllowAll", "DenyAll", "Allowlist", "allowlist", "Nope", "denyAll"],
    );
    let usual = policy == "Allowlist";
    let list = if rng.chance(if usual { 97 } else { 20 }) {
        let length = if rng.chance(5) { 0 } else { 1 + rng.below(3) };
        json!((0..length).map(|_| rng.of(COMMANDS)).collect::<Vec<_>>())
    } else {
        Value::Null
    };
    json!({ "command": rng.of(COMMANDS), "policy": policy, "allowlist": list, "PATH": rng.of(PATHS) })
}
