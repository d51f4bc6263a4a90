//! The sources of credentials: the one that was used, those that were skipped, and why.

use std::{cell::RefCell, fmt::Write as _};

/// What a provider tells about its sources, a line for each, in order. No line may contain a secret.
#[derive(Debug, Default)]
pub(crate) struct Explain(RefCell<String>);

impl Explain {
    /// A source that is not configured here.
    pub(crate) fn skipped(&self, source: impl AsRef<str>, why: impl AsRef<str>) {
        self.push("skipped", source.as_ref(), why.as_ref());
    }

    /// A source that gave a credential.
    pub(crate) fn used(&self, source: impl AsRef<str>, detail: impl AsRef<str>) {
        self.push("used", source.as_ref(), detail.as_ref());
    }

    /// A source that is configured and gave nothing, which ends the search.
    pub(crate) fn failed(&self, source: impl AsRef<str>, why: impl AsRef<str>) {
        self.push("failed", source.as_ref(), why.as_ref());
    }

    /// Something else that decides the result: the region, the endpoint, the agent.
    pub(crate) fn note(&self, what: impl AsRef<str>, value: impl AsRef<str>) {
        self.push("with", what.as_ref(), value.as_ref());
    }

    fn push(&self, word: &str, name: &str, detail: &str) {
        _ = writeln!(self.0.borrow_mut(), "{word:<8} {name}: {}", detail.replace('\n', " "));
    }

    /// The report, a line for each entry, for a person.
    pub(crate) fn report(&self, found: bool) -> String {
        let mut out = self.0.borrow().clone();
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
