//! The stanza of one user: its content and position, and the changes that wrap it.

use std::ops::Range;

use keyward_host::kubeconfig::Exec;
use keyward_protocol::{
    Node,
    node::{Place, Value},
};

use super::{
    Document, Part, Pin, Refusal, Splice, Wrapping, hint, inner, is_wrapper, refuse, variable,
};
use crate::record::{quoted, text};

/// The `exec` stanza of a user.
pub(super) struct Site<'a> {
    document: &'a Document<'a>,
    pub(super) user: String,
    pub(super) index: usize,
    pub(super) command: String,
    /// The arguments; `None` if there is no such key.
    pub(super) args: Option<Vec<String>>,
    pub(super) hint: String,
    pub(super) variables: Vec<String>,
    /// The mapping, with aliases resolved.
    exec: Place,
    /// Where its key begins.
    key: Option<usize>,
    line: u32,
}

impl<'a> Site<'a> {
    /// The stanza of the user at `index`, if it exists and its fields have the right types.
    pub(super) fn find(document: &'a Document<'a>, index: usize, node: &Node) -> Option<Self> {
        let exec = node.get("user")?.get("exec")?;
        let command = text(exec.get("command")?)?;
        let args = match exec.get("args").map(|args| &args.value) {
            None | Some(Value::Null) => None,
            Some(Value::List(items)) => Some(items.iter().map(text).collect::<Option<_>>()?),
            Some(_) => return None,
        };
        let hint = match exec.get("installHint").map(|hint| &hint.value) {
            None | Some(Value::Null) => String::new(),
            Some(Value::Text(hint)) => hint.as_str().to_owned(),
            Some(_) => return None,
        };
        let variables = match exec.get("env").map(|env| &env.value) {
            Some(Value::List(items)) => items.iter().filter_map(|v| text(v.get("name")?)).collect(),
            _ => Vec::new(),
        };
        let user = node.get("name").and_then(text).unwrap_or_default();
        let layout = &document.layout;
        // A merge key may bring it from elsewhere; then every change is refused.
        let parent = document.user_fields(index);
        let key = parent.and_then(|parent| document.key_and_value(parent, "exec"));
        let key = key.map(|range| range.start);
        let exec = parent.and_then(|parent| layout.entry(parent, "exec"));
        let exec = layout.follow(exec.map_or(layout.root(), |(_, exec)| exec));
        let line = node.line;
        Some(Self { document, user, index, command, args, hint, variables, exec, key, line })
    }

    pub(super) fn is_wrapped(&self) -> bool {
        let args = self.args.as_deref().unwrap_or_default();
        is_wrapper(&self.command) && args.len() > 1 && args[0] == "--"
    }

    /// The changes that wrap the stanza.
    pub(super) fn splices(&self, wrapping: &Wrapping<'_>) -> Result<Vec<Splice>, Refusal> {
        let inner = inner(&self.user, &self.command, wrapping);
        let lead = [quoted("--"), quoted(&inner)];
        let pins: Vec<_> = self.pins(wrapping).map(|pin| variable(&pin.name, &pin.value)).collect();
        let (key, command) = self.command_entry()?;
        let (mut keys, mut splices) = (Vec::new(), Vec::new());
        match self.entry("args") {
            None => keys.push(format!("args: [{}]", lead.join(", "))),
            Some(args) => splices.push(self.lead_list(Part::Args, args, &lead)?),
        }
        let hint = quoted(&hint(&self.hint));
        match self.entry("installHint") {
            None => keys.push(format!("installHint: {hint}")),
            Some(place) => splices.push(self.replace(Part::Hint, place, hint)?),
        }
        if !pins.is_empty() {
            match self.entry("env") {
                None => keys.push(format!("env: [{}]", pins.join(", "))),
                Some(env) => splices.push(self.lead_list(Part::Env, env, &pins)?),
            }
        }
        if !keys.is_empty() {
            splices.push(self.add_keys(key, &keys));
        }
        let wrapper = scalar(self.document, wrapping.wrapper);
        splices.push(self.replace(Part::Command, command, wrapper)?);
        Ok(splices)
    }

