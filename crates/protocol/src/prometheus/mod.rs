//! Metrics in Prometheus' text format.

mod histogram;
mod text;

pub use self::{
    histogram::Histogram,
    text::{Samples, Text},
};

/// A metric: its name, its type and its meaning.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The name, with its unit and `_total` where it is a count.
    pub name: &'static str,
    kind: &'static str,
    /// The meaning, for people.
    pub help: &'static str,
}

impl Family {
    /// A count that only grows.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "counter", help }
    }

    /// A value that goes up and down.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "gauge", help }
    }

    /// A distribution of durations.
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "histogram", help }
    }
}
