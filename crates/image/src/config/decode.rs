//! Decodes bytes into drafts: strictly, and with every problem rather than the first.

use std::{path::Path, sync::Arc};

use keyward_protocol::{
    Node, Secret, duration,
    image::Version,
    node::{DecodeError, Entry, Repeat, SyntaxError, Value},
    text::{clean, same_name},
};

use super::{Class, Draft, DraftTokens, Files, Problem, Said, kinds, proposal};
use keyward_host::kubeconfig::Place;

/// Decodes all files, and collects their problems.
pub(super) fn all(files: &Files) -> (Vec<Draft>, Vec<Problem>) {
    let (mut drafts, mut problems) = (Vec::new(), Vec::new());
    for (path, bytes) in files.iter() {
        drafts.extend(file(path, bytes, &mut problems));
    }
    (drafts, problems)
}

/// Decodes one file. Its problems go to `problems`.
fn file(path: &Arc<Path>, bytes: &[u8], problems: &mut Vec<Problem>) -> Vec<Draft> {
    let mut decoder = Decoder { path, hard: Vec::new(), strict: Vec::new() };
    let drafts = decoder.file(bytes);
    // Problems that make a file undecodable come before values that are not allowed, as in the
    // reference.
    problems.append(&mut decoder.hard);
    problems.append(&mut decoder.strict);
    drafts
}

pub(super) struct Decoder<'p> {
    path: &'p Arc<Path>,
    hard: Vec<Problem>,
    strict: Vec<Problem>,
}

