//! Reads kubectl's kuberc for its plugin policy, and for nothing else.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use keyward_process::file::{self, Limits};
use keyward_protocol::{
    Node,
    node::{Entry, Value},
};

use super::{Policy, Rules};
use keyward_process::surroundings::Surroundings;

use crate::{Error, Kind, error::inline};

const GROUP: &str = "kubectl.config.k8s.io";
const POLICY: &str = "credentialPluginPolicy";
const ALLOWLIST: &str = "credentialPluginAllowlist";
/// What a v1beta1 `Preference` may have. One more could be a misspelt policy.
const FIELDS: [&str; 6] = ["apiVersion", "kind", "defaults", "aliases", POLICY, ALLOWLIST];

pub(super) fn load(surroundings: &Surroundings, explicit: Option<&Path>) -> Result<Rules, Error> {
    if let Some(variable) = switched_off(surroundings) {
        if explicit.is_some() {
            return Err(Error::new(
                Kind::BadConfig,
                format!("`--kuberc` is given, but `{variable}` switches kuberc off"),
            ));
        }
        return Ok(Rules { switched_off: Some(variable), ..Rules::default() });
    }
    let Some((file, asked_for)) = place(surroundings, explicit) else {
        return Ok(Rules::default());
    };
    match read(&surroundings.absolute(&file)) {
        Ok(policy) => Ok(Rules { policy, origin: Some(file), ..Rules::default() }),
        Err(Unread::Absent) if !asked_for => Ok(Rules::default()),
        Err(unread) => {
            let error = unread.into_error(&file);
            if asked_for {
                return Err(error);
            }
            Ok(Rules { origin: Some(file), fault: Some(error), ..Rules::default() })
        }
    }
}

/// The file that is read unless kuberc is switched off, and whether somebody named it.
pub(super) fn place(
    surroundings: &Surroundings,
    explicit: Option<&Path>,
) -> Option<(PathBuf, bool)> {
    match (explicit, surroundings.var("KUBERC")) {
        (Some(file), _) => Some((file.to_owned(), true)),
        (None, Some(file)) if !file.is_empty() => Some((PathBuf::from(file), true)),
        _ => Some((surroundings.home()?.join(".kube").join("kuberc"), false)),
    }
}

/// The policy of a file's content, for those who have it from elsewhere.
pub(super) fn policy(content: &[u8]) -> Result<Policy, Error> {
    parse(content).map_err(|unread| unread.into_error(Path::new("kuberc")))
}

fn switched_off(surroundings: &Surroundings) -> Option<&'static str> {
    if surroundings.var("KUBERC").as_deref() == Some(OsStr::new("off")) {
        return Some("KUBERC");
    }
    surroundings
        .var("KUBECTL_KUBERC")
        .is_some_and(|value| value.eq_ignore_ascii_case("false"))
        .then_some("KUBECTL_KUBERC")
}

enum Unread {
    Absent,
    Io(io::Error),
    /// What is wrong, and the line where.
    Wrong(Error, u32),
}

impl Unread {
    fn into_error(self, file: &Path) -> Error {
        let closed = |error: Error, line: u32| {
            let place = match line {
                0 => format!("`{}`", file.display()),
                line => format!("`{}`, line {line}", file.display()),
            };
            error
                .note("kuberc", place)
                .with_hint("no plugin runs until the file is understood; `KUBERC=off` ignores it")
        };
        match self {
            Self::Absent => {
                Error::new(Kind::BadConfig, format!("kuberc `{}` does not exist", file.display()))
            }
            Self::Io(error) => {
                closed(Error::new(Kind::BadConfig, "cannot read the kuberc"), 0).because(error)
            }
            Self::Wrong(error, line) => closed(error, line),
        }
    }
}

fn read(path: &Path) -> Result<Policy, Unread> {
    let bytes = file::read(path, &Limits::GIVEN).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Unread::Absent,
        _ => Unread::Io(error),
    })?;
    parse(&bytes)
}

/// The policy of the first document that is a `Preference` (PP-18). A document that is unreadable, or
/// has another policy than the one that counts, is a fault: its author meant something by it.
fn parse(bytes: &[u8]) -> Result<Policy, Unread> {
    let mut said: Option<Document> = None;
    let mut others = Vec::new();
    for (text, line) in split(bytes) {
        let node = Node::from_json_or_yaml(text).map_err(|error| {
            wrong(format!("the kuberc cannot be read: {}", error.what), error.line + line)
        })?;
        if matches!(node.value, Value::Null) {
            continue;
        }
        for key in [POLICY, ALLOWLIST] {
            if let Some(second) = said_again(text, key) {
                return Err(wrong(format!("`{key}` stands twice in the kuberc"), line + second));
            }
        }
        let document = Document { node, line };
        if said.is_none() && document.version().is_some() {
            said = Some(document);
        } else {
            others.push(document);
        }
    }
    let Some(said) = said else {
        return match others.first() {
            None => Ok(Policy::AllowAll),
            Some(other) => Err(wrong(
                format!("the kuberc has no `Preference` of a version of `{GROUP}` that is known"),
                other.place(),
            )),
        };
    };
    for other in &others {
        if other.has_policy() && other.words() != said.words() {
            let what = "the kuberc has a plugin policy in a document that does not count";
            return Err(wrong(what, other.place()));
        }
    }
    said.policy()
}

