//! The kubelet's configuration of credential providers, and their answers.

use serde_json::{Map, Value, json};

use super::{
    pick::Rng,
    tree::{self, Style, Tree, odd},
};

pub(super) const WORDS: &[&str] = &[
    "kubelet.config.k8s.io/v1",
    "kubelet.config.k8s.io/v1beta1",
    "kubelet.config.k8s.io/v1alpha1",
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
    "CredentialProviderConfig",
    "CredentialProviderResponse",
    "CredentialProviderRequest",
    "KubeletConfiguration",
    "providers",
    "name",
    "matchImages",
    "defaultCacheDuration",
    "args",
    "env",
    "tokenAttributes",
    "serviceAccountTokenAudience",
    "requireServiceAccount",
    "cacheType",
    "ServiceAccount",
    "Token",
    "requiredServiceAccountAnnotationKeys",
    "optionalServiceAccountAnnotationKeys",
    "auth",
    "cacheKeyType",
    "cacheDuration",
    "Image",
    "Registry",
    "Global",
    "username",
    "password",
    "null",
    "true",
    "\"\"",
    "{}",
    "[]",
    "1m",
    "0s",
    "apiVersion",
    "kind",
];

const DURATIONS: &[&str] = &[
    "10m",
    "1h30m15.5s",
    "0",
    "0s",
    "-1s",
    "1m1m",
    "1.5h",
    ".5s",
    "5.s",
    "1",
    "",
    "s",
    "1x",
    "1 m",
    "1µs",
    "1μs",
    "1us",
    "1ns",
    "0.1ns",
    "1d",
    "2562047h47m16.854775807s",
    "2562047h47m16.854775808s",
    "-2562047h47m16.854775808s",
    "99999999h",
    "+1m",
    "+-1m",
    "1M",
    "1e3s",
    "0.0000000001h",
    "1h-1m",
    " 1m",
    "1m ",
    "1.1.1s",
    "9223372036854775807ns",
    "9223372036854775808ns",
    "-9223372036854775808ns",
    "-.5m",
    ".s",
    "-0",
    "+0",
    "1ms",
    "0.9223372036854775807s",
    "0.99999999999999999999h",
    "１m",
];

const PROTOCOLS: &[&str] = &[
    "credentialprovider.kubelet.k8s.io/v1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1",
    "credentialprovider.kubelet.k8s.io/v2",
    "v1",
    "",
    "kubelet.config.k8s.io/v1",
];

const FILES: &[&str] = &[
    "kubelet.config.k8s.io/v1",
    "kubelet.config.k8s.io/v1beta1",
    "kubelet.config.k8s.io/v1alpha1",
    "kubelet.config.k8s.io/v2",
    "v1",
    "",
    "kubelet.config.k8s.io/__internal",
    "a/b/c",
    "kubelet.config.k8s.io",
    "credentialprovider.kubelet.k8s.io/v1",
];

const KINDS: &[&str] = &[
    "CredentialProviderConfig",
    "KubeletConfiguration",
    "SerializedNodeConfigSource",
    "credentialproviderconfig",
    "",
    "CredentialProviderRequest",
    "CredentialProviderResponse",
    "WatchEvent",
    "CredentialProvider",
    "ListOptions",
    "Status",
    "ImagePullIntent",
    "ImagePulledRecord",
];

/// A case for `kubelet-config`.
pub(super) fn config(rng: &mut Rng) -> Value {
    let mut files = Map::new();
    let folder = rng.chance(25);
    let names = [
        "a.yaml",
        "b.yaml",
        "c.json",
        "d.yml",
        "e.txt",
        "B.yaml",
        "sub/a.yaml",
        ".yaml",
        "f.YAML",
        "00.yaml",
        "g.yaml.bak",
    ];
    let count = if folder { rng.below(4) } else { 1 };
    for at in 0..count {
        let name = if folder { rng.of(&names) } else { "config.yaml" };
        files.insert(name.to_owned(), json!(file(at, rng)));
    }
    if files.is_empty() {
        files.insert("e.txt".to_owned(), json!("x"));
    }
    let path = if folder {
        "."
    } else {
        rng.mostly(98, "config.yaml", &["missing.yaml", "config.yaml/x"])
    };
    json!({ "files": files, "path": path })
}

