//! Where the fields of an entry stand, so that a problem can say the line of the field itself.

use super::{Class, Place, Problem, Subject};

/// The lines of one entry's fields, and which of them a flag has said instead.
///
/// A kubeconfig may have ten thousand entries, and hardly any has a problem: nothing is allocated
/// here, and kinds of entries that have nothing in common share their slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lines([u32; SLOTS]);

const SLOTS: usize = 15;

/// In the place of a line: a flag said it.
const FLAG: u32 = u32::MAX;

impl Lines {
    pub(super) fn note(&mut self, field: &str, line: u32) {
        if let Some(slot) = slot(field) {
            self.0[slot] = line;
        }
    }

    /// Records the line of a field of `exec`.
    pub(super) fn note_exec(&mut self, field: &str, line: u32) {
        if let Some(slot) = slot_of_exec(field) {
            self.0[slot] = line;
        }
    }

    /// A flag says this field.
    pub(super) fn flag(&mut self, field: &str) {
        self.note(field, FLAG);
    }

    pub(super) fn is_flag(&self, field: &str) -> bool {
        self.line(field) == FLAG
    }

    /// The field as whoever said it knows it: `proxy-url`, or `--proxy-url`.
    pub(super) fn name(&self, field: &str) -> String {
        match field {
            _ if !self.is_flag(field) => field.to_owned(),
            "as-groups" => "--as-group".to_owned(),
            _ => format!("--{field}"),
        }
    }

    /// The place of a field of the entry that begins at `entry`; the entry's own for a field that is
    /// not there.
    pub(super) fn place(&self, field: &str, entry: &Place) -> Place {
        match self.line(field) {
            0 | FLAG => entry.clone(),
            line => Place { file: entry.file.clone(), line },
        }
    }

    /// A problem of a field. That of a flag is no problem of a file.
    pub(super) fn problem(
        &self,
        class: Class,
        (subject, entry): (&Subject, &Place),
        field: &str,
        message: impl Into<String>,
    ) -> Problem {
        if self.is_flag(field) {
            Problem::new(class, Place::default(), message).field(self.name(field))
        } else {
            Problem::new(class, self.place(field, entry), message)
                .about(subject.clone())
                .field(field)
        }
    }

    fn line(&self, field: &str) -> u32 {
        let slot = match field.strip_prefix("exec.") {
            Some(field) => slot_of_exec(field),
            None => slot(field),
        };
        slot.map_or(0, |slot| self.0[slot])
    }
}

/// An entry is a cluster, a user or a context.
fn slot(field: &str) -> Option<usize> {
    Some(match field {
        "server" | "token" | "cluster" => 0,
        "certificate-authority" | "client-certificate" | "user" => 1,
        "certificate-authority-data" | "client-certificate-data" => 2,
        "proxy-url" | "client-key" => 3,
        "client-key-data" => 4,
        "tokenFile" => 5,
        "username" => 6,
        "password" => 7,
        "as" => 8,
        "as-uid" => 9,
        "as-groups" => 10,
        "as-user-extra" => 11,
        _ => return None,
    })
}

fn slot_of_exec(field: &str) -> Option<usize> {
    Some(match field {
        "apiVersion" => 12,
        "command" => 13,
        "interactiveMode" => 14,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_its_line_and_a_missing_one_the_entrys() {
        let entry = Place { file: None, line: 3 };
        let mut lines = Lines::default();
        lines.note("token", 5);
        lines.note_exec("command", 7);
        assert_eq!(lines.place("token", &entry).line, 5);
        assert_eq!(lines.place("exec.command", &entry).line, 7);
        assert_eq!(lines.place("exec.apiVersion", &entry).line, 3);
    }

    #[test]
    fn what_a_flag_says_is_named_by_the_flag_and_stands_in_no_file() {
        let entry = Place { file: None, line: 3 };
        let mut lines = Lines::default();
        lines.note("proxy-url", 4);
        lines.flag("proxy-url");
        let cluster = Subject::Cluster("c".into());
        let problem =
            lines.problem(Class::ProxyUrlInvalid, (&cluster, &entry), "proxy-url", "is odd");
        assert_eq!(problem.to_string(), "`--proxy-url` is odd");
    }
}
