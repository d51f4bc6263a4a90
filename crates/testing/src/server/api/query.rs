//! The query of a request.

use http::Uri;
use percent_encoding::percent_decode_str;

/// The names and values behind the question mark, in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn read(uri: &Uri) -> Self {
        let text = uri.query().unwrap_or_default();
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (plain(name), plain(value)))
                .collect(),
        )
    }

    /// The first value of this name, or nothing.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.value(name), "true" | "1")
    }
}

fn plain(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
