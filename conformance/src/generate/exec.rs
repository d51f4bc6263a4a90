//! What plugins print, and requests as the SDK reads them.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{
    pick::Rng,
    tree::{self, SCALARS, Style, Tree, map, odd},
};

pub(super) const WORDS: &[&str] = &[
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
    "client.authentication.k8s.io/v1alpha1",
    "client.authentication.k8s.io",
    "ExecCredential",
    "apiVersion",
    "kind",
    "status",
    "spec",
    "token",
    "expirationTimestamp",
    "clientCertificateData",
    "clientKeyData",
    "interactive",
    "cluster",
    "server",
    "config",
    "certificate-authority-data",
    "proxy-url",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "disable-compression",
    "null",
    "true",
    "false",
    "\"\"",
    "{}",
    "[]",
    "0",
    "1",
    "metadata",
    "v1",
    "__internal",
    "WatchEvent",
    "List",
    "2030-01-01T00:00:00Z",
    "Status",
    "Token",
    "KIND",
    "APIVERSION",
];

const VERSIONS: &[&str] = &[
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
    "client.authentication.k8s.io/v1alpha1",
    "client.authentication.k8s.io/v2",
    "client.authentication.k8s.io/__internal",
    "client.authentication.k8s.io",
    "client.authentication.k8s.io/",
    "/v1",
    "v1",
    "",
    "a/b/c",
    "/",
    "client.authentication.k8s.io/V1",
    "meta.k8s.io/v1",
];

const KINDS: &[&str] = &[
    "ExecCredential",
    "execcredential",
    "ExecCredentialList",
    "WatchEvent",
    "ListOptions",
    "DeleteOptions",
    "Status",
    "",
    "GetOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
    "APIGroup",
    "APIVersions",
    "APIResourceList",
    "List",
    "Table",
    "ExecCredentialStatus",
    " ExecCredential",
];

/// Certificates and keys that the vectors have.
static PEMS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let vectors: Vec<Value> =
        serde_json::from_str(include_str!("../../../vectors/exec-output.json")).unwrap_or_default();
    let mut pems = Vec::new();
    for vector in vectors {
        let stdout: Value =
            serde_json::from_str(vector["stdout"].as_str().unwrap_or_default()).unwrap_or_default();
        for field in ["clientCertificateData", "clientKeyData"] {
            if let Some(pem) = stdout["status"][field].as_str()
                && pem.contains("-----")
                && !pems.iter().any(|known| known == pem)
            {
                pems.push(pem.to_owned());
            }
        }
    }
    pems
});

/// A case for `exec-output`.
pub(super) fn output(rng: &mut Rng) -> Value {
    let asked = version(rng);
    let version = if rng.chance(88) { asked } else { rng.of(VERSIONS) };
    let mut fields = vec![
        (name("apiVersion", rng), Tree::from(version)),
        (name("kind", rng), Tree::from(rng.mostly(85, "ExecCredential", KINDS))),
    ];
    if rng.chance(8) {
        fields.remove(rng.below(2));
    }
    if rng.chance(20) {
        fields.push((name("spec", rng), spec(rng)));
    }
    if rng.chance(8) {
        let metadata =
            map([("name", Tree::from("x")), ("labels", odd(rng)), ("creationTimestamp", odd(rng))]);
        fields.push(("metadata".to_owned(), if rng.chance(70) { metadata } else { odd(rng) }));
    }
    if rng.chance(95) {
        let status = if rng.chance(93) { status(rng) } else { odd(rng) };
        let at = rng.below(fields.len() + 1);
        fields.insert(at, (name("status", rng), status));
    }
    if rng.chance(8) {
        fields.push((rng.of(WORDS).to_owned(), odd(rng)));
    }
    let mut text = tree::write(&Tree::Map(fields), rng);
    match rng.below(40) {
        0 => text.push_str(rng.of(&["\n", " ", "x", "{}", "\n\n", "\u{0}", "\n---\n", ","])),
        1 => text.insert_str(
            0,
            rng.of(&[
                "\n",
                " ",
                "#c\n",
                "---\n",
                "\u{feff}",
                "\u{feff}\u{feff}",
                "log line\n",
                "{}",
                "\t",
            ]),
        ),
        _ => {}
    }
    json!({ "configApiVersion": asked, "stdout": text })
}