    /// The variables to add to this stanza.
    pub(super) fn pins<'w>(&self, wrapping: &Wrapping<'w>) -> impl Iterator<Item = &'w Pin> {
        let own = |pin: &&Pin| pin.user == self.user && !self.variables.contains(&pin.name);
        wrapping.pins.iter().filter(own)
    }

    /// Key and value of the command.
    fn command_entry(&self) -> Result<(Place, Place), Refusal> {
        let entry = self.document.layout.entry(self.exec, "command");
        entry
            .ok_or_else(|| refuse(self.line, &self.user, "its command is not in the stanza itself"))
    }

    fn entry(&self, key: &str) -> Option<Place> {
        let layout = &self.document.layout;
        layout.entry(self.exec, key).map(|(_, value)| layout.follow(value))
    }

    /// New keys go before the command: that position exists in every style.
    fn add_keys(&self, key: Place, keys: &[String]) -> Splice {
        let document = self.document;
        let start = document.layout.span(self.exec).start;
        let (at, new) = if document.bytes.get(start) == Some(&b'{') {
            let name = |key: &String| match key.split_once(": ") {
                Some((name, value)) => format!("{}: {value}", quoted(name)),
                None => key.clone(),
            };
            (start + 1, keys.iter().map(|key| name(key) + ", ").collect())
        } else {
            let at = document.layout.span(key).start;
            let next = document.next_line(at);
            (at, keys.join(&next) + &next)
        };
        self.change(Part::Keys, key, at..at, new)
    }

    /// Inserts items at the front of a list, or a new list where there was none.
    fn lead_list(&self, part: Part, place: Place, lead: &[String]) -> Result<Splice, Refusal> {
        let document = self.document;
        let Some(items) = document.layout.items(place) else {
            return self.replace(part, place, format!("[{}]", lead.join(", ")));
        };
        let start = document.layout.span(place).start;
        let (at, new) = match document.bytes.get(start) {
            Some(b'[') => {
                let comma = if items.is_empty() { "" } else { ", " };
                (start + 1, lead.join(", ") + comma)
            }
            Some(b'-') => {
                let next = document.next_line(start);
                (start, format!("- {}{next}", lead.join(&format!("{next}- "))))
            }
            _ => {
                let line = document.layout.line(place);
                return Err(refuse(line, &self.user, "the list has an unusual form"));
            }
        };
        Ok(self.change(part, place, at..at, new))
    }

    /// Replaces a scalar, or adds one where there was none.
    fn replace(&self, part: Part, place: Place, new: String) -> Result<Splice, Refusal> {
        let layout = &self.document.layout;
        let place = layout.follow(place);
        if !layout.is_scalar(place) {
            return Err(refuse(layout.line(place), &self.user, "a string was expected"));
        }
        let range = layout.span(place);
        let old = self.document.bytes.get(range.clone()).unwrap_or_default();
        let new = match header_comment(old) {
            Some(comment) => format!("{new} {comment}"),
            None if range.is_empty() => format!(" {new}"),
            None => new,
        };
        Ok(self.change(part, place, range, new))
    }

    /// A change at the line of `place`.
    fn change(&self, part: Part, place: Place, range: Range<usize>, new: String) -> Splice {
        let line = self.document.layout.line(place);
        Splice { user: self.user.clone(), part, range, new, line }
    }

    /// The changes that unwrap the stanza without a journal.
    pub(super) fn unsplices(&self) -> Result<Vec<Splice>, Refusal> {
        let document = self.document;
        let (_, command) = self.command_entry()?;
        let own = self.args.as_deref().unwrap_or_default().get(1).cloned().unwrap_or_default();
        let mut splices = vec![self.replace(Part::Command, command, scalar(document, &own))?];
        if let Some(rest) = self.hint.strip_prefix(Exec::WRAPPER_HINT)
            && let Some(place) = self.entry("installHint")
        {
            splices.push(self.replace(Part::Hint, place, quoted(rest.trim_start()))?);
        }
        let args = self.entry("args");
        let items = args.and_then(|args| Some((args, document.layout.items(args)?)));
        let Some((args, items)) = items else {
            let why = "its arguments are not in the stanza itself";
            return Err(refuse(self.line, &self.user, why));
        };
        let list = document.layout.span(args);
        let (range, new) = match (document.bytes.get(list.start), items.get(2)) {
            (Some(b'['), Some(third)) => (list.start + 1..document.layout.span(*third).start, ""),
            // A JSON list's end is not recorded.
            (Some(b'['), None) => (list.start + 1..document.closing(items[1]), ""),
            (_, Some(third)) => (list.start..document.dash_before(*third), ""),
            (_, None) => (list, "[]"),
        };
        splices.push(self.change(Part::Args, args, range, new.to_owned()));
        Ok(splices)
    }

    /// Where an edit of a wrapped stanza may be now, in a kubeconfig that changed elsewhere.
    pub(super) fn candidates(&self, part: Part, width: usize) -> Vec<usize> {
        let layout = &self.document.layout;
        let start = |key: &str| self.entry(key).map(|place| layout.span(place).start);
        let around = |at: usize| vec![at, at + 1, at.saturating_sub(1)];
        match part {
            Part::Command => start("command").into_iter().collect(),
            Part::Args => start("args").map(around).unwrap_or_default(),
            Part::Hint => start("installHint").map(around).unwrap_or_default(),
            Part::Env => start("env").map(around).unwrap_or_default(),
            Part::Provider => self.key.into_iter().collect(),
            Part::Helper => Vec::new(),
            Part::Keys => {
                let key = layout.entry(self.exec, "command").map(|(key, _)| layout.span(key).start);
                let before = key.and_then(|key| key.checked_sub(width));
                before.into_iter().chain([layout.span(self.exec).start + 1]).collect()
            }
        }
    }
}

