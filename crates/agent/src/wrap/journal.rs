//! Records the changes to a kubeconfig, so that they can be undone byte for byte.
//!
//! There is one file per kubeconfig, in the user's state directory, which only the user can read. It contains the
//! replaced bytes and a digest of the result. The bytes are commands and hints, which are not secret, and
//! auth-providers, which contain tokens as the kubeconfig did.

use std::{
    fmt::Write as _,
    fs, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use keyward_process::{
    file::{self, Limits},
    surroundings::Surroundings,
};
use keyward_protocol::Node;

use super::{Document, Edit, Edited, Native, Part, Pin, Site, Wrapping, file::Failure, undo};
use crate::{
    record::{self, list, quoted, text},
    store::digest_of,
};

const VERSION: &str = "keyward wrap 1";

/// The changes to one kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The kubeconfig, with symlinks resolved.
    pub kubeconfig: PathBuf,
    /// The users that were wrapped.
    pub users: Vec<String>,
    /// The wrapper in front of their commands.
    pub(super) wrapper: String,
    pub(super) pins: Vec<Pin>,
    pub(super) natives: Vec<Native>,
    /// A digest of the kubeconfig with the changes.
    result: String,
    pub(super) edits: Vec<Edit>,
}

/// A kubeconfig with its journal's changes undone.
pub(super) struct Base {
    pub(super) bytes: Vec<u8>,
    /// The users whose changes were undone.
    pub(super) users: Vec<String>,
}

impl Base {
    /// A kubeconfig without changes that could be undone.
    pub(super) fn unchanged(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_owned(), users: Vec::new() }
    }
}

