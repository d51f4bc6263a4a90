//! Kubeconfigs, alone and merged.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};

use super::{
    exec,
    pick::Rng,
    tree::{self, SCALARS, Tree, map, odd},
};

pub(super) const WORDS: &[&str] = &[
    "apiVersion",
    "kind",
    "v1",
    "Config",
    "clusters",
    "contexts",
    "users",
    "current-context",
    "cluster",
    "context",
    "user",
    "name",
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
    "tls-server-name",
    "proxy-url",
    "disable-compression",
    "extensions",
    "namespace",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "token",
    "tokenFile",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
    "username",
    "password",
    "auth-provider",
    "exec",
    "command",
    "args",
    "env",
    "value",
    "installHint",
    "provideClusterInfo",
    "interactiveMode",
    "Never",
    "IfAvailable",
    "Always",
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
    "client.authentication.k8s.io/v1alpha1",
    "client.authentication.k8s.io/exec",
    "preferences",
    "https://h:1",
    "http://h",
    "null",
    "true",
    "\"\"",
    "{}",
    "[]",
    "c",
    "u",
    "x",
    "extension",
];

pub(super) const SERVERS: &[&str] = &[
    "https://h:1",
    "https://1.2.3.4:6443",
    "https://h",
    "http://h",
    "h:6443",
    "h",
    "",
    "HTTPS://H",
    "https://h/path?x=1#f",
    "https://h/?x=1",
    "https://h?x=1#f",
    "https://[::1]:6443",
    "https://[::1",
    "unix:///x",
    "://",
    "https://h:port",
    "localhost:8080",
    "https://user:pw@h/p",
    "https://h/%zz",
    " https://h",
    "ftp://h",
    "//h/p",
    "https:h",
    "https://h/a b?c",
    "https://h//p/../q#f",
    "https://h/é?x",
    "https://h/%C3%A9?x",
    "https://h/%2f?x",
    "https://",
    "https:///p",
    "/p",
    "h/p?x",
    "https://h:1/p;a?b",
    "https://h/p%20q?x#%zz",
    "1.2.3.4",
    "https://h:1/p#",
    "https://h:1/p?",
    "https://H.example/P?x",
    "https://h\n",
    "https://h/\"<>?x",
    "https://us er@h/p?x",
    "https://u%41@h/p?x",
    "https://h/p[1]?x",
    "https://h/p^|`{}?x",
    "https://é/p?x",
    "https://h:0443/p?x",
    "https://h:/p?x",
    "https://h/*?x",
    "http://h/p?x",
    "https://h/p!$&'()*+,;=:@?x",
];

pub(super) const PROXIES: &[&str] = &[
    "http://p:3128",
    "https://p",
    "socks5://p:1080",
    "socks5h://p",
    "HTTP://P:1",
    "p:3128",
    "",
    "ftp://p",
    "http://",
    "://",
    "http://[::1]:1",
    "http://u:p@h",
    "http://p:x",
    "http://p/%zz",
    "socks4://p",
    "http:p",
    "//p",
    " http://p",
    "http://p\n",
    "http://u%40:p%3a@h",
    "http://p/path?q#f",
    "invalid- url\n",
    "http://p?",
    "http://é",
    "http://p#",
    "HtTpS://P/a b",
    "http://us er@p",
];

const FILES: &[&str] = &[
    "ca.pem",
    "missing.pem",
    "../ca.pem",
    "./ca.pem",
    "sub",
    "/no/such",
    "",
    "cert.pem",
    "key.pem",
    "a/../ca.pem",
    "tok",
    "garbage.pem",
    ".",
];

const COMMANDS: &[&str] = &[
    "plugin",
    "./plugin",
    "../plugin",
    "bin/plugin",
    "/abs/plugin",
    "/abs/../x",
    "a//b",
    "~/p",
    "",
    " plugin",
    "$HOME/p",
    "./",
    ".",
    "..",
    "a/.",
    "plugin arg",
    "/",
    "./../x/./y",
    "é",
    "\\plugin",
    "C:\\x",
];

const NAMES: &[&str] = &["c", "u", "x", "other", "", "é", "a b"];

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
        files.insert((*name).to_owned(), json!(tree::write(&tree, rng)));
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