impl Document<'_> {
    /// The mapping with what the user at `index` has.
    pub(super) fn user_fields(&self, index: usize) -> Option<Place> {
        let item = self.layout.follow(*self.users.get(index)?);
        self.layout.entry(item, "user").map(|(_, fields)| self.layout.follow(fields))
    }

    /// A line break and the indentation of the text at `at`.
    pub(super) fn next_line(&self, at: usize) -> String {
        let before = self.bytes.get(..at).unwrap_or_default();
        let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let indent = String::from_utf8_lossy(&before[line..]).chars().count();
        let end = self.bytes[at..].iter().position(|byte| *byte == b'\n').map(|end| at + end);
        let carriage = end.is_some_and(|end| self.bytes[..end].ends_with(b"\r"));
        let ending = if carriage { "\r\n" } else { "\n" };
        // A byte order mark has no width.
        let marked = line == 0 && before.starts_with("\u{feff}".as_bytes());
        format!("{ending}{}", " ".repeat(indent - usize::from(marked)))
    }

    /// The bracket that closes a list after its last item.
    fn closing(&self, last: Place) -> usize {
        let end = self.layout.span(last).end;
        let rest = self.bytes.get(end..).unwrap_or_default();
        end + rest.iter().position(|byte| *byte == b']').unwrap_or(0)
    }

    /// The dash of an item of a block list.
    fn dash_before(&self, place: Place) -> usize {
        let start = self.layout.span(place).start;
        self.bytes[..start].iter().rposition(|byte| *byte == b'-').unwrap_or(start)
    }
}

/// The comment behind the `|` or `>` of a block scalar, which lies inside of what is replaced.
fn header_comment(scalar: &[u8]) -> Option<&str> {
    let scalar = std::str::from_utf8(scalar).ok()?;
    let header = scalar.strip_prefix(['|', '>'])?;
    let line = header.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).next()?;
    Some(line[line.find('#')?..].trim_end())
}

/// A path in the file's style: unquoted only in YAML, and only if it cannot be misread.
pub(super) fn scalar(document: &Document<'_>, text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let simple = text.starts_with('/') && text.chars().all(plain);
    let json = document.bytes.trim_ascii_start().starts_with(b"{");
    if simple && !json { text.to_owned() } else { quoted(text) }
}
