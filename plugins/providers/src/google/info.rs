//! A file of credentials, and the objects in it.

use std::path::{Path, PathBuf};

use keyward_plugin::Refusal;
use keyward_process::file::{self, Limits};
use keyward_protocol::text::inline;
use serde_json::Value;

use crate::store::digest_of;

/// The largest file of credentials.
const LIMITS: Limits = Limits::NAMED.at_most(1 << 20);

/// An object in a file of credentials. Its errors name the file and the member, never a value.
pub(super) struct Info {
    path: PathBuf,
    /// Where in the file it is, such as `credential_source.`.
    place: String,
    value: Value,
}

impl Info {
    /// Reads a file, and a digest of it.
    pub(super) fn read(path: &Path) -> Result<(Self, String), Refusal> {
        let shown = inline(&path.display().to_string());
        let bytes = file::read(path, &LIMITS).map_err(|error| {
            Refusal::BadConfig(format!("cannot read `{shown}`: {}", file::reason(&error)))
        })?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
            Refusal::BadConfig(format!("`{shown}` is no JSON (line {})", error.line()))
        })?;
        if !value.is_object() {
            return Err(Refusal::BadConfig(format!("`{shown}` is not a JSON object")));
        }
        let info = Self { path: path.to_owned(), place: String::new(), value };
        Ok((info, digest_of(&bytes)))
    }

    /// A member that is text and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.value.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// A member that must exist.
    pub(super) fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.text(name).ok_or_else(|| self.bad(&format!("`{}{name}` is missing", self.place)))
    }

    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.value.get(name)?.as_i64()
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let items = self.value.get(name).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Members of an object that are text.
    pub(super) fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let members = self.value.get(name).and_then(Value::as_object).into_iter().flatten();
        let text = members.filter_map(|(name, value)| Some((name, value.as_str()?)));
        text.map(|(name, value)| (name.clone(), value.to_owned())).collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value.get(name).is_some_and(|value| !value.is_null())
    }

    /// An object inside this one.
    pub(super) fn object(&self, name: &str) -> Option<Self> {
        let value = self.value.get(name).filter(|value| value.is_object())?.clone();
        let place = format!("{}{name}.", self.place);
        Some(Self { path: self.path.clone(), place, value })
    }

    pub(super) fn required_object(&self, name: &str) -> Result<Self, Refusal> {
        self.object(name).ok_or_else(|| self.bad(&format!("`{}{name}` is no object", self.place)))
    }

    /// The refusal of the file, with its name and what is wrong with it.
    pub(super) fn bad(&self, why: &str) -> Refusal {
        Refusal::BadConfig(format!("`{self}`: {why}"))
    }
}

impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&inline(&self.path.display().to_string()))
    }
}