impl Decoder<'_> {
    fn file(&mut self, bytes: &[u8]) -> Vec<Draft> {
        let (root, repeats) = match Node::from_json_or_yaml_strictly(bytes) {
            Ok(read) => read,
            Err(error) => {
                self.syntax(bytes, &error);
                return Vec::new();
            }
        };
        let Some(dialect) = self.dialect(&root, !repeats.is_empty()) else { return Vec::new() };
        for Repeat { key, line, first } in repeats {
            let message = format!("is repeated; the first is in line {first}");
            self.strict(line, key, message);
        }
        if matches!(dialect, Form::Internal)
            && let Some(providers) = root.get("Providers")
        {
            // Its name in that version; a wrong type makes the file undecodable.
            self.list(providers, "Providers");
        }
        let mut drafts = Vec::new();
        let known: &[&str] = match dialect {
            Form::Internal => &["apiVersion", "kind"],
            _ => &["apiVersion", "kind", "providers"],
        };
        for entry in self.fields(&root, "", known) {
            if entry.key == "providers" {
                for (number, item) in self.list(&entry.value, "providers").iter().enumerate() {
                    let field = format!("providers[{number}]");
                    drafts.push(match dialect {
                        Form::Kubelet(version) => self.provider(item, &field, version),
                        Form::Proposal => proposal::provider(self, item, &field),
                        Form::Internal => continue,
                    });
                }
            }
        }
        drafts
    }

    /// Reports a syntax error, and how to fix an unquoted `*`.
    fn syntax(&mut self, bytes: &[u8], error: &SyntaxError) {
        let line = usize::try_from(error.line).unwrap_or_default().saturating_sub(1);
        let text = bytes.split(|b| *b == b'\n').nth(line).unwrap_or_default();
        let message = if begins_with_star(&String::from_utf8_lossy(text)) {
            "a pattern that begins with `*` needs quotes: a bare `*` is an alias in YAML".to_owned()
        } else {
            format!("the file is not valid: {}, column {}", error.what, error.column)
        };
        self.hard(error.line, "", message);
    }

    /// The form of the file, by kind and version.
    fn dialect(&mut self, root: &Node, repeats: bool) -> Option<Form> {
        if root.is_null() {
            self.hard(root.line, "", "the file is empty");
            return None;
        }
        if !matches!(root.value, Value::Map(_)) {
            self.hard(root.line, "", "the file must be a mapping");
            return None;
        }
        let (kind, kind_line) = self.folded(root, "kind")?;
        let (version, version_line) = self.folded(root, "apiVersion")?;
        match (kind, version) {
            ("CredentialProviderConfig", version) => {
                let form = match version.strip_prefix("kubelet.config.k8s.io/") {
                    Some("__internal") => Some(Form::Internal),
                    name => Version::ALL
                        .into_iter()
                        .find(|known| Some(known.name()) == name)
                        .map(Form::Kubelet),
                };
                if form.is_none() {
                    let message = "must be `kubelet.config.k8s.io/v1`, `…/v1beta1` or `…/v1alpha1`";
                    self.hard(version_line, "apiVersion", message);
                }
                form
            }
            ("RegistryCredentialConfig" | "credentialprovider", "v1alpha1") => Some(Form::Proposal),
            ("RegistryCredentialConfig" | "credentialprovider", _) => {
                let message = "must be `v1alpha1` for a file of this kind";
                self.hard(version_line, "apiVersion", message);
                None
            }
            _ => {
                let message = "must be `CredentialProviderConfig`";
                if kinds::has_unknown_field(kind, version, root)
                    .is_some_and(|unknown| unknown || repeats)
                {
                    self.strict(kind_line, "kind", message);
                } else {
                    self.hard(kind_line, "kind", message);
                }
                None
            }
        }
    }

    /// The text of a field, found without regard to case: the reference finds kind and version this
    /// way before it rejects the wrong spelling.
    fn folded<'n>(&mut self, root: &'n Node, field: &str) -> Option<(&'n str, u32)> {
        let mut found = ("", root.line);
        let lower = field.to_ascii_lowercase();
        for entry in root.entries().iter().filter(|entry| same_name(&entry.key, &lower)) {
            let text = entry.value.text(field).map_err(|error| self.mismatch(&error)).ok()?;
            found = (text.unwrap_or(found.0), entry.line);
        }
        Some(found)
    }

    fn provider(&mut self, node: &Node, field: &str, version: Version) -> Draft {
        const FIELDS: &[&str] = &[
            "name",
            "matchImages",
            "defaultCacheDuration",
            "apiVersion",
            "args",
            "env",
            "tokenAttributes",
        ];
        let known = if version == Version::V1 { FIELDS } else { &FIELDS[..FIELDS.len() - 1] };
        let mut draft = self.draft(Some(version), field, node.line);
        for entry in self.fields(node, field, known) {
            let at = format!("{field}.{}", entry.key);
            match entry.key.as_str() {
                "name" => draft.name = self.said(entry, &at),
                "apiVersion" => draft.api_version = self.said(entry, &at),
                "matchImages" => draft.patterns = self.texts(entry, &at),
                "defaultCacheDuration" => draft.duration = self.duration(entry, &at),
                "args" => {
                    let args = self.texts(entry, &at).value;
                    draft.args = args.into_iter().map(|arg| arg.value).collect();
                }
                "env" => draft.env = self.variables(&entry.value, &at),
                "tokenAttributes" if !entry.value.is_null() => {
                    let value = self.tokens(&entry.value, &at);
                    draft.tokens = Some(Said { value, line: entry.line });
                }
                _ => {}
            }
        }
        draft
    }

    pub(super) fn draft(&self, form: Option<Version>, field: &str, line: u32) -> Draft {
        Draft {
            form,
            field: field.to_owned(),
            name: Said { line, ..Said::default() },
            api_version: Said { line, ..Said::default() },
            patterns: Said { line, ..Said::default() },
            place: Place { file: Some(Arc::clone(self.path)), line },
            ..Draft::default()
        }
    }

    fn tokens(&mut self, node: &Node, field: &str) -> DraftTokens {
        const FIELDS: &[&str] = &[
            "serviceAccountTokenAudience",
            "cacheType",
            "requireServiceAccount",
            "requiredServiceAccountAnnotationKeys",
            "optionalServiceAccountAnnotationKeys",
        ];
        let mut tokens = DraftTokens::default();
        for entry in self.fields(node, field, FIELDS) {
            let at = format!("{field}.{}", entry.key);
            match entry.key.as_str() {
                "serviceAccountTokenAudience" => tokens.audience = self.said(entry, &at),
                "cacheType" => tokens.cache = self.said(entry, &at),
                "requireServiceAccount" => tokens.require = self.checked(entry.value.bool(&at)),
                "requiredServiceAccountAnnotationKeys" => tokens.required = self.texts(entry, &at),
                "optionalServiceAccountAnnotationKeys" => tokens.optional = self.texts(entry, &at),
                _ => {}
            }
        }
        tokens
    }

    /// A list of `{name, value}`.
    pub(super) fn variables(&mut self, node: &Node, field: &str) -> Vec<(String, Secret)> {
        let mut variables = Vec::new();
        for (number, item) in self.list(node, field).iter().enumerate() {
            let field = format!("{field}[{number}]");
            let (mut name, mut value) = (String::new(), Secret::default());
            for entry in self.fields(item, &field, &["name", "value"]) {
                let at = format!("{field}.{}", entry.key);
                match entry.key.as_str() {
                    "name" => self.text(&entry.value, &at).clone_into(&mut name),
                    _ => value = Secret::new(self.text(&entry.value, &at)),
                }
            }
            variables.push((name, value));
        }
        variables
    }

    fn duration(&mut self, entry: &Entry, field: &str) -> Option<Said<i64>> {
        if entry.value.is_null() {
            return None;
        }
        let Value::Text(text) = &entry.value.value else {
            let expected = "a duration such as `10m` in quotes";
            self.mismatch(&entry.value.mismatch(field, expected));
            return None;
        };
        let parsed = duration::parse(text);
        if parsed.is_none() {
            let shown = clean(text);
            let message = format!("is `{shown}`, which is not a duration such as `10m` or `1h30m`");
            self.hard(entry.value.line, field, message);
        }
        parsed.map(|value| Said { value, line: entry.line })
    }

    /// The entries of a mapping. Unknown ones are reported and left out.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n Node,
        field: &str,
        known: &[&str],
    ) -> Vec<&'n Entry> {
        let entries = self.checked(node.map(field)).unwrap_or_default();
        let mut fields = Vec::new();
        for entry in entries {
            if known.contains(&entry.key.as_str()) {
                fields.push(entry);
                continue;
            }
            let at =
                if field.is_empty() { entry.key.clone() } else { format!("{field}.{}", entry.key) };
            let message = match known.iter().find(|name| name.eq_ignore_ascii_case(&entry.key)) {
                Some(name) => format!("is not a field; did you mean `{name}`?"),
                None => unknown(&entry.key).to_owned(),
            };
            self.strict(entry.line, at, message);
        }
        fields
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, field: &str) -> &'n [Node] {
        self.checked(node.list(field)).unwrap_or_default()
    }

    pub(super) fn texts(&mut self, entry: &Entry, field: &str) -> Said<Vec<Said<String>>> {
        let items = self.list(&entry.value, field).iter().enumerate();
        let value = items
            .map(|(number, item)| Said {
                value: self.text(item, &format!("{field}[{number}]")).to_owned(),
                line: item.line,
            })
            .collect();
        Said { value, line: entry.line }
    }

    pub(super) fn said(&mut self, entry: &Entry, field: &str) -> Said<String> {
        Said { value: self.text(&entry.value, field).to_owned(), line: entry.line }
    }

    pub(super) fn text<'n>(&mut self, node: &'n Node, field: &str) -> &'n str {
        self.checked(node.text(field)).unwrap_or_default()
    }

    /// What was read; nothing, and a problem, if it was of the wrong type.
    fn checked<T>(&mut self, read: Result<Option<T>, DecodeError>) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.mismatch(&error);
            None
        })
    }

    /// A decode error of the node reader begins with the field's name in backticks.
    fn mismatch(&mut self, error: &DecodeError) {
        let split = error.what.strip_prefix('`').and_then(|rest| rest.split_once("` "));
        let (field, message) = split.unwrap_or(("", &error.what));
        self.hard(error.line, field, message);
    }

    pub(super) fn hard(&mut self, line: u32, field: impl Into<String>, message: impl Into<String>) {
        self.hard.push(Problem::new(Class::Decode, self.path, line, field, message));
    }

    fn strict(&mut self, line: u32, field: impl Into<String>, message: impl Into<String>) {
        self.strict.push(Problem::new(Class::StrictDecode, self.path, line, field, message));
    }
}

/// The form of a file, which determines its fields.
#[derive(Clone, Copy)]
enum Form {
    Kubelet(Version),
    Proposal,
    /// The kubelet's internal version: none of its fields has the same name as in files.
    Internal,
}

/// The message for an unknown field, with more detail for fields of the other form.
fn unknown(key: &str) -> &'static str {
    match key {
        "imageMatchers" => "is a field of the original proposal; the kubelet's is `matchImages`",
        "extraArgs" => "is a field of the original proposal; the kubelet's are `args` and `env`",
        "matchImages" => "is the kubelet's field; a file of this kind has `imageMatchers`",
        "tokenAttributes" => "exists only in files of `kubelet.config.k8s.io/v1`",
        _ => "is not a field",
    }
}

/// Whether a line of YAML has a value that begins with a bare `*`.
fn begins_with_star(line: &str) -> bool {
    let mut rest = line.trim_start();
    while let Some(item) = rest.strip_prefix("- ") {
        rest = item.trim_start();
    }
    let value = rest.split_once(": ").map_or(rest, |(_, value)| value.trim_start());
    let value = value.trim_start_matches(['[', ' ']);
    value.starts_with('*') || value.contains(", *") || value.contains(",*")
}
