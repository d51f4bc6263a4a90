//! The sources of credentials: the one that was used, those that were skipped, and why.

use std::{cell::RefCell, fmt::Write as _};

/// What a provider tells about its sources, in order. No entry may contain a secret.
#[derive(Debug, Default)]
pub struct Explain(RefCell<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    what: Kind,
    name: String,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Skipped,
    Used,
    Failed,
    Note,
}

impl Explain {
    /// A source that is not configured here.
    pub fn skipped(&self, source: impl Into<String>, why: impl Into<String>) {
        self.push(Kind::Skipped, source.into(), why.into());
    }

    /// A source that gave a credential.
    pub fn used(&self, source: impl Into<String>, detail: impl Into<String>) {
        self.push(Kind::Used, source.into(), detail.into());
    }

    /// A source that is configured and gave nothing, which ends the search.
    pub fn failed(&self, source: impl Into<String>, why: impl Into<String>) {
        self.push(Kind::Failed, source.into(), why.into());
    }

    /// Something else that decides the result: the region, the endpoint, the agent.
    pub fn note(&self, what: impl Into<String>, value: impl Into<String>) {
        self.push(Kind::Note, what.into(), value.into());
    }

    fn push(&self, what: Kind, name: String, detail: String) {
        self.0.borrow_mut().push(Entry { what, name, detail });
    }

    /// The report, a line for each entry, for a person.
    pub fn report(&self, found: bool) -> String {
        let mut out = String::new();
        for entry in &*self.0.borrow() {
            let word = match entry.what {
                Kind::Skipped => "skipped",
                Kind::Used => "used",
                Kind::Failed => "failed",
                Kind::Note => "with",
            };
            _ = writeln!(out, "{word:<8} {}: {}", entry.name, entry.detail.replace('\n', " "));
        }
        out.push_str(if found { "result   a credential\n" } else { "result   no credential\n" });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_a_line_for_each_source_in_order() {
        let explain = Explain::default();
        explain.skipped("environment", "`AWS_ACCESS_KEY_ID` is not set");
        explain.used("profile `dev`", "keys in\n`~/.aws/credentials`");
        assert_eq!(
            explain.report(true),
            "skipped  environment: `AWS_ACCESS_KEY_ID` is not set\n\
             used     profile `dev`: keys in `~/.aws/credentials`\n\
             result   a credential\n"
        );
    }
}
