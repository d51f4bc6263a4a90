//! A registration as JSON.

use std::path::PathBuf;

use keyward_protocol::{Node, json, node::Value};

use super::Entry;
use crate::{identity::Profile, store::hex};

const VERSION: &str = "keyward registration 1";

pub(super) fn write(entry: &Entry) -> String {
    let Entry {
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
    } = entry;
    let mut out = String::from("{\n");
    let mut text = |key: &str, value: &str| {
        json::push_text(&mut out, key);
        out.push_str(": ");
        json::push_text(&mut out, value);
        out.push_str(",\n");
    };
    text("version", VERSION);
    text("command", command);
    text("arguments", &hex(arguments));
    text("program", &program.to_string_lossy());
    text("path", path);
    text("profile", profile.name());
    text("kubeconfig", &kubeconfig.to_string_lossy());
    text("user", user);
    text("server", server);
    text("apiVersion", api_version);
    text("interactiveMode", interactive_mode);
    text("provideClusterInfo", if *provide_cluster_info { "true" } else { "false" });
    for (key, pairs) in [("environment", environment), ("steering", steering)] {
        json::push_text(&mut out, key);
        out.push_str(": {");
        for (index, (name, digest)) in pairs.iter().enumerate() {
            out.push_str(if index > 0 { ", " } else { "" });
            json::push_text(&mut out, name);
            out.push_str(": ");
            json::push_text(&mut out, &hex(digest));
        }
        out.push_str("},\n");
    }
    let files: Vec<_> = identity_files.iter().map(|path| path.to_string_lossy()).collect();
    texts(&mut out, "contexts", contexts.iter().map(String::as_str));
    out.push_str(",\n");
    texts(&mut out, "identityEnv", identity_env.iter().map(String::as_str));
    out.push_str(",\n");
    texts(&mut out, "identityFiles", files.iter().map(|path| &**path));
    out.push_str("\n}\n");
    out
}

fn texts<'a>(out: &mut String, key: &str, texts: impl Iterator<Item = &'a str>) {
    json::push_text(out, key);
    out.push_str(": [");
    for (index, text) in texts.enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        json::push_text(out, text);
    }
    out.push(']');
}

/// Reads a registration; `None` if it has another version or is damaged.
pub(super) fn read(bytes: &[u8]) -> Option<Entry> {
    let node = Node::from_json(bytes).ok()?;
    let text = |key: &str| as_text(node.get(key)?);
    if text("version")? != VERSION {
        return None;
    }
    Some(Entry {
        command: text("command")?,
        arguments: from_hex(&text("arguments")?)?,
        environment: pairs(node.get("environment")?)?,
        steering: pairs(node.get("steering")?)?,
        identity_env: list(node.get("identityEnv")?)?,
        identity_files: list(node.get("identityFiles")?)?.into_iter().map(PathBuf::from).collect(),
        program: text("program")?.into(),
        path: text("path")?,
        profile: Profile::from_name(&text("profile")?),
        kubeconfig: text("kubeconfig")?.into(),
        user: text("user")?,
        contexts: list(node.get("contexts")?)?,
        server: text("server")?,
        api_version: text("apiVersion")?,
        interactive_mode: text("interactiveMode")?,
        provide_cluster_info: text("provideClusterInfo")? == "true",
    })
}

fn as_text(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.as_str().to_owned()),
        _ => None,
    }
}

fn list(node: &Node) -> Option<Vec<String>> {
    match &node.value {
        Value::List(items) => items.iter().map(as_text).collect(),
        _ => None,
    }
}

fn pairs(node: &Node) -> Option<Vec<(String, [u8; 32])>> {
    let Value::Map(entries) = &node.value else { return None };
    let pair = |entry: &keyward_protocol::node::Entry| {
        Some((entry.key.clone(), from_hex(&as_text(&entry.value)?)?))
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
