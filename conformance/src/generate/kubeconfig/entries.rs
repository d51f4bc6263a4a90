//! What stands under a name: clusters, contexts, users and their plugins.

use base64::{Engine, prelude::BASE64_STANDARD};

use super::{
    super::{
        exec, exec_input,
        pick::Rng,
        tree::{SCALARS, Tree, map, odd},
    },
    texts::{COMMANDS, FILES, NAMES, PROXIES, SERVERS},
};

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

pub(super) fn cluster(rng: &mut Rng) -> Tree {
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

pub(super) fn extensions(rng: &mut Rng) -> Tree {
    let entries = (0..=rng.below(2)).map(|_| {
        let name = rng.mostly(
            80,
            "client.authentication.k8s.io/exec",
            &["other", "", "client.authentication.k8s.io"],
        );
        let mut fields = vec![
            ("name".to_owned(), Tree::from(name)),
            ("extension".to_owned(), exec_input::config(3, rng)),
        ];
        if rng.chance(5) {
            fields.remove(rng.below(2));
        }
        Tree::Map(fields)
    });
    Tree::List(entries.collect())
}

pub(super) fn context(rng: &mut Rng) -> Tree {
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

pub(super) fn user(rng: &mut Rng) -> Tree {
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

/// A field's name, seldom in other letters.
pub(super) fn respell(name: &str, rng: &mut Rng) -> String {
    match rng.below(300) {
        0 => name.to_uppercase(),
        1 => name[..1].to_uppercase() + &name[1..],
        _ => name.to_owned(),
    }
}
