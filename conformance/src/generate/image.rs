//! Patterns, images and logins.

use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_STANDARD_NO_PAD};
use serde_json::{Map, Value, json};

use super::pick::Rng;

pub(super) const WORDS: &[&str] = &[
    "*",
    "**",
    "registry.io",
    "docker.io",
    "index.docker.io",
    "library",
    "localhost",
    "[::1]",
    ":5000",
    ":",
    "/v1/",
    "/v2/",
    "https://",
    "http://",
    "%2f",
    "%41",
    "%",
    "@",
    "?",
    "#",
    "user@",
    "sha256:0123",
    "latest",
    "auth",
    "username",
    "password",
    "fe80::1%25eth0",
    "[fe80::1%25eth0]",
    "xn--p1ai",
    "..",
    "/../",
    "//",
    "\\",
    "[a-c]",
    "[!a]",
    "{a}",
    "~",
    "^",
];

const LABELS: &[&str] = &[
    "a",
    "registry",
    "io",
    "k8s",
    "gcr",
    "*",
    "a*",
    "*a",
    "a*b",
    "**",
    "REGISTRY",
    "",
    "x-y",
    "a_b",
    "пример",
    "1",
    "10",
    "*.",
    "[a]",
    "a?b",
    "\\a",
    "a\\*",
    "a%41",
    "~",
    "!",
    "$&'",
    "(a)",
    "+",
    ",",
    ";",
    "=",
    "<",
    ">",
    "\"",
    "`",
    "{",
    "|",
    "^",
    "a b",
    "\u{7f}",
    "\u{80}",
    "%2A",
    "[",
    "]",
    "a]",
    "docker",
];

const HOSTS: &[&str] = &[
    "registry.io",
    "docker.io",
    "index.docker.io",
    "localhost",
    "*.io",
    "*.registry.io",
    "a.registry.io",
    "[::1]",
    "[fd00::1]",
    "10.0.0.1",
    "*",
    "*.*",
    "[fe80::1%25eth0]",
    "[fe80::1%eth0]",
    "::1",
    "[::1",
    "ubuntu",
    "",
    ".",
    "..",
    "[::*]",
    "gcr.io",
    "[fe80::1%25e%20h]",
    "[v1.a:b]",
    "[]",
    "[a]",
    "[::1]x",
    "x[::1]",
];

const PORTS: &[&str] = &[
    "", "", "", "", ":5000", ":443", ":", ":*", ":99999", ":x", ":1:2", ":050", ":5000 ", ":-1",
    ":+5", ":５",
];

const PATHS: &[&str] = &[
    "",
    "",
    "/",
    "/foo",
    "/foo/bar",
    "/foobar",
    "/library/ubuntu",
    "/foo:v1",
    "/foo@sha256:0123",
    "/%66oo",
    "/foo%2fbar",
    "/FOO",
    "/foo?x=1",
    "/foo#f",
    "?x=1",
    "#f",
    "/foo%zz",
    "//foo",
    "/foo//bar",
    "/./foo",
    "/../foo",
    "/foo/",
    "/f o o",
    "/foo%20bar",
    "/é",
    "/%C3%A9",
    "/foo%",
    "/foo%2",
    "/v2/",
    "/v2/foo",
    "/v1/",
    "/v1",
    "/foo\u{1}",
    "/foo\\bar",
    "/foo*",
    "/*",
    "/foo[a]",
    "/foo;x",
    "/foo%00",
    "?",
    "#",
    "?%zz",
    "#%zz",
    "/foo%3Fx",
    "/foo\"",
    "/foo<",
    "/v2",
    "/v1/v2/",
    "/v3/",
    "/foo\n",
];

fn location(rng: &mut Rng) -> String {
    let host = if rng.chance(55) {
        rng.of(HOSTS).to_owned()
    } else {
        (0..=rng.below(4)).map(|_| rng.of(LABELS)).collect::<Vec<_>>().join(".")
    };
    let user =
        rng.mostly(93, "", &["user@", "u:p@", "@", "u%40@", "a@b@", "%zz@", "u:@", "u[@", "é@"]);
    let port = if rng.chance(70) { "" } else { rng.of(PORTS) };
    format!("{user}{host}{port}{}", rng.of(PATHS))
}

