//! Prometheus' text format.

use std::fmt::{Display, Write as _};

use super::{Family, Histogram};

/// Metrics in Prometheus' text format, version 0.0.4.
#[derive(Debug, Default)]
pub struct Text(String);

/// Writes the samples of one metric.
#[derive(Debug)]
pub struct Samples<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl Text {
    /// The `Content-Type` of the format.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Begins a metric; its samples follow.
    pub fn family(&mut self, family: Family) -> Samples<'_> {
        let Family { name, kind, help } = family;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Samples { out: &mut self.0, name }
    }

    /// The whole text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl Samples<'_> {
    /// Writes a value with these labels.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.line("", labels, None, value)
    }

    /// Writes a histogram with these labels.
    pub fn histogram(&mut self, labels: &[(&str, &str)], histogram: &Histogram) -> &mut Self {
        let (buckets, sum) = histogram.read();
        let total = buckets.last().map_or(0, |(_, count)| *count);
        for (bound, count) in buckets {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            self.line("_bucket", labels, Some(&bound), count);
        }
        self.line("_sum", labels, None, sum).line("_count", labels, None, total)
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        bound: Option<&str>,
        value: impl Display,
    ) -> &mut Self {
        let _ = write!(self.out, "{}{suffix}", self.name);
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(bound.map(|bound| ("le", bound))) {
            let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            let _ = write!(self.out, "{before}{name}=\"{value}\"");
            before = ',';
        }
        let end = if before == ',' { "}" } else { "" };
        let _ = writeln!(self.out, "{end} {value}");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_quoted() {
        let mut text = Text::default();
        let mut samples = text.family(Family::gauge("open", "what is open"));
        samples.sample(&[("context", "a\"b\\c\nd"), ("kind", "x")], 3).sample(&[], "+Inf");
        assert_eq!(
            text.into_string(),
            "# HELP open what is open\n# TYPE open gauge\n\
             open{context=\"a\\\"b\\\\c\\nd\",kind=\"x\"} 3\nopen +Inf\n"
        );
    }
}
