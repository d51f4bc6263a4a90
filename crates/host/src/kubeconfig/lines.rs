//! Where the fields of an entry stand, so that a problem can say the line of the field itself.

use super::{Class, Place, Problem, Subject};

/// The lines of one entry's fields, and which of them a flag has said instead.
///
/// A kubeconfig may have ten thousand entries, and hardly any has a problem: nothing is allocated
/// here. Each field has its own slot, or a `server` among the fields of a user would move the line of
/// another field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lines([u32; SLOTS]);

const SLOTS: usize = 21;

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

/// The fields of clusters, then of contexts, then of users.
fn slot(field: &str) -> Option<usize> {
    Some(match field {
        "server" => 0,
        "certificate-authority" => 1,
        "certificate-authority-data" => 2,
        "proxy-url" => 3,
        "cluster" => 4,
        "user" => 5,
        "token" => 6,
        "tokenFile" => 7,
        "username" => 8,
        "password" => 9,
        "client-certificate" => 10,
        "client-certificate-data" => 11,
        "client-key" => 12,
        "client-key-data" => 13,
        "as" => 14,
        "as-uid" => 15,
        "as-groups" => 16,
        "as-user-extra" => 17,
        _ => return None,
    })
}

fn slot_of_exec(field: &str) -> Option<usize> {
    Some(match field {
        "apiVersion" => 18,
        "command" => 19,
        "interactiveMode" => 20,
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
    fn a_field_of_another_kind_of_entry_moves_no_line() {
        let entry = Place { file: None, line: 3 };
        let fields = [
            ["server", "certificate-authority", "certificate-authority-data", "proxy-url"]
                .as_slice(),
            &["cluster", "user"],
            &["token", "tokenFile", "username", "password", "client-certificate"],
            &["client-certificate-data", "client-key", "client-key-data"],
            &["as", "as-uid", "as-groups", "as-user-extra"],
        ]
        .concat();
        let mut lines = Lines::default();
        for (line, field) in (10..).zip(&fields) {
            lines.note(field, line);
        }
        for (line, field) in (10..).zip(&fields) {
            assert_eq!(lines.place(field, &entry).line, line, "{field}");
        }
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
