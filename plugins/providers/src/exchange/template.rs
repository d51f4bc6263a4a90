//! Texts and JSON documents with placeholders: `{token}`, `{image}`, `{registry}`, `{repository}` and
//! `{annotation:KEY}`.
//!
//! A document is parsed before anything is filled in, and only its texts are: whatever a value contains, it stays
//! inside its text.

use http::HeaderValue;
use keyward_plugin::{ImageQuestion, Refusal};
use keyward_protocol::{Secret, text::inline};
use serde_json::Value;

/// What placeholders stand for.
pub(super) struct Facts<'a> {
    pub(super) token: &'a Secret,
    /// The kubelet's request; a kubeconfig's has no image.
    pub(super) image: Option<&'a ImageQuestion>,
}

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    flag: &'static str,
    parts: Vec<Part>,
}

/// A JSON document with placeholders in its texts.
#[derive(Debug)]
pub(super) struct Document {
    flag: &'static str,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Name),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Token,
    Image,
    Registry,
    Repository,
    Annotation(String),
}

impl Template {
    /// Parses the value of a flag. `{{` and `}}` are braces.
    pub(super) fn parse(flag: &'static str, text: &str) -> Result<Self, Refusal> {
        let bad = |why: String| Refusal::BadConfig(format!("`--{flag}`: {why}"));
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let closed = if brace == "{" { rest.split_once('}') } else { None };
            let Some((name, after)) = closed else {
                return Err(bad("a brace has no partner; a single brace is written twice".into()));
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Value(Name::parse(name).ok_or_else(|| {
                bad(format!(
                    "there is no placeholder `{{{}}}`: it is token, image, registry, repository or annotation:KEY",
                    inline(name)
                ))
            })?));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { flag, parts })
    }

    /// Parses the value of a flag in which the token has no business.
    pub(super) fn without_token(flag: &'static str, text: &str) -> Result<Self, Refusal> {
        let template = Self::parse(flag, text)?;
        if template.has_token() {
            return Err(Refusal::BadConfig(format!("`--{flag}` cannot contain the token")));
        }
        Ok(template)
    }

    pub(super) fn has_token(&self) -> bool {
        self.parts.contains(&Part::Value(Name::Token))
    }

    /// Whether the text differs between images of one registry.
    pub(super) fn names_image(&self) -> bool {
        let names = [Part::Value(Name::Image), Part::Value(Name::Repository)];
        self.parts.iter().any(|part| names.contains(part))
    }

    /// The text.
    pub(super) fn fill(&self, facts: &Facts<'_>) -> Result<String, Refusal> {
        self.fill_with(facts, |_, _| Ok(()))
    }

    /// The text as part of a path. What comes from a request cannot leave its place in it.
    pub(super) fn fill_path(&self, facts: &Facts<'_>) -> Result<String, Refusal> {
        let path = self.fill_with(facts, |name, value| {
            let slash = matches!(name, Name::Image | Name::Repository);
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
            let good = value.bytes().all(|b| plain(b) || (slash && b == b'/'));
            if good && !value.is_empty() {
                return Ok(());
            }
            Err(Refusal::NotAllowed(format!(
                "`--{}`: `{}` cannot be part of a path",
                self.flag,
                inline(value)
            )))
        })?;
        let path = path.trim_matches('/');
        let bad = |segment: &str| matches!(segment, "" | "." | "..");
        let strange = |b: u8| !b.is_ascii_graphic() || b"?#%\\\"<>^`{|}".contains(&b);
        if path.split('/').any(bad) || path.bytes().any(strange) {
            return Err(Refusal::BadConfig(format!(
                "`--{}`: `{}` is not a path",
                self.flag,
                inline(path)
            )));
        }
        Ok(path.to_owned())
    }

    /// The text as scopes. Blanks separate scopes, so what comes from a request cannot have one.
    pub(super) fn fill_scope(&self, facts: &Facts<'_>) -> Result<String, Refusal> {
        self.fill_with(facts, |_, value| {
            if value.contains(|c: char| c.is_whitespace() || c.is_control()) {
                return Err(Refusal::NotAllowed(format!(
                    "`--{}`: `{}` has a blank, so it would be more than one scope",
                    self.flag,
                    inline(value)
                )));
            }
            Ok(())
        })
    }

    fn fill_with(
        &self,
        facts: &Facts<'_>,
        check: impl Fn(&Name, &str) -> Result<(), Refusal>,
    ) -> Result<String, Refusal> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Value(name) => {
                    let value = name.value(self.flag, facts)?;
                    check(name, value)?;
                    text.push_str(value);
                }
            }
        }
        Ok(text)
    }

    /// The text as the value of a header.
    pub(super) fn fill_header(&self, facts: &Facts<'_>) -> Result<HeaderValue, Refusal> {
        let mut value = HeaderValue::from_str(&self.fill(facts)?).map_err(|_| {
            Refusal::BadConfig(format!(
                "`--{}`: a character of the value cannot be in a header",
                self.flag
            ))
        })?;
        value.set_sensitive(self.has_token());
        Ok(value)
    }
}

