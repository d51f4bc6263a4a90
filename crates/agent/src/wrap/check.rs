//! Reads the result of an edit, and compares it with the original.

use std::collections::HashSet;

use keyward_protocol::{Node, node::Value};

use super::{Document, Edited, Refusal, Site, Wrapping, hint, inner, refuse};
use crate::record::{list, quoted, text};

const OTHERWISE: &str = "the edit would change more than the command";

/// Checks that a wrapped kubeconfig equals the original except for the wrapped commands.
pub(super) fn wrapped(
    before: &Document<'_>,
    edited: &Edited,
    wrapping: &Wrapping<'_>,
) -> Result<(), Refusal> {
    let mut after = read(edited)?;
    let users: HashSet<_> = edited.users.iter().collect();
    for site in before.sites() {
        let chosen = users.contains(&site.user) && !site.is_wrapped();
        if !chosen || site.command.is_empty() {
            continue;
        }
        let own = before.node.get("users").and_then(|users| exec(users, site.index));
        let new = after.get_mut("users").and_then(|users| exec_mut(users, site.index));
        let (Some(own), Some(new)) = (own, new) else { return Err(otherwise(before, &site)) };
        let mut args = vec!["--".to_owned(), inner(&site.user, &site.command, wrapping)];
        args.extend(site.args.clone().unwrap_or_default());
        let is_right = is(new, "command", wrapping.wrapper)
            && new.get("args").and_then(|args| list(args, text)) == Some(args)
            && is(new, "installHint", &hint(&site.hint))
            && pinned(own, new, &site, wrapping);
        if !is_right {
            return Err(otherwise(before, &site));
        }
        restore(own, new);
    }
    for site in before.provider_sites(wrapping)?.iter().filter(|site| users.contains(&site.user)) {
        let own = before.node.get("users").and_then(|users| fields(users, site.index));
        let new = after.get_mut("users").and_then(|users| fields_mut(users, site.index));
        let restored = own.zip(new).and_then(|(own, new)| site.restore(wrapping, own, new));
        if restored.is_none() {
            return Err(refuse(own.map_or(1, |own| own.line), &site.user, OTHERWISE));
        }
    }
    same(before, &after, edited)
}

/// Checks that an unwrapped kubeconfig equals the wrapped one except for the wrapped commands.
pub(super) fn unwrapped(before: &Document<'_>, edited: &Edited) -> Result<(), Refusal> {
    let mut after = read(edited)?;
    let users: HashSet<_> = edited.users.iter().collect();
    for site in before.sites() {
        if !users.contains(&site.user) || !site.is_wrapped() {
            continue;
        }
        let own = before.node.get("users").and_then(|users| exec(users, site.index));
        let new = after.get_mut("users").and_then(|users| exec_mut(users, site.index));
        let (Some(own), Some(new)) = (own, new) else { return Err(otherwise(before, &site)) };
        let args = site.args.clone().unwrap_or_default();
        let is_right = args.get(1).is_some_and(|command| is(new, "command", command))
            && new.get("args").and_then(|args| list(args, text)).as_deref() == args.get(2..);
        if !is_right {
            return Err(otherwise(before, &site));
        }
        restore(own, new);
    }
    same(before, &after, edited)
}

fn read(edited: &Edited) -> Result<Node, Refusal> {
    let first = edited.edits.first();
    let (line, user) = first.map_or((1, ""), |edit| (edit.line, edit.user.as_str()));
    Node::from_json_or_yaml(&edited.bytes).map_err(|_| refuse(line, user, OTHERWISE))
}

fn same(before: &Document<'_>, after: &Node, edited: &Edited) -> Result<(), Refusal> {
    if before.node.to_json() == after.to_json() {
        return Ok(());
    }
    let first = edited.edits.first();
    let (line, user) = first.map_or((1, ""), |edit| (edit.line, edit.user.as_str()));
    Err(refuse(
        line,
        user,
        "the edit would also change another entry, which shares this one by an anchor",
    ))
}

fn otherwise(before: &Document<'_>, site: &Site) -> Refusal {
    let node = before.node.get("users").and_then(|users| exec(users, site.index));
    refuse(node.map_or(1, |node| node.line), &site.user, OTHERWISE)
}

/// Puts back the original's values where the edit may differ, and removes what it added.
fn restore(own: &Node, new: &mut Node) {
    let Value::Map(entries) = &mut new.value else { return };
    entries.retain_mut(|entry| {
        let may_differ = ["command", "args", "installHint", "env"].contains(&entry.key.as_str());
        match own.get(&entry.key) {
            Some(value) if may_differ => entry.value = value.clone(),
            None if may_differ => return false,
            _ => {}
        }
        true
    });
}

/// Whether the environment has the pinned variables in front of its own.
fn pinned(own: &Node, new: &Node, site: &Site, wrapping: &Wrapping<'_>) -> bool {
    let items = |node: &Node| match node.get("env").map(|env| &env.value) {
        Some(Value::List(items)) => items.iter().map(Node::to_json).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let names: Vec<_> = site.pins(wrapping).map(|pin| pin.name.as_str()).collect();
    let new_items = items(new);
    let Some((lead, rest)) = new_items.split_at_checked(names.len()) else { return false };
    let is_pin = |(item, name): (&String, &&str)| item.contains(&quoted(name));
    lead.iter().zip(&names).all(is_pin) && rest == items(own)
}

fn exec(users: &Node, index: usize) -> Option<&Node> {
    fields(users, index)?.get("exec")
}

fn exec_mut(users: &mut Node, index: usize) -> Option<&mut Node> {
    fields_mut(users, index)?.get_mut("exec")
}

fn fields(users: &Node, index: usize) -> Option<&Node> {
    let Value::List(users) = &users.value else { return None };
    users.get(index)?.get("user")
}

fn fields_mut(users: &mut Node, index: usize) -> Option<&mut Node> {
    let Value::List(users) = &mut users.value else { return None };
    users.get_mut(index)?.get_mut("user")
}

/// Whether a field has this text.
fn is(node: &Node, field: &str, wanted: &str) -> bool {
    node.get(field).and_then(text).as_deref() == Some(wanted)
}
