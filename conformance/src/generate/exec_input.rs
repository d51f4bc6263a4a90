//! What plugins are told: the request, and their environment.

use serde_json::{Value, json};

use super::{
    exec::version,
    pick::Rng,
    tree::{self, Style, Tree, odd},
};

/// A case for `exec-input`.
pub(super) fn case(rng: &mut Rng) -> Value {
    let mode = rng.mostly(
        50,
        "IfAvailable",
        &["Never", "Always", "IfAvailable", "", "never", "Sometimes"],
    );
    let mut case = json!({
        "configApiVersion": version(rng),
        "interactiveMode": mode,
        "stdinIsTerminal": rng.chance(50),
        "stdinUnavailable": rng.chance(25),
        "provideClusterInfo": rng.chance(80),
    });
    if rng.chance(30) {
        case["stdinUnavailableMessage"] = json!("used by -f -");
    }
    if rng.chance(90) {
        let mut cluster = json!({ "server": rng.of(super::kubeconfig::SERVERS) });
        if rng.chance(30) {
            cluster["tls-server-name"] = json!(rng.of(TEXTS));
        }
        if rng.chance(30) {
            cluster["insecure-skip-tls-verify"] = json!(rng.chance(70));
        }
        if rng.chance(40) {
            cluster["certificate-authority-data"] =
                json!(rng.of(&["c29tZQ==", "Y2E=", "", "/+8=", "PD4m"]));
        }
        if rng.chance(30) {
            cluster["proxy-url"] = json!(rng.of(TEXTS));
        }
        if rng.chance(30) {
            cluster["disable-compression"] = json!(rng.chance(70));
        }
        if rng.chance(60) {
            let mut style = Style::of(rng);
            let config = config(3, rng);
            cluster["configRawJson"] = json!(tree::json(&config, &mut style, rng));
        }
        case["cluster"] = cluster;
    }
    variables(&mut case, rng);
    case
}

/// The plugin's own variables, and those of whoever runs it.
fn variables(case: &mut Value, rng: &mut Rng) {
    case["env"] = (0..rng.below(5))
        .map(|_| json!({ "name": rng.of(NAMES), "value": rng.of(VALUES) }))
        .collect();
    case["chained"] = json!(rng.chance(10));
    case["bare"] = json!(rng.chance(30));
    let mut outer: Vec<Value> = Vec::new();
    for _ in 0..rng.below(6) {
        let name = rng.of(OUTER);
        let chained = case["chained"] == true && name == SIGNER;
        // A process has each name once, unless somebody wants to confuse it.
        if !chained && !outer.iter().any(|known| known["name"] == name) {
            outer.push(if rng.chance(10) {
                json!({ "name": name, "base64": rng.of(&["/w==", "YQD/", "wyg=", "gIE="]) })
            } else {
                json!({ "name": name, "value": rng.of(VALUES) })
            });
        }
    }
    if rng.chance(85) {
        outer.retain(|known| known["name"] != "PATH");
        let path = rng.mostly(80, "/usr/bin:/bin", &["", "/nowhere", ":", "/nowhere::/bin"]);
        outer.push(json!({ "name": "PATH", "value": path }));
    }
    case["outer"] = json!(outer);
}

/// What Keyward itself is told when it is a signer.
const SIGNER: &str = "EXTERNAL_SIGNER_PLUGIN_CONFIG";

const NAMES: &[&str] = &[
    "A",
    "A",
    "A",
    "B",
    "B",
    "PATH",
    "HOME",
    "KUBERNETES_EXEC_INFO",
    "KEYWARD_CHAIN",
    SIGNER,
    "A=B",
    "a",
    "é",
    "with space",
    "=C:",
    "A\nB",
    "",
];

const OUTER: &[&str] = &[
    "A",
    "B",
    "C",
    "PATH",
    "HOME",
    "LANG",
    "KUBERNETES_EXEC_INFO",
    "KUBECONFIG",
    "KEYWARD_CHAIN",
    SIGNER,
    "a",
    "é",
    "with space",
    "A\nB",
];

const VALUES: &[&str] = &[
    "1",
    "2",
    "",
    "",
    " ",
    "a=b",
    "=",
    "$A ${B}",
    "line\nfeed",
    "/nowhere",
    "é",
    "\u{fffd}",
    "\"'\\",
    "{}",
    "\u{1b}[31m",
];

const TEXTS: &[&str] = &[
    "sni",
    "",
    "<>&",
    "\u{2028}\u{2029}",
    "é",
    "\u{1f600}",
    "a\"b\\c",
    "tab\there",
    "line\nfeed",
    "\u{1}\u{1f}",
    "\u{7f}",
    "http://p:1",
    "\u{fffd}",
    "\u{8}\u{c}",
    "a/b",
];

/// What an extension may hold: anything.
pub(super) fn config(depth: usize, rng: &mut Rng) -> Tree {
    match rng.below(if depth == 0 { 6 } else { 10 }) {
        0 => Tree::from(rng.of(TEXTS)),
        1 => Tree::Bare(rng.of(NUMBERS).to_owned()),
        2 => odd(rng),
        3 => Tree::from("text"),
        4 => Tree::Bool(rng.chance(50)),
        5 => Tree::Null,
        6 => Tree::List((0..rng.below(4)).map(|_| config(depth - 1, rng)).collect()),
        _ => {
            let keys = ["b", "a", "Z", "é", "<k>", "", "a.b", "10", "9", "\u{2028}", "a"];
            Tree::Map(
                (0..rng.below(4))
                    .map(|_| (rng.of(&keys).to_owned(), config(depth - 1, rng)))
                    .collect(),
            )
        }
    }
}

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1.50",
    "1e3",
    "1E+3",
    "1e-7",
    "1e21",
    "1e20",
    "123456789012345678",
    "0.1",
    "9007199254740993",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    "1e400",
    "1.7976931348623157e308",
    "5e-324",
    "0.000001",
    "0.0000001",
    "100000000000000000000",
    "1000000000000000000000",
    "3.14",
];