pub(super) fn version<'a>(rng: &mut Rng) -> &'a str {
    match rng.below(30) {
        0 => rng.of(VERSIONS),
        1 => VERSIONS[2],
        2..=10 => VERSIONS[1],
        _ => VERSIONS[0],
    }
}

/// A field's name, seldom in other letters.
fn name(usual: &str, rng: &mut Rng) -> String {
    match rng.below(60) {
        0 => usual.to_uppercase(),
        1 => usual.to_lowercase(),
        2 => usual[..1].to_uppercase() + &usual[1..],
        _ => usual.to_owned(),
    }
}

fn status(rng: &mut Rng) -> Tree {
    let mut fields = Vec::new();
    if rng.chance(75) {
        let token = match rng.below(20) {
            0 => odd(rng),
            1 => Tree::Bare(rng.of(SCALARS).to_owned()),
            2 => Tree::from(rng.of(&[
                "", " ", "a b", "a\nb", "é", "Bearer x", "a\u{0}b", "\u{fffd}", "<&>", "\u{7f}",
            ])),
            _ => Tree::from("tok-1"),
        };
        fields.push((name("token", rng), token));
    }
    if rng.chance(45) {
        let time = if rng.chance(90) { Tree::from(timestamp(rng)) } else { odd(rng) };
        fields.push((name("expirationTimestamp", rng), time));
    }
    if rng.chance(25) {
        let pair = rng.chance(80);
        if pair || rng.chance(50) {
            fields.push((name("clientCertificateData", rng), pem(rng)));
        }
        if pair || rng.chance(50) {
            fields.push((name("clientKeyData", rng), pem(rng)));
        }
    }
    Tree::Map(fields)
}

/// A moment, well or badly written.
fn timestamp(rng: &mut Rng) -> String {
    let mut number = |usual: &[&str], all: &[&str]| {
        if rng.chance(75) { rng.of(usual).to_owned() } else { rng.of(all).to_owned() }
    };
    let parts = [
        number(
            &["2030", "2099", "1999"],
            &["0001", "0000", "9999", "203", "20300", "-001", "2024", "1900", "2000"],
        ),
        "-".to_owned(),
        number(&["06", "12", "01", "02"], &["00", "13", "6", "2", "04"]),
        "-".to_owned(),
        number(&["01", "28", "15"], &["00", "29", "30", "31", "32", "1", "99"]),
        number(&["T"], &["t", " ", "", "TT", "_"]),
        number(&["12", "00", "23"], &["24", "5", "99", "-1", "0"]),
        number(&[":"], &["", "-", "."]),
        number(&["00", "59", "30"], &["60", "5", "99"]),
        ":".to_owned(),
        number(&["00", "59", "07"], &["60", "61", "5", "99"]),
        number(
            &["", "", ".5"],
            &[".", ",5", ".123456789", ".1234567890123", ".0", ",", ".x", ".5.5", ".999999999999"],
        ),
        number(
            &["Z", "+01:00", "-07:30"],
            &[
                "z", "", "+0100", "+24:00", "-00:00", "+23:60", "+25:00", "+1:00", "+01:61", "UTC",
                "Z ", "+01", "-24:00", "+24:60",
            ],
        ),
    ];
    parts.concat()
}

/// A certificate and a key, mostly of one pair.
pub(super) fn pair(rng: &mut Rng) -> (String, String) {
    let certificates: Vec<&String> =
        PEMS.iter().filter(|pem| pem.contains("CERTIFICATE")).collect();
    let keys: Vec<&String> = PEMS.iter().filter(|pem| pem.contains("PRIVATE KEY")).collect();
    let at = if rng.chance(80) { 0 } else { rng.below(certificates.len()) };
    let key = if rng.chance(90) { at.min(keys.len() - 1) } else { rng.below(keys.len()) };
    (certificates[at].clone(), keys[key].clone())
}