impl Journal {
    /// The journal of an edit.
    pub(super) fn new(kubeconfig: &Path, edited: &Edited, wrapping: &Wrapping<'_>) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            users: edited.users.clone(),
            wrapper: wrapping.wrapper.to_owned(),
            pins: wrapping.pins.to_vec(),
            natives: wrapping
                .natives
                .iter()
                .filter(|native| edited.users.contains(&native.user))
                .cloned()
                .collect(),
            result: digest_of(&edited.bytes),
            edits: edited.edits.clone(),
        }
    }

    /// The journal of an edit of docker's configuration.
    pub(super) fn of_docker(config: &Path, edited: &Edited) -> Self {
        let wrapping = Wrapping { wrapper: "", directory: config, pins: &[], natives: &[] };
        Self::new(config, edited, &wrapping)
    }

    /// Where a user's journals of docker's configurations are, next to the others.
    pub fn docker_directory(journals: &Path) -> PathBuf {
        journals.with_file_name("wrap-docker")
    }

    /// Where a user's journals are: `keyward/wrap` in `$XDG_STATE_HOME` or `~/.local/state`.
    pub fn directory(surroundings: &Surroundings) -> Option<PathBuf> {
        let state = surroundings.var("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.filter(|path| path.is_absolute());
        let state = state.or_else(|| surroundings.home().map(|home| home.join(".local/state")))?;
        Some(state.join("keyward").join("wrap"))
    }

    /// All journals in a directory.
    pub fn list(directory: &Path) -> Vec<Self> {
        let names = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut all: Vec<_> = names.filter_map(|entry| Self::read(&entry.path())).collect();
        all.sort_by(|a, b| a.kubeconfig.cmp(&b.kubeconfig));
        all
    }

    /// The users whose commands are no longer wrapped, because another program has rewritten the
    /// kubeconfig.
    pub fn overwritten(&self) -> Vec<String> {
        let bytes = file::read(&self.kubeconfig, &Limits::GIVEN);
        let wrapped = bytes.ok().and_then(|bytes| super::wrapped_users(&bytes).ok());
        let wrapped = wrapped.unwrap_or_default();
        self.users.iter().filter(|user| !wrapped.contains(user)).cloned().collect()
    }

    pub(super) fn load(directory: &Path, kubeconfig: &Path) -> Option<Self> {
        Self::read(&place(directory, kubeconfig)).filter(|found| found.kubeconfig == kubeconfig)
    }

    fn read(path: &Path) -> Option<Self> {
        let bytes = file::read(path, &Limits::NAMED.regular()).ok()?;
        let node = Node::from_json(&bytes).ok()?;
        let field = |key: &str| text(node.get(key)?);
        if field("version")? != VERSION {
            return None;
        }
        Some(Self {
            kubeconfig: field("kubeconfig")?.into(),
            result: field("result")?,
            wrapper: field("wrapper")?,
            pins: list(node.get("pins")?, pin)?,
            // Journals of earlier versions have none.
            natives: node.get("natives").map_or(Some(Vec::new()), |node| list(node, native))?,
            users: list(node.get("users")?, text)?,
            edits: list(node.get("edits")?, edit)?,
        })
    }

    pub(super) fn write(&self, directory: &Path) -> Result<(), Failure> {
        record::write(&place(directory, &self.kubeconfig), &self.to_json()).map_err(unwritable)
    }

    pub(super) fn remove(directory: &Path, kubeconfig: &Path) -> Result<(), Failure> {
        record::remove(&place(directory, kubeconfig)).map_err(unwritable)
    }

    fn to_json(&self) -> String {
        let mut out = String::from("{\n");
        for (key, value) in [
            ("version", VERSION),
            ("kubeconfig", &self.kubeconfig.to_string_lossy()),
            ("result", &self.result),
            ("wrapper", &self.wrapper),
        ] {
            let _ = writeln!(out, "{}: {},", quoted(key), quoted(value));
        }
        let users: Vec<_> = self.users.iter().map(|user| quoted(user)).collect();
        let pin = |Pin { user, name, value }: &Pin| {
            let (user, name, value) = (quoted(user), quoted(name), quoted(value));
            format!("{{\"user\": {user}, \"name\": {name}, \"value\": {value}}}")
        };
        let pins: Vec<_> = self.pins.iter().map(pin).collect();
        let _ = writeln!(out, "\"users\": [{}],", users.join(", "));
        let native = |Native { user, command }: &Native| {
            format!("{{\"user\": {}, \"command\": {}}}", quoted(user), quoted(command))
        };
        let natives: Vec<_> = self.natives.iter().map(native).collect();
        let _ = writeln!(out, "\"natives\": [{}],", natives.join(", "));
        let _ = writeln!(out, "\"pins\": [{}],\n\"edits\": [", pins.join(", "));
        for (index, edit) in self.edits.iter().enumerate() {
            let comma = if index + 1 < self.edits.len() { "," } else { "" };
            let _ = writeln!(
                out,
                "{{\"user\": {}, \"part\": {}, \"line\": \"{}\", \"at\": \"{}\", \"new\": {}, \"old\": {}}}{comma}",
                quoted(&edit.user),
                quoted(edit.part.name()),
                edit.line,
                edit.at,
                quoted(&edit.new),
                quoted(&edit.old),
            );
        }
        out.push_str("]\n}\n");
        out
    }

    /// Undoes the changes: byte for byte if nothing else changed, and otherwise wherever they still
    /// are.
    pub(super) fn take_back(&self, bytes: &[u8]) -> Base {
        if digest_of(bytes) == self.result
            && let Some(bytes) = undo(bytes, &self.edits)
        {
            return Base { bytes, users: self.users.clone() };
        }
        self.take_back_some(bytes).unwrap_or_else(|| Base::unchanged(bytes))
    }

    fn take_back_some(&self, bytes: &[u8]) -> Option<Base> {
        let document = Document::read(bytes).ok()?;
        let mut found = Vec::new();
        let mut users = Vec::new();
        for site in document.sites().filter(Site::is_wrapped) {
            let own: Vec<_> = self.edits.iter().filter(|edit| edit.user == site.user).collect();
            let located = own.iter().map(|edit| {
                let stands = |at: &usize| {
                    bytes.get(*at..).is_some_and(|rest| rest.starts_with(edit.new.as_bytes()))
                };
                let mut candidates = site.candidates(edit.part, edit.new.len());
                candidates.retain(stands);
                Some(Edit { at: *candidates.first()?, ..(*edit).clone() })
            });
            if let Some(located) = located.collect::<Option<Vec<_>>>()
                && self.users.contains(&site.user)
            {
                found.extend(located);
                users.push(site.user);
            }
        }
        found.sort_by_key(|edit| edit.at);
        found.dedup();
        let bytes = undo(bytes, &found)?;
        // The result must be a kubeconfig in which these users are not wrapped.
        let left = super::wrapped_users(&bytes).ok()?;
        users.iter().all(|user| !left.contains(user)).then_some(Base { bytes, users })
    }
}

impl Part {
    const ALL: [Self; 7] = [
        Self::Keys,
        Self::Command,
        Self::Args,
        Self::Hint,
        Self::Env,
        Self::Provider,
        Self::Helper,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Command => "command",
            Self::Args => "args",
            Self::Hint => "hint",
            Self::Env => "env",
            Self::Provider => "auth-provider",
            Self::Helper => "helper",
        }
    }
}

fn unwritable(error: io::Error) -> Failure {
    Failure::Io("the journal cannot be written", error)
}

fn place(directory: &Path, kubeconfig: &Path) -> PathBuf {
    directory.join(digest_of(kubeconfig.as_os_str().as_bytes()))
}

fn edit(node: &Node) -> Option<Edit> {
    let text = |key: &str| text(node.get(key)?);
    let part = text("part")?;
    Some(Edit {
        user: text("user")?,
        part: Part::ALL.into_iter().find(|known| known.name() == part)?,
        at: text("at")?.parse().ok()?,
        new: text("new")?,
        old: text("old")?,
        line: text("line")?.parse().ok()?,
    })
}

fn pin(node: &Node) -> Option<Pin> {
    let text = |key: &str| text(node.get(key)?);
    Some(Pin { user: text("user")?, name: text("name")?, value: text("value")? })
}

fn native(node: &Node) -> Option<Native> {
    let text = |key: &str| text(node.get(key)?);
    Some(Native { user: text("user")?, command: text("command")? })
}