/// The line of the second `key` of a document, if there is one. A reader takes the last of two, which
/// may not be the one that was meant.
fn said_again(text: &[u8], key: &str) -> Option<u32> {
    let says = |line: &str| {
        let line = line.trim_start_matches(['{', ',', ' ', '\t']);
        let rest = ['"', '\'']
            .iter()
            .find_map(|quote| line.strip_prefix(*quote)?.strip_prefix(key)?.strip_prefix(*quote))
            .or_else(|| line.strip_prefix(key));
        rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let text = String::from_utf8_lossy(text);
    let mut found = text.lines().zip(1..).filter(|(line, _)| says(line)).map(|(_, number)| number);
    found.nth(1)
}

/// Cuts a stream at lines that are `---` and nothing but blanks or a comment after it, as kubectl
/// does. Each part comes with the number of lines before it.
fn split(bytes: &[u8]) -> Vec<(&[u8], u32)> {
    let mut parts = Vec::new();
    let (mut start, mut first, mut at, mut line) = (0, 0, 0, 0_u32);
    for text in bytes.split_inclusive(|&b| b == b'\n') {
        let separates = text
            .strip_prefix(b"---")
            .map(<[u8]>::trim_ascii)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'#');
        if separates && start < at {
            parts.push((&bytes[start..at], first));
            (start, first) = (at, line);
        }
        at += text.len();
        line += 1;
    }
    parts.push((&bytes[start..], first));
    parts
}

struct Document {
    node: Node,
    /// Lines before it.
    line: u32,
}

impl Document {
    /// The version of a `Preference`, if it is one that is known.
    fn version(&self) -> Option<&str> {
        let text = |key| self.node.get(key).and_then(Node::as_text);
        let (group, version) = text("apiVersion")?.split_once('/')?;
        let is_preference = text("kind") == Some("Preference") && group == GROUP;
        (is_preference && matches!(version, "v1beta1" | "v1alpha1")).then_some(version)
    }

    fn place(&self) -> u32 {
        self.line + self.node.line
    }

    fn has_policy(&self) -> bool {
        self.words() != (None, None)
    }

    /// What is said about plugins, as values to compare.
    fn words(&self) -> (Option<String>, Option<String>) {
        let said = |key| {
            self.node.get(key).filter(|node| !matches!(node.value, Value::Null)).map(Node::to_json)
        };
        (said(POLICY), said(ALLOWLIST))
    }

    fn policy(&self) -> Result<Policy, Unread> {
        let Value::Map(entries) = &self.node.value else {
            return Err(self.wrong("the kuberc is not a mapping", self.node.line));
        };
        if self.version() == Some("v1alpha1") && self.has_policy() {
            return Err(self.wrong(
                format!("`{GROUP}/v1alpha1` has no plugin policy; `v1beta1` has"),
                self.node.line,
            ));
        }
        if let Some(stranger) = entries.iter().find(|e| !FIELDS.contains(&e.key.as_str())) {
            return Err(self.wrong(
                format!("the kuberc has an unknown field `{}`", inline(&stranger.key)),
                stranger.line,
            ));
        }
        for key in ["defaults", "aliases"] {
            if let Some(node) = self.node.get(key)
                && !matches!(node.value, Value::List(_) | Value::Null)
            {
                return Err(self.wrong(format!("`{key}` of the kuberc is not a list"), node.line));
            }
        }
        let name = match self.node.get(POLICY) {
            None => "",
            Some(node) => self.text(node, POLICY)?,
        };
        let place = self.node.get(POLICY).map_or(self.node.line, |n| n.line);
        Policy::new(name, self.allowlist()?)
            .map_err(|error| Unread::Wrong(error, self.line + place))
    }

    fn allowlist(&self) -> Result<Option<Vec<String>>, Unread> {
        let Some(list) = self.node.get(ALLOWLIST) else {
            return Ok(None);
        };
        match &list.value {
            Value::Null => Ok(None),
            Value::List(items) => {
                items.iter().map(|item| self.entry(item)).collect::<Result<_, _>>().map(Some)
            }
            _ => Err(self.wrong(format!("`{ALLOWLIST}` is not a list"), list.line)),
        }
    }

    /// One entry: `command`, or `name`, its deprecated alias; both only if they are equal (PP-19).
    fn entry(&self, item: &Node) -> Result<String, Unread> {
        let entries: &[Entry] = match &item.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            _ => {
                return Err(self.wrong(
                    format!("an entry of `{ALLOWLIST}` is not a mapping with `command`"),
                    item.line,
                ));
            }
        };
        let (mut name, mut command) = ("", "");
        for entry in entries {
            match entry.key.as_str() {
                "name" => name = self.text(&entry.value, "name")?,
                "command" => command = self.text(&entry.value, "command")?,
                other => {
                    return Err(self.wrong(
                        format!(
                            "an entry of `{ALLOWLIST}` has an unknown field `{}`",
                            inline(other)
                        ),
                        entry.line,
                    ));
                }
            }
        }
        match (name, command) {
            (name, "") => Ok(name.to_owned()),
            (name, command) if name.is_empty() || name == command => Ok(command.to_owned()),
            _ => Err(self.wrong(
                format!("an entry of `{ALLOWLIST}` has a `name` and another `command`"),
                item.line,
            )),
        }
    }

    fn text<'a>(&self, node: &'a Node, field: &str) -> Result<&'a str, Unread> {
        match &node.value {
            Value::Text(text) => Ok(text),
            Value::Null => Ok(""),
            _ => Err(self.wrong(format!("`{field}` of the kuberc is not a text"), node.line)),
        }
    }

    fn wrong(&self, what: impl Into<String>, line: u32) -> Unread {
        wrong(what, self.line + line)
    }
}

fn wrong(what: impl Into<String>, line: u32) -> Unread {
    Unread::Wrong(Error::new(Kind::BadConfig, what), line)
}
