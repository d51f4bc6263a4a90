//! Text from strangers, made safe to show.

use std::fmt::Write as _;

use unicode_general_category::{GeneralCategory, get_general_category};

/// Replaces every character that is not a letter, mark, number, punctuation, symbol, separator or
/// U+0009 to U+000D by its `U+XXXX` name (IH-05).
///
/// ```
/// # use keyward_protocol::text::clean;
/// assert_eq!(clean("\u{1b}[31mrun\tme\u{200e}"), "U+001B[31mrun\tmeU+200E");
/// ```
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_shown(character) {
            out.push(character);
        } else {
            let _ = write!(out, "U+{:04X}", u32::from(character));
        }
    }
    out
}

fn is_shown(character: char) -> bool {
    match character {
        ' '..='~' | '\u{9}'..='\u{d}' => true,
        _ => !matches!(
            get_general_category(character),
            GeneralCategory::Control
                | GeneralCategory::Format
                | GeneralCategory::PrivateUse
                | GeneralCategory::Surrogate
                | GeneralCategory::Unassigned
        ),
    }
}
