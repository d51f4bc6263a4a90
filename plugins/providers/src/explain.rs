//! The sources of credentials: the one that was used, those that were skipped, and why.

use std::{fmt::Write as _, process::ExitCode};

use keyward_plugin::Refusal;

use crate::Call;

/// What a family tells about its sources, a line for each, in order. No line may contain a secret.
impl Call {
    /// Tells of a source that is not configured here.
    pub(crate) fn skipped(&self, source: impl AsRef<str>, why: impl AsRef<str>) {
        self.push("skipped", source.as_ref(), why.as_ref());
    }

    /// Skips a source that is not configured here, and so gives nothing.
    #[expect(clippy::unnecessary_wraps, reason = "a source that is not configured returns this")]
    pub(crate) fn skip<T>(
        &self,
        source: impl AsRef<str>,
        why: impl AsRef<str>,
    ) -> Result<Option<T>, Refusal> {
        self.skipped(source, why);
        Ok(None)
    }

    /// Tells of a source that gave a credential.
    pub(crate) fn used(&self, source: impl AsRef<str>, detail: impl AsRef<str>) {
        self.push("used", source.as_ref(), detail.as_ref());
    }

    /// Tells of a source that is configured and gave nothing, which ends the search.
    pub(crate) fn failed(&self, source: impl AsRef<str>, why: impl AsRef<str>) {
        self.push("failed", source.as_ref(), why.as_ref());
    }

    /// Tells of something else that decides the result: the region, the endpoint, the agent.
    pub(crate) fn note(&self, what: impl AsRef<str>, value: impl AsRef<str>) {
        self.push("with", what.as_ref(), value.as_ref());
    }

    fn push(&self, word: &str, name: &str, detail: &str) {
        if self.explains {
            let detail = detail.replace('\n', " ");
            _ = writeln!(self.sources.borrow_mut(), "{word:<8} {name}: {detail}");
        }
    }

    /// Prints what a search for a credential tells about its sources, and ends as the search did.
    pub(crate) fn explain(
        &self,
        search: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<ExitCode, Refusal> {
        let outcome = search();
        let printed = self.print(&self.report(outcome.is_ok()));
        outcome.and(printed)
    }

    /// The report, a line for each entry, for a person.
    fn report(&self, found: bool) -> String {
        let result = if found { "a credential" } else { "no credential" };
        format!("{}result   {result}\n", self.sources.borrow())
    }
}

/// What the first source gives that has something: the others are not asked. A source that fails ends the search.
pub(crate) fn first<T>(
    sources: &[&dyn Fn() -> Result<Option<T>, Refusal>],
) -> Result<Option<T>, Refusal> {
    sources.iter().find_map(|source| source().transpose()).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_a_line_for_each_source_in_order() {
        let call = Call::new("keyward-eks".into(), vec!["--explain".into()]);
        call.skipped("environment", "`AWS_ACCESS_KEY_ID` is not set");
        call.used("profile `dev`", "keys in\n`~/.aws/credentials`");
        assert_eq!(
            call.report(true),
            "skipped  environment: `AWS_ACCESS_KEY_ID` is not set\n\
             used     profile `dev`: keys in `~/.aws/credentials`\n\
             result   a credential\n"
        );
    }
}
