//! JSON as Go's `encoding/json` writes it.

use std::fmt::{Display, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Appends `text` as a JSON string: `<`, `>`, `&`, U+2028 and U+2029 escaped besides what must be.
pub fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Writes an object in compact form, field by field. It has to be closed.
#[must_use = "an object ends when it is closed"]
pub(crate) struct Object<'a> {
    out: &'a mut String,
    empty: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, empty: true }
    }

    /// Begins a field whose value the caller writes.
    pub(crate) fn field(&mut self, name: &str) -> &mut String {
        if !std::mem::take(&mut self.empty) {
            self.out.push(',');
        }
        push_text(self.out, name);
        self.out.push(':');
        self.out
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) -> &mut Self {
        push_text(self.field(name), text);
        self
    }

    /// Writes a text unless it is empty.
    pub(crate) fn text_if(&mut self, name: &str, text: &str) -> &mut Self {
        if text.is_empty() { self } else { self.text(name, text) }
    }

    /// Writes a boolean, a number or anything else that JSON spells as Rust does.
    pub(crate) fn plain(&mut self, name: &str, value: impl Display) -> &mut Self {
        let _ = write!(self.field(name), "{value}");
        self
    }

    /// Writes bytes in base64.
    pub(crate) fn bytes(&mut self, name: &str, bytes: &[u8]) -> &mut Self {
        push_bytes(self.field(name), bytes);
        self
    }

    pub(crate) fn object(&mut self, name: &str) -> Object<'_> {
        Object::open(self.field(name))
    }

    pub(crate) fn close(self) {
        self.out.push('}');
    }
}

/// An object whose fields `write` writes, as one line of JSON, newline included.
pub(crate) fn line(write: impl FnOnce(&mut Object<'_>)) -> String {
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write(&mut object);
    object.close();
    out.push('\n');
    out
}

/// Appends a list whose items `push` writes.
pub(crate) fn push_list<T>(
    out: &mut String,
    items: impl IntoIterator<Item = T>,
    push: impl Fn(&mut String, T),
) {
    out.push('[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(']');
}

/// Appends bytes as a text in base64.
pub(crate) fn push_bytes(out: &mut String, bytes: &[u8]) {
    out.push('"');
    STANDARD.encode_string(bytes, out);
    out.push('"');
}

/// Appends a text as JSON spelt it, between quotes; only what Go escapes for the sake of HTML is
/// escaped besides.
pub(crate) fn push_spelt(out: &mut String, spelling: &str) {
    out.push('"');
    for character in spelling.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// A finite number as JSON has it: plain digits from 1e-6 up to 1e21, an exponent beyond.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    // Rust leaves out the plus of a positive exponent.
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_escaped_as_go_does_it() {
        let mut out = String::new();
        push_text(&mut out, "a\"\\\u{8}\u{c}\n\r\t\u{1}<>&\u{2028}\u{7f}é");
        assert_eq!(
            out,
            r#""a\"\\\b\f\n\r\t\u0001\u003c\u003e\u0026\u2028"#.to_owned() + "\u{7f}é\""
        );
    }

    #[test]
    fn a_number_gets_an_exponent_where_go_gives_it_one() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (0.000_001, "0.000001"),
            (1.25e-7, "1.25e-7"),
            (-1e-9, "-1e-9"),
            (18_446_744_073_709_551_616.0, "18446744073709552000"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