impl Document {
    pub(super) fn parse(flag: &'static str, json: &[u8]) -> Result<Self, Refusal> {
        let value: Value = serde_json::from_slice(json).map_err(|error| {
            Refusal::BadConfig(format!(
                "`--{flag}` is not JSON, at line {}, column {}",
                error.line(),
                error.column()
            ))
        })?;
        let document = Self { flag, value };
        // Every fault of a text is one of the configuration.
        document.texts(&document.value, &mut |_| ())?;
        Ok(document)
    }

    pub(super) fn has_token(&self) -> bool {
        self.any(Template::has_token)
    }

    pub(super) fn names_image(&self) -> bool {
        self.any(Template::names_image)
    }

    fn any(&self, is: impl Fn(&Template) -> bool) -> bool {
        let mut found = false;
        let _ = self.texts(&self.value, &mut |template| found |= is(template));
        found
    }

    fn texts(&self, value: &Value, seen: &mut impl FnMut(&Template)) -> Result<(), Refusal> {
        match value {
            Value::String(text) => {
                seen(&Template::parse(self.flag, text)?);
                Ok(())
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.texts(item, seen)),
            Value::Object(map) => map.values().try_for_each(|item| self.texts(item, seen)),
            _ => Ok(()),
        }
    }

    /// The document in bytes.
    pub(super) fn fill(&self, facts: &Facts<'_>) -> Result<Vec<u8>, Refusal> {
        let mut value = self.value.clone();
        self.fill_value(&mut value, facts)?;
        Ok(value.to_string().into_bytes())
    }

    fn fill_value(&self, value: &mut Value, facts: &Facts<'_>) -> Result<(), Refusal> {
        match value {
            Value::String(text) => *text = Template::parse(self.flag, text)?.fill(facts)?,
            Value::Array(items) => {
                items.iter_mut().try_for_each(|item| self.fill_value(item, facts))?;
            }
            Value::Object(map) => {
                map.values_mut().try_for_each(|item| self.fill_value(item, facts))?;
            }
            _ => (),
        }
        Ok(())
    }
}

impl Name {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "token" => Some(Self::Token),
            "image" => Some(Self::Image),
            "registry" => Some(Self::Registry),
            "repository" => Some(Self::Repository),
            _ => {
                let key = name.strip_prefix("annotation:").filter(|key| !key.is_empty())?;
                Some(Self::Annotation(key.to_owned()))
            }
        }
    }

    fn value<'a>(&self, flag: &str, facts: &Facts<'a>) -> Result<&'a str, Refusal> {
        let request = || {
            facts.image.ok_or_else(|| {
                Refusal::BadConfig(format!(
                    "`--{flag}` has a placeholder for the kubelet's request, and there is none"
                ))
            })
        };
        match self {
            Self::Token => Ok(facts.token.expose()),
            Self::Image => Ok(request()?.image()),
            Self::Registry => Ok(request()?.registry()),
            Self::Repository => {
                Ok(request()?.image().split_once('/').map_or("", |(_, repository)| repository))
            }
            Self::Annotation(key) => request()?.require_annotation(key),
        }
    }
}