fn file(at: usize, rng: &mut Rng) -> String {
    let version = rng.mostly(80, FILES[0], FILES);
    let mut fields = vec![
        ("apiVersion".to_owned(), Tree::from(version)),
        ("kind".to_owned(), Tree::from(rng.mostly(93, KINDS[0], KINDS))),
    ];
    if rng.chance(3) {
        fields.remove(rng.below(2));
    }
    let providers = Tree::List((0..=rng.below(3)).map(|i| provider(at * 3 + i, rng)).collect());
    if rng.chance(97) {
        fields.push((name("providers", rng), if rng.chance(97) { providers } else { odd(rng) }));
    }
    if rng.chance(2) {
        fields.push((rng.of(WORDS).to_owned(), odd(rng)));
    }
    tree::write(&Tree::Map(fields), rng)
}

fn name(usual: &str, rng: &mut Rng) -> String {
    match rng.below(120) {
        0 => usual.to_uppercase(),
        1 => usual[..1].to_uppercase() + &usual[1..],
        _ => usual.to_owned(),
    }
}

fn provider(at: usize, rng: &mut Rng) -> Tree {
    if rng.chance(1) {
        return odd(rng);
    }
    let called = if rng.chance(90) {
        format!("p{at}")
    } else {
        rng.of(&["p0", "a/b", "a b", ".", "..", "...", "", "x.exe", " ", "é", "a/ b", "p1"])
            .to_owned()
    };
    let patterns = (0..rng.below(3) + usize::from(rng.chance(95)))
        .map(|_| {
            Tree::from(rng.of(&[
                "registry.io",
                "*.io",
                "",
                "a b",
                "https://a.io",
                "[::1",
                "a:*",
                "r.io/x",
                "%zz",
                "r.io:5000",
            ]))
        })
        .collect();
    let mut fields = Vec::new();
    let mut add = |usual: &str, percent: usize, rng: &mut Rng, value: Tree| {
        if rng.chance(percent) {
            let value = if rng.chance(98) { value } else { odd(rng) };
            fields.push((name(usual, rng), value));
        }
    };
    add("name", 98, rng, Tree::from(called));
    add("matchImages", 98, rng, Tree::List(patterns));
    let value = Tree::from(rng.mostly(70, "10m", DURATIONS));
    add("defaultCacheDuration", 97, rng, value);
    let value = Tree::from(rng.mostly(88, PROTOCOLS[0], PROTOCOLS));
    add("apiVersion", 98, rng, value);
    let value = Tree::List((0..rng.below(4)).map(|_| text(rng)).collect());
    add("args", 20, rng, value);
    let value = Tree::List((0..rng.below(4)).map(|_| variable(rng)).collect());
    add("env", 20, rng, value);
    if rng.chance(30) {
        let value = attributes(rng);
        add("tokenAttributes", 100, rng, value);
    }
    if rng.chance(1) {
        add(rng.of(WORDS), 100, rng, Tree::from("x"));
    }
    Tree::Map(fields)
}

/// An argument, or what a variable holds.
fn text(rng: &mut Rng) -> Tree {
    if rng.chance(90) {
        Tree::from(rng.of(&["a", "", "--flag=x y", "$HOME", "é", "a\nb", "1", "a=b", "a\u{0}b"]))
    } else {
        odd(rng)
    }
}

fn variable(rng: &mut Rng) -> Tree {
    if rng.chance(3) {
        return odd(rng);
    }
    let called = rng.of(&["A", "A", "B", "PATH", "", "a=b", "é", "KEYWARD_X"]);
    let mut fields = Vec::new();
    if rng.chance(96) {
        fields.push((name("name", rng), Tree::from(called)));
    }
    if rng.chance(90) {
        fields.push((name("value", rng), text(rng)));
    }
    if rng.chance(3) {
        fields.push(("valueFrom".to_owned(), Tree::Null));
    }
    Tree::Map(fields)
}

const KEYS: &[&str] = &[
    "a",
    "example.com/a",
    "example.com/B",
    "A",
    "a b",
    "",
    "a/b/c",
    "-a",
    "a-",
    "a_b.c",
    "/a",
    "a/",
    "UPPER.com/x",
    "é",
    "x/y",
    "a..b/c",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "-/-",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "1",
    "a.b",
    "A.B/c",
    "İ",
    "K",
    "a:b",
    "_",
    "a/_",
    "a/b-",
];

