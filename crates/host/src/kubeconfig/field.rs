//! Fields of a document, taken out with the type they must have.

use std::{mem, path::Path, sync::Arc};

use keyward_protocol::{
    Node, Secret,
    node::{Entry, Value},
};

use super::{Class, Lines, Place, Problem, Subject};

/// Reads a document and collects what is wrong with it.
pub(super) struct Reader<'a> {
    pub(super) file: Option<Arc<Path>>,
    /// The entry being read, for messages.
    pub(super) subject: Option<Subject>,
    /// What stands before the names of the fields being read, for messages.
    pub(super) within: &'static str,
    /// The index of the list item being read, where `within` names a list.
    pub(super) item: Option<usize>,
    /// Where the fields of the entry being read stand.
    pub(super) lines: Lines,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: Option<Arc<Path>>, problems: &'a mut Vec<Problem>) -> Self {
        Self { file, subject: None, within: "", item: None, lines: Lines::default(), problems }
    }

    /// The fields of a mapping; none for `null`.
    pub(super) fn fields(&mut self, node: Node) -> Vec<Entry> {
        self.mapping(node.line, "", node)
    }

    /// The fields of the mapping that a field holds.
    pub(super) fn inner(&mut self, entry: Entry) -> Vec<Entry> {
        let Entry { key, line, value, .. } = entry;
        self.mapping(line, &key, value)
    }

    fn mapping(&mut self, line: u32, field: &str, node: Node) -> Vec<Entry> {
        match node.value {
            Value::Map(entries) => entries,
            Value::Null => Vec::new(),
            value => {
                self.mismatch(line, field, "a mapping", &value);
                Vec::new()
            }
        }
    }

    /// The items of the list that a field holds; none for `null`.
    pub(super) fn items(&mut self, entry: Entry) -> Vec<Node> {
        match entry.value.value {
            Value::List(items) => items,
            Value::Null => Vec::new(),
            value => {
                self.mismatch(entry.line, &entry.key, "a list", &value);
                Vec::new()
            }
        }
    }

    pub(super) fn text(&mut self, entry: Entry) -> String {
        self.text_of(entry.line, &entry.key, entry.value)
    }

    fn text_of(&mut self, line: u32, field: &str, node: Node) -> String {
        match node.value {
            // Taken out, not copied, so that a secret stays in one place.
            Value::Text(mut text) => mem::take(&mut *text),
            Value::Null => String::new(),
            value => {
                self.mismatch(line, field, "a text", &value);
                String::new()
            }
        }
    }

    pub(super) fn texts(&mut self, entry: Entry) -> Vec<String> {
        let key = entry.key.clone();
        let items = self.items(entry);
        items.into_iter().map(|item| self.text_of(item.line, &key, item)).collect()
    }

    pub(super) fn secret(&mut self, entry: Entry) -> Secret {
        Secret::new(self.text(entry))
    }

    pub(super) fn flag(&mut self, entry: Entry) -> bool {
        match entry.value.value {
            Value::Bool(flag) => flag,
            Value::Null => false,
            value => {
                self.mismatch(entry.line, &entry.key, "`true` or `false`", &value);
                false
            }
        }
    }

    /// Bytes in base64, or as a list of numbers, which Go reads too.
    pub(super) fn bytes(&mut self, entry: &Entry) -> Vec<u8> {
        entry.value.bytes(&entry.key).unwrap_or_else(|_| {
            self.fault(entry.line, &entry.key, "must be a text in base64");
            Vec::new()
        })
    }

    fn mismatch(&mut self, line: u32, field: &str, expected: &str, found: &Value) {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "a boolean: are quotes missing?",
            Value::Number(_) => "a number: are quotes missing?",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        };
        self.fault(line, field, &format!("must be {expected}, not {found}"));
    }

    pub(super) fn fault(&mut self, line: u32, field: &str, message: &str) {
        let mut problem = Problem::new(Class::Load, self.place(line), message);
        let within = self.within;
        problem.field = match self.item {
            Some(item) if field.is_empty() => Some(format!("{within}[{item}]").into()),
            Some(item) => Some(format!("{within}[{item}].{field}").into()),
            None if field.is_empty() => None,
            None => Some(format!("{within}{field}").into()),
        };
        problem.subject = self.subject.clone().map(Box::new);
        // Of the document as a whole nothing else says what it is about.
        if problem.field.is_none() && problem.subject.is_none() {
            problem.message = format!("the kubeconfig {message}");
        }
        self.problems.push(problem);
    }

    pub(super) fn place(&self, line: u32) -> Place {
        Place { file: self.file.clone(), line }
    }
}
