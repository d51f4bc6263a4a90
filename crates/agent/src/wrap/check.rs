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
    let is_changed = |site: &Site<'_>| {
        users.contains(&site.user) && !site.is_wrapped() && !site.command.is_empty()
    };
    put_back(before, &mut after, before.sites().filter(is_changed), |site, own, new| {
        let mut args = vec!["--".to_owned(), inner(&site.user, &site.command, wrapping)];
        args.extend(site.args.clone().unwrap_or_default());
        is(new, "command", wrapping.wrapper)
            && new.get("args").and_then(|args| list(args, text)) == Some(args)
            && is(new, "installHint", &hint(&site.hint))
            && pinned(own, new, site, wrapping)
    })?;
    for site in before.provider_sites(wrapping)?.iter().filter(|site| users.contains(&site.user)) {
        let own = fields(&before.node, site.index);
        let new = fields_mut(&mut after, site.index);
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
    let is_changed = |site: &Site<'_>| users.contains(&site.user) && site.is_wrapped();
    put_back(before, &mut after, before.sites().filter(is_changed), |site, _, new| {
        let args = site.args.clone().unwrap_or_default();
        args.get(1).is_some_and(|command| is(new, "command", command))
            && new.get("args").and_then(|args| list(args, text)).as_deref() == args.get(2..)
    })?;
    same(before, &after, edited)
}

/// Puts the original stanzas back in place of those that were changed, if those are right.
fn put_back<'a>(
    before: &'a Document<'a>,
    after: &mut Node,
    changed: impl Iterator<Item = Site<'a>>,
    is_right: impl Fn(&Site<'_>, &Node, &Node) -> bool,
) -> Result<(), Refusal> {
    for site in changed {
        let own = fields(&before.node, site.index).and_then(|fields| fields.get("exec"));
        let new = fields_mut(after, site.index).and_then(|fields| fields.get_mut("exec"));
        match (own, new) {
            (Some(own), Some(new)) if is_right(&site, own, new) => restore(own, new),
            _ => return Err(refuse(own.map_or(1, |own| own.line), &site.user, OTHERWISE)),
        }
    }
    Ok(())
}

fn read(edited: &Edited) -> Result<Node, Refusal> {
    Node::from_json_or_yaml(&edited.bytes).map_err(|_| refuse_first(edited, OTHERWISE))
}

fn same(before: &Document<'_>, after: &Node, edited: &Edited) -> Result<(), Refusal> {
    if before.node.to_json() == after.to_json() {
        return Ok(());
    }
    let why = "the edit would also change another entry, which shares this one by an anchor";
    Err(refuse_first(edited, why))
}

/// A refusal that names the first edit.
fn refuse_first(edited: &Edited, why: &str) -> Refusal {
    let first = edited.edits.first();
    let (line, user) = first.map_or((1, ""), |edit| (edit.line, edit.user.as_str()));
    refuse(line, user, why)
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
fn pinned(own: &Node, new: &Node, site: &Site<'_>, wrapping: &Wrapping<'_>) -> bool {
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

/// What the user at `index` has.
fn fields(kubeconfig: &Node, index: usize) -> Option<&Node> {
    let Value::List(users) = &kubeconfig.get("users")?.value else { return None };
    users.get(index)?.get("user")
}

fn fields_mut(kubeconfig: &mut Node, index: usize) -> Option<&mut Node> {
    let Value::List(users) = &mut kubeconfig.get_mut("users")?.value else { return None };
    users.get_mut(index)?.get_mut("user")
}

/// Whether a field has this text.
fn is(node: &Node, field: &str, wanted: &str) -> bool {
    node.get(field).and_then(text).as_deref() == Some(wanted)
}