fn attributes(rng: &mut Rng) -> Tree {
    let mut fields = Vec::new();
    let mut add = |usual: &str, percent: usize, rng: &mut Rng, value: Tree| {
        if rng.chance(percent) {
            let value = if rng.chance(96) { value } else { odd(rng) };
            fields.push((name(usual, rng), value));
        }
    };
    let value = Tree::from(rng.mostly(80, "aud", &["", " ", "https://a.b/c", "é", "a\nb", "1"]));
    add("serviceAccountTokenAudience", 95, rng, value);
    let value = Tree::from(rng.mostly(85, "Token", &["ServiceAccount", "token", "", "None"]));
    add("cacheType", 95, rng, value);
    let value = Tree::Bool(rng.chance(75));
    add("requireServiceAccount", 95, rng, value);
    for list in ["requiredServiceAccountAnnotationKeys", "optionalServiceAccountAnnotationKeys"] {
        let keys = (0..rng.below(4)).map(|_| Tree::from(rng.mostly(40, "a", KEYS))).collect();
        add(list, 40, rng, Tree::List(keys));
    }
    Tree::Map(fields)
}

/// A case for `kubelet-request`.
pub(super) fn request(rng: &mut Rng) -> Value {
    const TEXTS: &[&str] = &[
        "", "a", "value", "<x>", "a&b", "\u{e9}", "\u{2028}", "\"", "\\", "\n", "\u{7f}", "\u{1}",
    ];
    let annotations: Map<String, Value> =
        (0..rng.below(4)).map(|_| (rng.of(KEYS).to_owned(), rng.of(TEXTS).into())).collect();
    let image = format!("{}{}", rng.mostly(80, "test.registry.io/app", TEXTS), rng.of(TEXTS));
    let mut case = json!({ "configApiVersion": PROTOCOLS[rng.below(3)], "image": image });
    if rng.chance(60) {
        case["token"] = rng.mostly(50, "eyJ.eyJ.sig", TEXTS).into();
    }
    if rng.chance(60) {
        case["annotations"] = annotations.into();
    }
    case
}

/// A case for `kubelet-response`.
pub(super) fn response(rng: &mut Rng) -> Value {
    let asked = PROTOCOLS[rng.below(3)];
    let version = if rng.chance(93) { asked } else { rng.of(PROTOCOLS) };
    let mut fields = vec![
        (name("apiVersion", rng), Tree::from(version)),
        (name("kind", rng), Tree::from(rng.mostly(94, "CredentialProviderResponse", KINDS))),
    ];
    if rng.chance(3) {
        fields.remove(rng.below(2));
    }
    let mut add = |usual: &str, percent: usize, rng: &mut Rng, value: Tree| {
        if rng.chance(percent) {
            let value = if rng.chance(95) { value } else { odd(rng) };
            fields.push((name(usual, rng), value));
        }
    };
    let value = Tree::from(rng.mostly(85, "Image", &["Registry", "Global", "image", "", "None"]));
    add("cacheKeyType", 96, rng, value);
    let value = Tree::from(rng.mostly(40, "1m", DURATIONS));
    add("cacheDuration", 80, rng, value);
    let value = auth(rng);
    add("auth", 92, rng, value);
    if rng.chance(3) {
        add(rng.of(WORDS), 100, rng, Tree::from("x"));
    }
    let mut style = Style::of(rng);
    let tree = Tree::Map(fields);
    let mut text =
        if rng.chance(95) { tree::json(&tree, &mut style, rng) } else { tree::yaml(&tree, rng) };
    match rng.below(30) {
        0 => text.push_str(rng.of(&["\n", " ", "x", "{}", "\u{0}", ","])),
        1 => text
            .insert_str(0, rng.of(&["\n", " ", "#c\n", "\u{feff}", "\u{feff}\u{feff}", "x", "{}"])),
        _ => {}
    }
    json!({ "configApiVersion": asked, "stdout": text })
}

fn auth(rng: &mut Rng) -> Tree {
    let entries = (0..rng.below(4)).map(|at| {
        let place = rng.of(&["*.registry.io", "a.io", "a.io:*", "", "a b", "r.io/x", "é", "<x>"]);
        let mut login = vec![
            (
                name("username", rng),
                if rng.chance(92) { Tree::from(format!("u{at}")) } else { odd(rng) },
            ),
            (name("password", rng), if rng.chance(92) { Tree::from("p") } else { odd(rng) }),
        ];
        if rng.chance(8) {
            login.remove(rng.below(2));
        }
        if rng.chance(2) {
            login.push(("email".to_owned(), Tree::from("e")));
        }
        (place.to_owned(), if rng.chance(95) { Tree::Map(login) } else { odd(rng) })
    });
    Tree::Map(entries.collect())
}
