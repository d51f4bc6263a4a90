//! The `auth-provider` of one user, and the `exec` stanza that takes its place.

use std::ops::Range;

use keyward_host::kubeconfig::Exec;
use keyward_protocol::{
    Node, Secret,
    node::{Entry, Place, Value},
};

use super::{
    Document, Part, Refusal, Splice, Wrapping,
    native::{Conversion, Native, of_auth_provider},
    refuse,
    site::scalar,
    variable,
};
use crate::record::{list, quoted, text};

const KEY: &str = "auth-provider";
const VERSION: &str = "client.authentication.k8s.io/v1";
const MODE: &str = "IfAvailable";

/// The `auth-provider` of a user that has a provider of ours.
pub(super) struct ProviderSite<'a> {
    pub(super) user: String,
    pub(super) index: usize,
    native: &'a Native,
    conversion: Conversion,
    /// The mapping that contains it.
    parent: Place,
    line: u32,
}

impl<'a> ProviderSite<'a> {
    /// The `auth-provider` of the user at `index`, if it is to be replaced.
    pub(super) fn find(
        document: &Document<'_>,
        index: usize,
        node: &Node,
        wrapping: &Wrapping<'a>,
    ) -> Result<Option<Self>, Refusal> {
        let user = node.get("name").and_then(text).unwrap_or_default();
        let Some(native) = wrapping.natives.iter().find(|native| native.user == user) else {
            return Ok(None);
        };
        let fields = node.get("user");
        let Some(provider) = fields.and_then(|fields| fields.get(KEY)) else { return Ok(None) };
        if fields.is_some_and(|fields| fields.get("exec").is_some()) {
            return Err(refuse(node.line, &user, "it has both `exec` and `auth-provider`"));
        }
        let name = provider.get("name").and_then(text).unwrap_or_default();
        let config = config(provider).ok_or_else(|| {
            refuse(provider.line, &user, "its `config` has values that are no text")
        })?;
        let conversion =
            of_auth_provider(&name, &config).map_err(|why| refuse(provider.line, &user, why))?;
        let parent = document.user_fields(index).unwrap_or(document.layout.root());
        Ok(Some(Self { user, index, native, conversion, parent, line: provider.line }))
    }

    /// The change that replaces it.
    pub(super) fn splice(
        &self,
        document: &Document<'_>,
        wrapping: &Wrapping<'_>,
    ) -> Result<Splice, Refusal> {
        let place = document.key_and_value(self.parent, KEY);
        let range = place.ok_or_else(|| {
            refuse(self.line, &self.user, "its `auth-provider` is not in the entry itself")
        })?;
        let flow = document.bytes.get(document.layout.span(self.parent).start) == Some(&b'{');
        let new =
            if flow { self.flow(wrapping) } else { self.block(document, wrapping, range.start) };
        let (user, line) = (self.user.clone(), self.line);
        Ok(Splice { user, part: Part::Provider, range, new, line })
    }

    /// The arguments of the wrapper.
    fn args(&self) -> Vec<String> {
        let lead = ["--".to_owned(), self.native.command.clone()];
        lead.into_iter().chain(self.conversion.args.iter().cloned()).collect()
    }

    fn variables(&self) -> Vec<String> {
        self.conversion.env.iter().map(|(name, value)| variable(name, value.expose())).collect()
    }

    fn block(&self, document: &Document<'_>, wrapping: &Wrapping<'_>, at: usize) -> String {
        let next = document.next_line(at);
        let mut lines = vec![
            "exec:".to_owned(),
            format!("  apiVersion: {VERSION}"),
            format!("  command: {}", scalar(document, wrapping.wrapper)),
            "  args:".to_owned(),
        ];
        lines.extend(self.args().iter().map(|arg| format!("  - {}", quoted(arg))));
        if !self.conversion.env.is_empty() {
            lines.push("  env:".to_owned());
            lines.extend(self.variables().into_iter().map(|variable| format!("  - {variable}")));
        }
        lines.push(format!("  installHint: {}", quoted(Exec::WRAPPER_HINT)));
        lines.push(format!("  interactiveMode: {MODE}"));
        lines.join(&next)
    }

    fn flow(&self, wrapping: &Wrapping<'_>) -> String {
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        let args = list(self.args().iter().map(|arg| quoted(arg)).collect());
        let env = if self.conversion.env.is_empty() {
            String::new()
        } else {
            format!("\"env\": {}, ", list(self.variables()))
        };
        format!(
            "\"exec\": {{\"apiVersion\": {}, \"command\": {}, \"args\": {args}, {env}\"installHint\": {}, \
             \"interactiveMode\": {}}}",
            quoted(VERSION),
            quoted(wrapping.wrapper),
            quoted(Exec::WRAPPER_HINT),
            quoted(MODE)
        )
    }

    /// Checks the stanza in the result, and puts the original back in its place. `None` if it is wrong.
    pub(super) fn restore(
        &self,
        wrapping: &Wrapping<'_>,
        own: &Node,
        new: &mut Node,
    ) -> Option<()> {
        let exec = new.get("exec")?;
        let is = |key: &str, value: &str| exec.get(key).and_then(text).as_deref() == Some(value);
        let variable = |item: &Node| Some((text(item.get("name")?)?, text(item.get("value")?)?));
        let env = match exec.get("env") {
            Some(env) => list(env, variable)?,
            None => Vec::new(),
        };
        let wanted = self.conversion.env.iter();
        let wanted: Vec<_> =
            wanted.map(|(name, value)| ((*name).to_owned(), value.expose().to_owned())).collect();
        let right = is("apiVersion", VERSION)
            && is("command", wrapping.wrapper)
            && is("installHint", Exec::WRAPPER_HINT)
            && is("interactiveMode", MODE)
            && list(exec.get("args")?, text)? == self.args()
            && env == wanted;
        let original = own.get(KEY)?.clone();
        let Value::Map(entries) = &mut new.value else { return None };
        let entry: &mut Entry = entries.iter_mut().rfind(|entry| entry.key == "exec")?;
        KEY.clone_into(&mut entry.key);
        entry.value = original;
        right.then_some(())
    }
}

impl Document<'_> {
    /// The bytes of an entry of a mapping, from its key to the end of its value.
    pub(super) fn key_and_value(&self, parent: Place, name: &str) -> Option<Range<usize>> {
        let (key, value) = self.layout.entry(parent, name)?;
        let (key, value) = (self.layout.span(key), self.layout.span(value));
        if !key.is_empty() {
            return (value.end > key.end).then_some(key.start..value.end);
        }
        // In JSON, keys have no place, and only scalars have an end.
        let quoted = quoted(name);
        let before = self.bytes.get(..value.start)?;
        let before = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
        let start = before.strip_suffix(quoted.as_bytes())?.len();
        Some(start..closing_brace(self.bytes, value.start)?)
    }
}

/// The end of the JSON object that begins at `start`.
fn closing_brace(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The settings, if all of them are texts.
fn config(provider: &Node) -> Option<Vec<(String, Secret)>> {
    let Some(config) = provider.get("config") else { return Some(Vec::new()) };
    match &config.value {
        Value::Null => Some(Vec::new()),
        Value::Map(entries) => entries
            .iter()
            .map(|entry| Some((entry.key.clone(), Secret::new(text(&entry.value)?))))
            .collect(),
        _ => None,
    }
}
