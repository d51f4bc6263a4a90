//! Puts `keyward-exec --` in front of the plugin commands of a kubeconfig, and removes it again. On request, it
//! replaces plugins and auth-providers of others with Keyward's own.
//!
//! An edit changes as few bytes as it can ([`Part`]): those of a command, its arguments and its hint; of
//! `env`, if variables are pinned; keys are added where a stanza has none of these; and a whole
//! `auth-provider` makes room for a stanza. Comments, order, anchors and line endings of everything else
//! stay. Edits that would have to change more are refused. Every result is parsed and compared with the
//! original before it is returned, so an edit that changes the meaning is refused too.

mod check;
pub mod docker;
pub mod file;
mod journal;
pub mod native;
mod provider;
mod site;

use std::{fmt, ops::Range, path::Path};

use keyward_host::kubeconfig::Exec;
use keyward_protocol::{
    Node,
    node::{Layout, Place, SyntaxError, Value},
};

pub use journal::Journal;
use native::Native;
use provider::ProviderSite;
use site::Site;

use crate::record::quoted;

/// A replacement of some bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Edit {
    /// The user whose stanza changes.
    pub user: String,
    /// The part of the stanza that changes.
    pub part: Part,
    /// The position in the result.
    pub at: usize,
    /// The new text.
    pub new: String,
    /// The original text.
    pub old: String,
    /// The line of the original, counted from 1.
    pub line: u32,
}

/// Shows no text: the original may contain tokens.
impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, part, at, line, .. } = self;
        f.debug_struct("Edit")
            .field("user", user)
            .field("part", part)
            .field("at", at)
            .field("line", line)
            .finish_non_exhaustive()
    }
}

/// A part of an `exec` stanza that an [`Edit`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Keys that did not exist.
    Keys,
    /// The command.
    Command,
    /// The arguments.
    Args,
    /// The hint.
    Hint,
    /// The environment.
    Env,
    /// The whole `auth-provider`, in whose place is a stanza.
    Provider,
    /// A credential helper of docker.
    Helper,
}

/// A kubeconfig after an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// What changed, in order.
    pub edits: Vec<Edit>,
    /// The users that were changed.
    pub users: Vec<String>,
}

/// Why a kubeconfig was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The line, counted from 1.
    pub line: u32,
    /// The user with the stanza at that line; empty if the whole file is concerned.
    pub user: String,
    /// What prevents the change.
    pub why: String,
}

/// How commands are wrapped.
pub struct Wrapping<'a> {
    /// The absolute path of `keyward-exec`.
    pub wrapper: &'a str,
    /// The directory of the kubeconfig: a relative command is relative to it.
    pub directory: &'a Path,
    /// Variables to add to stanzas that do not set them.
    pub pins: &'a [Pin],
    /// Plugins that are replaced, too.
    pub natives: &'a [Native],
}

/// A variable added to a stanza.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The user whose stanza sets it.
    pub user: String,
    /// The variable's name.
    pub name: String,
    /// The variable's value.
    pub value: String,
}

/// Wraps the commands of the users that `chosen` selects. Commands that are already wrapped stay as
/// they are.
pub fn wrap(
    bytes: &[u8],
    wrapping: &Wrapping<'_>,
    chosen: impl Fn(&str) -> bool,
) -> Result<Edited, Refusal> {
    let document = Document::read(bytes)?;
    let mut splices = Vec::new();
    let mut users = Vec::new();
    for site in document.sites() {
        if !chosen(&site.user) || site.is_wrapped() || site.command.is_empty() {
            continue;
        }
        splices.extend(site.splices(wrapping)?);
        users.push(site.user);
    }
    for site in document.provider_sites(wrapping)? {
        if chosen(&site.user) {
            splices.push(site.splice(&document, wrapping)?);
            users.push(site.user);
        }
    }
    let edited = document.apply(splices, users)?;
    check::wrapped(&document, &edited, wrapping)?;
    Ok(edited)
}

/// Removes the wrapper from the users that `chosen` selects, without a journal. The result means
/// the same as the original, but its style may differ.
pub fn unwrap(bytes: &[u8], chosen: impl Fn(&str) -> bool) -> Result<Edited, Refusal> {
    let document = Document::read(bytes)?;
    let mut splices = Vec::new();
    let mut users = Vec::new();
    for site in document.sites() {
        if chosen(&site.user) && site.is_wrapped() {
            splices.extend(site.unsplices()?);
            users.push(site.user);
        }
    }
    let edited = document.apply(splices, users)?;
    check::unwrapped(&document, &edited)?;
    Ok(edited)
}

/// The users of a kubeconfig whose command is wrapped.
pub fn wrapped_users(bytes: &[u8]) -> Result<Vec<String>, Refusal> {
    let document = Document::read(bytes)?;
    Ok(document.sites().filter(Site::is_wrapped).map(|site| site.user).collect())
}

/// Undoes edits. `None` if the edited bytes are gone.
pub fn undo(bytes: &[u8], edits: &[Edit]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for edit in edits {
        out.extend_from_slice(bytes.get(at..edit.at)?);
        at = edit.at + edit.new.len();
        if bytes.get(edit.at..at)? != edit.new.as_bytes() {
            return None;
        }
        out.extend_from_slice(edit.old.as_bytes());
    }
    out.extend_from_slice(bytes.get(at..)?);
    Some(out)
}