fn pem(rng: &mut Rng) -> Tree {
    if rng.chance(5) {
        return odd(rng);
    }
    let mut text = PEMS[rng.below(PEMS.len())].clone();
    for _ in 0..rng.below(3) {
        let other = PEMS[rng.below(PEMS.len())].clone();
        text = match rng.below(16) {
            0 => text.replace('\n', "\r\n"),
            1 => text.replace('\n', ""),
            2 => format!("{text}{other}"),
            3 => format!("{other}{text}"),
            4 => format!("some text\n{text}"),
            5 => format!("{text}trailing text"),
            6 => text.trim_end().to_owned(),
            7 => text.replacen("-----BEGIN ", "-----BEGIN X", 1),
            8 => text.replacen("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: x,y\n\n", 1),
            9 => text.replacen("-----\n", "-----\nNote: a\n\n", 1),
            10 => text.replace('\n', "\n "),
            11 => text.replacen("-----END", "----END", 1),
            12 => format!("  {text}"),
            13 => text.replace('\n', " \n"),
            14 => {
                let at = rng.below(text.len());
                let mut text = text;
                text.replace_range(at..=at, rng.of(&["A", "=", "\n", "-", " ", "!"]));
                text
            }
            _ => text.replacen(
                "-----BEGIN CERTIFICATE-----",
                "-----BEGIN TRUSTED CERTIFICATE-----",
                1,
            ),
        };
    }
    Tree::from(text)
}

fn spec(rng: &mut Rng) -> Tree {
    if rng.chance(10) {
        return odd(rng);
    }
    let mut fields = Vec::new();
    if rng.chance(70) {
        let value = if rng.chance(85) { Tree::Bool(rng.chance(50)) } else { odd(rng) };
        fields.push((name("interactive", rng), value));
    }
    if rng.chance(85) {
        fields.push((name("cluster", rng), if rng.chance(92) { cluster(rng) } else { odd(rng) }));
    }
    if rng.chance(5) {
        fields.push(("response".to_owned(), odd(rng)));
    }
    Tree::Map(fields)
}

fn cluster(rng: &mut Rng) -> Tree {
    let mut fields = Vec::new();
    let mut add = |usual: &str, percent: usize, rng: &mut Rng, value: Tree| {
        if rng.chance(percent) {
            let value = if rng.chance(94) { value } else { odd(rng) };
            fields.push((name(usual, rng), value));
        }
    };
    let value = Tree::from(rng.of(super::kubeconfig::SERVERS));
    add("server", 90, rng, value);
    add("tls-server-name", 30, rng, Tree::from("sni"));
    let value = Tree::Bool(rng.chance(60));
    add("insecure-skip-tls-verify", 30, rng, value);
    let value = Tree::from(rng.of(BASE64));
    add("certificate-authority-data", 40, rng, value);
    let value = Tree::from(rng.of(super::kubeconfig::PROXIES));
    add("proxy-url", 40, rng, value);
    let value = Tree::Bool(rng.chance(60));
    add("disable-compression", 20, rng, value);
    let value = odd(rng);
    add("config", 30, rng, value);
    Tree::Map(fields)
}

pub(super) const BASE64: &[&str] = &[
    "c29tZQ==",
    "c29tZQ",
    "c29t\nZQ==",
    "c29t ZQ==",
    "",
    "Y2E=",
    "Y2E",
    "Y2F=",
    "YQ==",
    "YR==",
    "****",
    "-_-_",
    "+/+/",
    "=",
    "c29tZQ==\n",
    "c29tZQ===",
    "c29tZQ==YQ==",
    "c\r\n29tZQ==",
];

/// A case for `exec-info-helper`.
pub(super) fn helper(rng: &mut Rng) -> Value {
    if rng.chance(1) {
        return json!({ "env": if rng.chance(50) { json!("") } else { Value::Null } });
    }
    let version = version(rng);
    let mut fields = vec![
        (name("apiVersion", rng), Tree::from(version)),
        (name("kind", rng), Tree::from(rng.mostly(90, "ExecCredential", KINDS))),
    ];
    if rng.chance(6) {
        fields.remove(rng.below(2));
    }
    if rng.chance(95) {
        fields.push((name("spec", rng), spec(rng)));
    }
    if rng.chance(10) {
        fields.push((name("status", rng), if rng.chance(70) { status(rng) } else { odd(rng) }));
    }
    let mut style = Style::of(rng);
    let tree = Tree::Map(fields);
    let text =
        if rng.chance(75) { tree::json(&tree, &mut style, rng) } else { tree::yaml(&tree, rng) };
    json!({ "env": text })
}