/// A field's name, seldom in other letters.
fn respell(name: &str, rng: &mut Rng) -> String {
    match rng.below(300) {
        0 => name.to_uppercase(),
        1 => name[..1].to_uppercase() + &name[1..],
        _ => name.to_owned(),
    }
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

/// Fields with chances; now and then one is of the wrong kind.
fn fields(rng: &mut Rng, chances: Vec<(&str, usize, Tree)>) -> Tree {
    let mut fields = Vec::new();
    for (name, percent, value) in chances {
        if rng.chance(percent) {
            let value = if rng.chance(99) { value } else { odd(rng) };
            fields.push((respell(name, rng), value));
        }
    }
    Tree::Map(fields)
}

fn cluster(rng: &mut Rng) -> Tree {
    if rng.chance(2) {
        return odd(rng);
    }
    let (certificate, _) = exec::pair(rng);
    let data = if rng.chance(60) {
        BASE64_STANDARD.encode(certificate)
    } else {
        rng.of(exec::BASE64).to_owned()
    };
    let chances = vec![
        ("server", 97, Tree::from(rng.mostly(60, "https://h:1", SERVERS))),
        ("certificate-authority", 15, Tree::from(rng.of(FILES))),
        ("certificate-authority-data", 12, Tree::from(data)),
        ("insecure-skip-tls-verify", 10, Tree::Bool(rng.chance(80))),
        ("tls-server-name", 8, Tree::from(rng.of(&["sni", ""]))),
        ("proxy-url", 15, Tree::from(rng.of(PROXIES))),
        ("disable-compression", 6, Tree::Bool(rng.chance(80))),
        ("extensions", 12, extensions(rng)),
    ];
    fields(rng, chances)
}

fn extensions(rng: &mut Rng) -> Tree {
    let entries = (0..=rng.below(2)).map(|_| {
        let name = rng.mostly(
            80,
            "client.authentication.k8s.io/exec",
            &["other", "", "client.authentication.k8s.io"],
        );
        let mut fields = vec![
            ("name".to_owned(), Tree::from(name)),
            ("extension".to_owned(), exec::config(3, rng)),
        ];
        if rng.chance(5) {
            fields.remove(rng.below(2));
        }
        Tree::Map(fields)
    });
    Tree::List(entries.collect())
}

fn context(rng: &mut Rng) -> Tree {
    if rng.chance(2) {
        return odd(rng);
    }
    let chances = vec![
        ("cluster", 98, Tree::from(rng.mostly(96, "c", NAMES))),
        ("user", 97, Tree::from(rng.mostly(96, "u", NAMES))),
        ("namespace", 20, Tree::from(rng.of(&["ns", "", "Bad NS", "kube-system"]))),
        ("extensions", 2, extensions(rng)),
    ];
    fields(rng, chances)
}

fn user(rng: &mut Rng) -> Tree {
    if rng.chance(2) {
        return odd(rng);
    }
    let (certificate, key) = exec::pair(rng);
    let mut data = |text: &str| {
        if rng.chance(80) { BASE64_STANDARD.encode(text) } else { rng.of(exec::BASE64).to_owned() }
    };
    let (certificate, key) = (data(&certificate), data(&key));
    let provider = rng.of(&["oidc", "gcp", "azure", "openstack", "externalSigner", "", "x"]);
    let chances = vec![
        ("exec", 60, plugin(rng)),
        ("token", 12, Tree::from(rng.of(&["T", "", "a b"]))),
        ("tokenFile", 10, Tree::from(rng.of(&["tok", "missing", "", "sub", "../tok"]))),
        ("username", 6, Tree::from(rng.of(&["me", ""]))),
        ("password", 6, Tree::from(rng.of(&["pw", ""]))),
        ("client-certificate", 8, Tree::from(rng.of(FILES))),
        ("client-certificate-data", 8, Tree::from(certificate)),
        ("client-key", 8, Tree::from(rng.of(FILES))),
        ("client-key-data", 8, Tree::from(key)),
        ("as", 8, Tree::from(rng.of(&["bob", ""]))),
        ("as-uid", 4, Tree::from(rng.of(&["7", ""]))),
        ("as-groups", 4, Tree::List(vec![Tree::from("g1"), Tree::from("")])),
        (
            "as-user-extra",
            3,
            map([("k", Tree::List(vec![Tree::from("v")])), ("e", Tree::List(Vec::new()))]),
        ),
        ("auth-provider", 4, map([("name", Tree::from(provider)), ("config", odd(rng))])),
        ("extensions", 2, extensions(rng)),
    ];
    fields(rng, chances)
}

fn plugin(rng: &mut Rng) -> Tree {
    if rng.chance(2) {
        return odd(rng);
    }
    let args = (0..rng.below(3)).map(|_| {
        if rng.chance(40) {
            Tree::Bare(rng.of(SCALARS).to_owned())
        } else {
            Tree::from(rng.of(&["a", "", "./x", "$A", "é"]))
        }
    });
    let args = Tree::List(args.collect());
    let env = (0..rng.below(3)).map(|_| {
        let mut pair = vec![
            ("name".to_owned(), Tree::from(rng.mostly(90, "A", &["", "A=B", "B"]))),
            (
                "value".to_owned(),
                if rng.chance(85) {
                    Tree::from("v")
                } else {
                    Tree::Bare(rng.of(SCALARS).to_owned())
                },
            ),
        ];
        if rng.chance(5) {
            pair.remove(rng.below(2));
        }
        Tree::Map(pair)
    });
    let env = Tree::List(env.collect());
    let versions = [
        "client.authentication.k8s.io/v1beta1",
        "client.authentication.k8s.io/v1alpha1",
        "client.authentication.k8s.io/v2",
        "",
        "v1",
        "example.com/v1",
    ];
    let hints = [
        "do this",
        "",
        "\u{1b}[1mbold",
        "a\tb\nc",
        "é\u{200b}\u{ad}",
        "\u{85}\u{2028}",
        "\u{e000}\u{378}",
        "\u{feff}x",
        "\u{7f}",
    ];
    let chances = vec![
        (
            "apiVersion",
            97,
            Tree::from(rng.mostly(55, "client.authentication.k8s.io/v1", &versions)),
        ),
        ("command", 97, Tree::from(rng.mostly(40, "plugin", COMMANDS))),
        ("args", 30, args),
        ("env", 30, env),
        ("installHint", 15, Tree::from(rng.of(&hints))),
        ("provideClusterInfo", 25, Tree::Bool(rng.chance(80))),
        (
            "interactiveMode",
            85,
            Tree::from(rng.mostly(
                80,
                "Never",
                &["IfAvailable", "Always", "", "never", "Sometimes"],
            )),
        ),
        ("env-file", 1, odd(rng)),
    ];
    fields(rng, chances)
}