/// A kubeconfig, its meaning and the positions of its parts.
struct Document<'a> {
    bytes: &'a [u8],
    node: Node,
    layout: Layout,
    /// The items of `users`.
    users: Vec<Place>,
}

/// A change to be made to the original.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Splice {
    user: String,
    part: Part,
    range: Range<usize>,
    new: String,
    line: u32,
}

impl<'a> Document<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let node = Node::from_json_or_yaml(bytes);
        let mut document = Self::of(bytes, node, "it is empty, or in UTF-16")?;
        let layout = &document.layout;
        let users = layout.entry(layout.follow(layout.root()), "users");
        let users = users.and_then(|(_, users)| layout.items(layout.follow(users)));
        document.users = users.unwrap_or_default();
        Ok(document)
    }

    /// A document whose users are not looked for. `empty` says why there is nothing in it.
    fn of(bytes: &'a [u8], node: Result<Node, SyntaxError>, empty: &str) -> Result<Self, Refusal> {
        let wrong = |error: SyntaxError| refuse(error.line, "", error.what);
        let node = node.map_err(wrong)?;
        let layout = Layout::of(bytes).map_err(wrong)?;
        let layout = layout.ok_or_else(|| refuse(1, "", empty))?;
        Ok(Self { bytes, node, users: Vec::new(), layout })
    }

    /// The users. Like the kubeconfig reader, this uses the last `users` key.
    fn nodes(&self) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = match self.node.get("users").map(|users| &users.value) {
            Some(Value::List(users)) => users.as_slice(),
            _ => &[],
        };
        nodes.iter().enumerate()
    }

    /// The users with a plugin.
    fn sites(&self) -> impl Iterator<Item = Site<'_>> {
        self.nodes().filter_map(|(index, node)| Site::find(self, index, node))
    }

    /// The users with an `auth-provider` that is to be replaced.
    fn provider_sites<'w>(
        &self,
        wrapping: &Wrapping<'w>,
    ) -> Result<Vec<ProviderSite<'w>>, Refusal> {
        let find = |(index, node)| ProviderSite::find(self, index, node, wrapping).transpose();
        self.nodes().filter_map(find).collect()
    }

    /// Applies the changes.
    fn apply(&self, mut splices: Vec<Splice>, users: Vec<String>) -> Result<Edited, Refusal> {
        splices.sort_by_key(|splice| (splice.range.start, splice.range.end));
        // Users that share a stanza by an anchor need the same change.
        splices.dedup_by(|a, b| (&a.range, &a.new) == (&b.range, &b.new));
        let mut bytes = Vec::with_capacity(self.bytes.len() + 256);
        let mut edits: Vec<Edit> = Vec::with_capacity(splices.len());
        let mut at = 0;
        for Splice { user, part, range, new, line } in splices {
            let old = self.bytes.get(range.clone()).filter(|_| range.start >= at);
            let old = old.and_then(|old| std::str::from_utf8(old).ok()).map(str::to_owned);
            let Some(old) = old else {
                return Err(refuse(line, &user, "it shares a part with another user"));
            };
            bytes.extend_from_slice(&self.bytes[at..range.start]);
            at = range.end;
            edits.push(Edit { user, part, at: bytes.len(), new: new.clone(), old, line });
            bytes.extend_from_slice(new.as_bytes());
        }
        bytes.extend_from_slice(&self.bytes[at..]);
        Ok(Edited { bytes, edits, users })
    }
}

impl Refusal {
    /// The refusal as a sentence for people.
    pub fn message(&self) -> String {
        let Self { line, user, why } = self;
        match user.as_str() {
            "" => format!("line {line}: {why}"),
            user => format!("line {line}: the stanza of user `{user}` cannot be changed: {why}"),
        }
    }
}

fn refuse(line: u32, user: &str, why: impl Into<String>) -> Refusal {
    Refusal { line, user: user.to_owned(), why: why.into() }
}

/// The hint of a wrapped stanza.
fn hint(own: &str) -> String {
    if own.is_empty() {
        Exec::WRAPPER_HINT.to_owned()
    } else {
        format!("{} {own}", Exec::WRAPPER_HINT)
    }
}

/// The command of a user as it is written after `--`: the provider that replaces it, or its own, made absolute if it
/// was relative to the kubeconfig, because arguments are not resolved that way.
fn inner(user: &str, command: &str, wrapping: &Wrapping<'_>) -> String {
    if let Some(native) = wrapping.natives.iter().find(|native| native.user == user) {
        return native.command.clone();
    }
    let directory = wrapping.directory;
    let relative = command.contains(std::path::is_separator) && !Path::new(command).is_absolute();
    if relative {
        directory.join(command).to_string_lossy().into_owned()
    } else {
        command.to_owned()
    }
}

/// An item of a stanza's `env`, as JSON.
fn variable(name: &str, value: &str) -> String {
    format!("{{\"name\": {}, \"value\": {}}}", quoted(name), quoted(value))
}

fn is_wrapper(command: &str) -> bool {
    Path::new(command).file_name().is_some_and(|name| name == Exec::WRAPPER)
}

#[cfg(test)]
mod tests;
