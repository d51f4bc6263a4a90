//! Kubeconfigs, alone and merged.

mod entries;
mod texts;

use std::path::Path;

use keyward_agent::wrap::{self, Wrapping};
use serde_json::{Map, Value, json};

pub(super) use self::texts::{PROXIES, SERVERS, WORDS};
use self::{
    entries::{cluster, context, extensions, respell, user},
    texts::NAMES,
};
use super::{
    exec,
    pick::Rng,
    tree::{self, Tree, odd},
};

/// A case for `kubeconfig`.
pub(super) fn case(rng: &mut Rng) -> Value {
    let merged = rng.chance(30);
    let mut files = Map::new();
    let names: Vec<&str> = if merged {
        let all = ["a/config", "b/config", "d/config"];
        all[..2 + rng.below(2)].to_vec()
    } else {
        vec![if rng.chance(50) { "config" } else { "sub/config" }]
    };
    for name in &names {
        let whole = !merged || rng.chance(60);
        let tree = file(whole, rng);
        let text = tree::write(&tree, rng);
        let text = if rng.chance(25) { wrapped(text) } else { text };
        files.insert((*name).to_owned(), json!(text));
    }
    let mut listed: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    if rng.chance(10) {
        let at = rng.below(listed.len() + 1);
        listed.insert(at, rng.of(&["missing", "a", "a/config", "sub", "config", ""]).to_owned());
    }
    let mut load = json!({ "kubeconfig": listed });
    match rng.below(30) {
        0 => load["explicit"] = json!(rng.mostly(60, names[0], &["missing", "a", "config"])),
        1 => load = json!({ "bytes": names[0] }),
        2 => load["relative"] = json!(true),
        3 => {
            load = json!({ "kubeconfig": ["link/config"], "symlink": ["link/config", names[0]] });
        }
        _ => {}
    }
    let mut case = json!({ "files": files, "load": load });
    if rng.chance(75) {
        case["extraFiles"] = extra(&names, rng);
    }
    match rng.below(30) {
        0 => case["op"] = json!("flatten"),
        1 => case["op"] = json!("minify"),
        2..=9 => case["overrides"] = overrides(rng),
        _ => {}
    }
    case
}

/// A kubeconfig after `keyward wrap`, which compares with our own reader what it wrote; here the
/// reference reads it. What cannot be wrapped stays as it is.
fn wrapped(text: String) -> String {
    let wrapping = Wrapping {
        wrapper: "/opt/keyward/bin/keyward-exec",
        directory: Path::new("/home/ann/.kube"),
        pins: &[],
        natives: &[],
    };
    let edited = wrap::wrap(text.as_bytes(), &wrapping, |_| true);
    edited.ok().and_then(|edited| String::from_utf8(edited.bytes).ok()).unwrap_or(text)
}

/// Files that entries may name, beside each place where a kubeconfig may be.
fn extra(names: &[&str], rng: &mut Rng) -> Value {
    let (certificate, key) = exec::pair(rng);
    let mut files = Map::new();
    let beside = names.iter().filter_map(|name| name.rsplit_once('/'));
    let folders: Vec<String> = beside.map(|(folder, _)| format!("{folder}/")).collect();
    for folder in folders.iter().map(String::as_str).chain([""]) {
        files.insert(format!("{folder}ca.pem"), json!(certificate));
        files.insert(format!("{folder}cert.pem"), json!(certificate));
        files.insert(format!("{folder}key.pem"), json!(key));
        files.insert(format!("{folder}garbage.pem"), json!("garbage"));
        files.insert(format!("{folder}empty.pem"), json!(""));
        files.insert(format!("{folder}tok"), json!("file-token\n"));
    }
    Value::Object(files)
}

fn overrides(rng: &mut Rng) -> Value {
    let mut flags = Map::new();
    for _ in 0..=rng.below(2) {
        let (name, value) = match rng.below(18) {
            0 => ("context", json!(rng.of(NAMES))),
            1 => ("cluster", json!(rng.of(NAMES))),
            2 => ("user", json!(rng.of(NAMES))),
            3 => ("namespace", json!(rng.of(&["ns", "", "Bad NS", "namespaces/x"]))),
            4 | 5 => ("server", json!(rng.of(SERVERS))),
            6 => ("tls-server-name", json!(rng.of(&["sni", ""]))),
            7 | 8 => ("certificate-authority", json!(rng.of(&["$DIR/ca.pem", "$DIR/missing", ""]))),
            9 => ("insecure-skip-tls-verify", json!(rng.chance(80))),
            10 => ("proxy-url", json!(rng.of(PROXIES))),
            11 => ("disable-compression", json!(rng.chance(80))),
            12 => ("token", json!(rng.of(&["flag-token", ""]))),
            13 => ("client-certificate", json!(rng.of(&["$DIR/cert.pem", "$DIR/missing", ""]))),
            14 => ("client-key", json!(rng.of(&["$DIR/key.pem", "$DIR/missing"]))),
            15 => ("as", json!(rng.of(&["bob", ""]))),
            16 => ("as-group", json!([rng.of(&["g1", "g2"])])),
            _ => ("as-uid", json!("7")),
        };
        flags.insert(name.to_owned(), value);
    }
    Value::Object(flags)
}

/// One kubeconfig; a part of one has lists that may lack what is referred to.
fn file(whole: bool, rng: &mut Rng) -> Tree {
    if rng.chance(1) {
        return odd(rng);
    }
    let mut fields = Vec::new();
    let mut add = |percent: usize, name: &str, rng: &mut Rng, value: Tree| {
        if rng.chance(percent) {
            let value = if rng.chance(99) { value } else { odd(rng) };
            fields.push((respell(name, rng), value));
        }
    };
    let value = Tree::from(rng.mostly(98, "v1", &["v2", "", "v1beta1"]));
    add(92, "apiVersion", rng, value);
    let value = Tree::from(rng.mostly(98, "Config", &["config", "", "List"]));
    add(92, "kind", rng, value);
    let percent = if whole { 98 } else { 60 };
    let value = list("cluster", "c", rng, cluster);
    add(percent, "clusters", rng, value);
    let value = list("context", "x", rng, context);
    add(percent, "contexts", rng, value);
    let value = list("user", "u", rng, user);
    add(percent, "users", rng, value);
    let value = Tree::from(rng.mostly(94, "x", NAMES));
    add(percent, "current-context", rng, value);
    add(4, "preferences", rng, Tree::Map(Vec::new()));
    let value = extensions(rng);
    add(3, "extensions", rng, value);
    Tree::Map(fields)
}

fn list(inner: &str, usual: &str, rng: &mut Rng, make: fn(&mut Rng) -> Tree) -> Tree {
    let count = 1 + usize::from(rng.chance(25)) + usize::from(rng.chance(5));
    let entries = (0..count).map(|at| {
        let name = if at == 0 { rng.mostly(96, usual, NAMES) } else { rng.of(NAMES) };
        let mut fields = vec![("name".to_owned(), Tree::from(name)), (inner.to_owned(), make(rng))];
        if rng.chance(2) {
            fields.remove(rng.below(2));
        }
        if rng.chance(1) { odd(rng) } else { Tree::Map(fields) }
    });
    Tree::List(entries.collect())
}
