//! Text from strangers, made safe to show.

/// Replaces every character that is not a letter, mark, number, punctuation, symbol, separator or
/// U+0009 to U+000D by its `U+XXXX` name (IH-05).
pub fn clean(_text: &str) -> String {
    todo!()
}
