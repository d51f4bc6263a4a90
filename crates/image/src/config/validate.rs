//! The kubelet's rules for a decoded configuration.

use std::{collections::HashMap, path::Path};

use keyward_protocol::{image::Version, text};

use super::{Class, Draft, DraftTokens, Files, Problem, Said};
use crate::Pattern;

/// Finds providers with the same name, even in different files.
pub(super) fn names(drafts: &[Draft]) -> Vec<Problem> {
    let mut seen: HashMap<&str, &Draft> = HashMap::new();
    let mut problems = Vec::new();
    for draft in drafts {
        let Some(first) = seen.insert(&draft.name.value, draft) else { continue };
        let message = format!("is also the name of another provider ({})", first.place);
        let mut judge = Judge { draft, problems: &mut problems };
        judge.add(Class::DuplicateProvider, draft.name.line, ".name", message);
    }
    problems
}

/// Finds all other problems. A configuration without providers is not valid either.
pub(super) fn all(drafts: &[Draft], files: &Files) -> Vec<Problem> {
    if drafts.is_empty() {
        let file = files.iter().next().map_or(Path::new(""), |(path, _)| path);
        let message = "must have at least one provider";
        return vec![Problem::new(Class::Required, file, 1, "providers", message)];
    }
    let mut problems = Vec::new();
    for draft in drafts {
        Judge { draft, problems: &mut problems }.judge();
    }
    problems
}

struct Judge<'a> {
    draft: &'a Draft,
    problems: &'a mut Vec<Problem>,
}

