//! The rows, one file each.

mod cached;
mod image;
mod plugin;
mod startup;

use crate::measure::Row;

/// Every row by name, in the order of the table.
pub const ALL: &[(&str, fn() -> Row)] = &[
    ("cached credential", cached::row),
    ("plugin run", plugin::row),
    ("program: --version", startup::version),
    ("program: plan and credential", startup::commands),
    ("image: one match", image::one),
    ("image: lookup", image::many),
];