/// A case for `image-match`.
pub(super) fn matching(rng: &mut Rng) -> Value {
    let pattern = location(rng);
    let image = match rng.below(4) {
        0 => location(rng),
        // An image that has a chance: the pattern with its stars filled in.
        1 => pattern.replace('*', rng.of(&["a", "", "x-y", "k8s", "a.b"])),
        2 => format!(
            "{}{}",
            pattern.replace('*', "a"),
            rng.of(&["/x", "/x:v1", "x", ":5000", "@sha256:0"])
        ),
        _ => pattern.clone(),
    };
    let scheme = rng.mostly(97, "", &["https://", "http://", "//"]);
    json!({ "pattern": format!("{scheme}{pattern}"), "image": image })
}

/// A case for `keyring`.
pub(super) fn keyring(rng: &mut Rng) -> Value {
    let mut places = Vec::new();
    let configs: Vec<Value> = (0..=rng.below(3))
        .map(|_| {
            if rng.chance(1) {
                return [json!(null), json!([]), json!("x"), json!(1)][rng.below(4)].clone();
            }
            let mut config = Map::new();
            for at in 0..rng.below(6) {
                let place = format!(
                    "{}{}",
                    rng.mostly(
                        70,
                        "",
                        &["https://", "http://", "HTTPS://", "ftp://", "//", "https:"]
                    ),
                    location(rng)
                );
                config.insert(place.clone(), login(at, rng));
                places.push(place);
            }
            Value::Object(config)
        })
        .collect();
    let images: Vec<String> = (0..2 + rng.below(5))
        .map(|_| match (rng.below(4), places.is_empty()) {
            (0, _) | (_, true) => location(rng),
            (1, _) => rng
                .of(&[
                    "ubuntu",
                    "library/ubuntu",
                    "docker.io/x",
                    "index.docker.io/x",
                    "localhost/x",
                    "a/b/c",
                    "/x",
                    "x:5000/y",
                ])
                .to_owned(),
            _ => {
                let place = places[rng.below(places.len())].replace('*', "a");
                let place =
                    place.trim_start_matches("https://").trim_start_matches("http://").to_owned();
                format!("{place}{}", rng.of(&["", "/x", "/x:v1", "x"]))
            }
        })
        .collect();
    json!({ "configs": configs, "images": images })
}

fn login(at: usize, rng: &mut Rng) -> Value {
    let mut login = json!({ "username": format!("u{at}"), "password": "p" });
    if rng.chance(30) {
        let text =
            rng.mostly(80, "user:pass", &["nocolon", ":", "a:b:c", "é:ü", "", "u:", ":p", "a b:c"]);
        let encoded = if rng.chance(70) {
            BASE64_STANDARD.encode(text)
        } else {
            BASE64_STANDARD_NO_PAD.encode(text)
        };
        login["auth"] = match rng.below(14) {
            0 => json!(format!("{encoded}\n")),
            1 => json!(format!(" {encoded}")),
            2 => json!(format!("{encoded} ")),
            3 => json!("****"),
            4 => json!(format!("{encoded}=")),
            5 => json!(encoded.replace('c', "c\n")),
            6 => json!(encoded.replace('c', "c\r\n")),
            7 => json!("/w=="),
            8 => [json!(1), json!(null), json!({}), json!(true)][rng.below(4)].clone(),
            9 => json!("dTpw-_"),
            10 => json!("Og"),
            11 => json!("dTpx="),
            _ => json!(encoded),
        };
    }
    if rng.chance(6) {
        let name = rng.of(&[
            "username",
            "password",
            "email",
            "Username",
            "PASSWORD",
            "Auth",
            "extra",
            "identitytoken",
            "ſername",
        ]);
        login[name] = [json!(null), json!(1), json!("v"), json!({}), json!([]), json!(true)]
            [rng.below(6)]
        .clone();
    }
    if rng.chance(2) {
        return [json!(null), json!("x"), json!([]), json!(1), json!({})][rng.below(5)].clone();
    }
    login
}