impl Judge<'_> {
    fn judge(&mut self) {
        self.name();
        if self.draft.form.is_some() {
            self.version();
        }
        self.patterns();
        if self.draft.form.is_some() {
            self.duration();
        }
        if let Some(tokens) = &self.draft.tokens {
            self.tokens(tokens);
        }
    }

    fn name(&mut self) {
        let name = self.draft.name.value.as_str();
        let mut wrong = |message: &str| {
            self.add(Class::Invalid, self.draft.name.line, ".name", message);
        };
        if name.contains('/') {
            wrong("must not contain `/`: it is the name of a file in the directory of providers");
        }
        if name.contains(' ') {
            wrong("must not contain a space");
        }
        if matches!(name, "." | "..") {
            wrong("must be the name of a file, not of a directory");
        }
    }

    fn version(&mut self) {
        let version = &self.draft.api_version;
        let field = ".apiVersion";
        if version.value.is_empty() {
            self.add(Class::Required, version.line, field, "is missing");
        } else if Version::parse(&version.value).is_none() {
            let known = Version::ALL.map(|v| format!("`{}`", v.api_version())).join(", ");
            let found = text::clean(&version.value);
            let message = format!("is `{found}` and must be one of {known}");
            self.add(Class::NotSupported, version.line, field, message);
        }
    }

    fn patterns(&mut self) {
        let field = if self.draft.form.is_some() { ".matchImages" } else { ".imageMatchers" };
        if self.draft.patterns.value.is_empty() {
            let message = "must have at least one pattern";
            self.add(Class::Required, self.draft.patterns.line, field, message);
        }
        for pattern in &self.draft.patterns.value {
            if let Err(error) = Pattern::parse(&pattern.value) {
                let message = format!("has `{}`, which is {error}", text::clean(&pattern.value));
                self.add(Class::Invalid, pattern.line, field, message);
            }
        }
    }

    fn duration(&mut self) {
        let field = ".defaultCacheDuration";
        match &self.draft.duration {
            None => {
                let message = "is missing; `0s` means not to cache answers without a duration";
                self.add(Class::Required, self.draft.place.line, field, message);
            }
            Some(duration) if duration.value < 0 => {
                self.add(Class::Invalid, duration.line, field, "must not be negative");
            }
            Some(_) => {}
        }
    }

    fn tokens(&mut self, said: &Said<DraftTokens>) {
        let tokens = &said.value;
        let field = |name: &str| format!(".tokenAttributes{name}");
        let line = |said: u32, or: u32| if said == 0 { or } else { said };
        if tokens.audience.value.is_empty() {
            let line = line(tokens.audience.line, said.line);
            let at = field(".serviceAccountTokenAudience");
            self.add(Class::Required, line, at, "is missing");
        }
        if tokens.require.is_none() {
            let message =
                "is missing: it decides whether pods without a service account are skipped";
            self.add(Class::Required, said.line, field(".requireServiceAccount"), message);
        }
        if Version::parse(&self.draft.api_version.value) != Some(Version::V1) {
            let message = format!("needs `apiVersion: {}`", Version::V1.api_version());
            self.add(Class::Forbidden, said.line, field(""), message);
        }
        if tokens.require == Some(false) && !tokens.required.value.is_empty() {
            let message = "needs `requireServiceAccount: true`";
            let at = field(".requiredServiceAccountAnnotationKeys");
            self.add(Class::Forbidden, tokens.required.line, at, message);
        }
        self.keys(&tokens.required, &field(".requiredServiceAccountAnnotationKeys"));
        self.keys(&tokens.optional, &field(".optionalServiceAccountAnnotationKeys"));
        let optional =
            |key: &Said<String>| tokens.optional.value.iter().any(|other| other.value == key.value);
        if let Some(key) = tokens.required.value.iter().find(|key| optional(key)) {
            let shown = text::clean(&key.value);
            let message = format!("has `{shown}` both as required and as optional");
            self.add(Class::Invalid, key.line, field(""), message);
        }
        let cache = line(tokens.cache.line, said.line);
        match tokens.cache.value.as_str() {
            "Token" | "ServiceAccount" => {}
            "" => {
                let message = "is missing: `Token` or `ServiceAccount`";
                self.add(Class::Required, cache, field(".cacheType"), message);
            }
            _ => {
                let message = "must be `Token` or `ServiceAccount`";
                self.add(Class::NotSupported, cache, field(".cacheType"), message);
            }
        }
    }

    fn keys(&mut self, keys: &Said<Vec<Said<String>>>, field: &str) {
        for (number, key) in keys.value.iter().enumerate() {
            let shown = text::clean(&key.value);
            for wrong in qualified_name(&lower(&key.value)) {
                let message = format!("has `{shown}`, which is not an annotation key: {wrong}");
                self.add(Class::Invalid, key.line, field, message);
            }
            if keys.value[..number].iter().any(|earlier| earlier.value == key.value) {
                let message = format!("has `{shown}` twice");
                self.add(Class::Duplicate, key.line, field, message);
            }
        }
    }

    fn add(&mut self, class: Class, line: u32, field: impl AsRef<str>, message: impl Into<String>) {
        let field = format!("{}{}", self.draft.field, field.as_ref());
        let file = self.draft.place.file.as_deref().unwrap_or(Path::new(""));
        self.problems.push(Problem::new(class, file, line, field, message));
    }
}

/// What is wrong with an annotation key: `[prefix/]name`.
fn qualified_name(key: &str) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => return vec!["it has more than one `/`"],
        Some((prefix, name)) => {
            if prefix.is_empty() {
                wrong.push("there is nothing before the `/`");
            } else {
                if prefix.len() > 253 {
                    wrong.push("the part before the `/` is longer than 253 characters");
                }
                if !prefix.split('.').all(is_label) {
                    wrong.push("the part before the `/` is not a DNS name");
                }
            }
            name
        }
    };
    if name.is_empty() {
        wrong.push("it has no name");
    } else if name.len() > 63 {
        wrong.push("its name is longer than 63 characters");
    }
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if !(bytes.iter().all(|b| inner(*b)) && ends(bytes.first()) && ends(bytes.last())) {
        wrong.push("it must consist of letters, digits, `-`, `_` and `.`, with a letter or digit at both ends");
    }
    wrong
}

/// Lower-case letters, one for one as in the reference.
fn lower(text: &str) -> String {
    let one = |letter: char| match letter {
        '\u{130}' => 'i',
        letter => letter.to_lowercase().next().unwrap_or(letter),
    };
    text.chars().map(one).collect()
}

fn is_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    let end = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    end(bytes.first())
        && end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}
