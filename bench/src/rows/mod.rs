//! The rows, one file each.

mod image;
mod startup;

use crate::measure::Row;

/// Every row by name, in the order of the table.
pub const ALL: &[(&str, fn() -> Row)] = &[
    ("program: --version", startup::version),
    ("program: plan and credential", startup::commands),
    ("image: one match", image::one),
    ("image: lookup", image::many),
];
