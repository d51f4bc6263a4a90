//! Writes HTML: what is markup is written in this program, and everything else is escaped.

use std::fmt::Display;

use keyward_protocol::text::{escape_html, inline};

/// A page, or a part of one.
#[derive(Default)]
pub(super) struct Html(String);

impl Html {
    /// Adds markup, which only this program's own text can be.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds text, or the value of a quoted attribute.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        self.0.push_str(&escape_html(&inline(&text.to_string())));
        self
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_text_becomes_markup() {
        let mut html = Html::default();
        html.raw("<p title=\"").text("\"'>").raw("\">").text("<script>\u{202e}&\n").raw("</p>");
        assert_eq!(
            html.into_string(),
            "<p title=\"&quot;&#39;&gt;\">&lt;script&gt;U+202E&amp; </p>"
        );
    }
}
