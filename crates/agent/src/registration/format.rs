//! A registration as JSON.

use std::{fmt::Write as _, path::PathBuf};

use keyward_protocol::{Node, node::Value};

use super::Registration;
use crate::{
    identity::Profile,
    record::{list, quoted, text},
    store::hex,
};

const VERSION: &str = "keyward registration 1";

pub(super) fn write(registration: &Registration) -> String {
    let Registration {
        command,
        arguments,
        environment,
        steering,
        identity_env,
        identity_files,
        program,
        path,
        profile,
        kubeconfig,
        user,
        contexts,
        server,
        api_version,
        interactive_mode,
        provide_cluster_info,
    } = registration;
    let mut out = String::from("{\n");
    for (key, value) in [
        ("version", VERSION),
        ("command", command),
        ("arguments", &hex(arguments)),
        ("program", &program.to_string_lossy()),
        ("path", path),
        ("profile", profile.name()),
        ("kubeconfig", &kubeconfig.to_string_lossy()),
        ("user", user),
        ("server", server),
        ("apiVersion", api_version),
        ("interactiveMode", interactive_mode),
        ("provideClusterInfo", if *provide_cluster_info { "true" } else { "false" }),
    ] {
        let _ = writeln!(out, "{}: {},", quoted(key), quoted(value));
    }
    for (key, pairs) in [("environment", environment), ("steering", steering)] {
        let pair = |(name, digest): &(String, [u8; 32])| {
            format!("{}: {}", quoted(name), quoted(&hex(digest)))
        };
        let pairs: Vec<_> = pairs.iter().map(pair).collect();
        let _ = writeln!(out, "{}: {{{}}},", quoted(key), pairs.join(", "));
    }
    let files = identity_files.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let lists = [("contexts", contexts), ("identityEnv", identity_env), ("identityFiles", &files)];
    let lists = lists.map(|(key, texts)| {
        let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
        format!("{}: [{}]", quoted(key), texts.join(", "))
    });
    out + &lists.join(",\n") + "\n}\n"
}

/// Reads a registration; `None` if it has another version or is damaged.
pub(super) fn read(bytes: &[u8]) -> Option<Registration> {
    let node = Node::from_json(bytes).ok()?;
    let field = |key: &str| text(node.get(key)?);
    if field("version")? != VERSION {
        return None;
    }
    Some(Registration {
        command: field("command")?,
        arguments: from_hex(&field("arguments")?)?,
        environment: pairs(node.get("environment")?)?,
        steering: pairs(node.get("steering")?)?,
        identity_env: list(node.get("identityEnv")?, text)?,
        identity_files: list(node.get("identityFiles")?, text)?
            .into_iter()
            .map(PathBuf::from)
            .collect(),
        program: field("program")?.into(),
        path: field("path")?,
        profile: Profile::from_name(&field("profile")?),
        kubeconfig: field("kubeconfig")?.into(),
        user: field("user")?,
        contexts: list(node.get("contexts")?, text)?,
        server: field("server")?,
        api_version: field("apiVersion")?,
        interactive_mode: field("interactiveMode")?,
        provide_cluster_info: field("provideClusterInfo")? == "true",
    })
}

fn pairs(node: &Node) -> Option<Vec<(String, [u8; 32])>> {
    let Value::Map(entries) = &node.value else { return None };
    let pair = |entry: &keyward_protocol::node::Entry| {
        Some((entry.key.clone(), from_hex(&text(&entry.value)?)?))
    };
    entries.iter().map(pair).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}
