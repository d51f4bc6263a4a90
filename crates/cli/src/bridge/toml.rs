//! TOML as nodes, so that one reader of logins serves every format.

use keyward_protocol::{Node, json};
use toml_edit::{Document, Item, TableLike, Value};
use zeroize::Zeroizing;

/// Reads a document. An error is the line that is not valid: the parser's own message may quote the text.
pub(super) fn read(bytes: &[u8]) -> Result<Node, usize> {
    let text = std::str::from_utf8(bytes).map_err(|error| line(bytes, error.valid_up_to()))?;
    let document = Document::parse(text)
        .map_err(|error| line(bytes, error.span().map_or(bytes.len(), |span| span.start)))?;
    // Through JSON, because only readers of text make nodes.
    let mut out = Zeroizing::new(String::with_capacity(4 * text.len()));
    push_table(&mut out, document.as_table());
    Node::from_json(out.as_bytes()).map_err(|_| 1)
}

fn line(bytes: &[u8], at: usize) -> usize {
    1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count()
}

fn push_table(out: &mut String, table: &dyn TableLike) {
    push_all(out, ['{', '}'], table.iter(), |out, (key, item)| {
        json::push_text(out, key);
        out.push(':');
        push_item(out, item);
    });
}

fn push_item(out: &mut String, item: &Item) {
    match item {
        Item::None => out.push_str("null"),
        Item::Value(value) => push_value(out, value),
        Item::Table(table) => push_table(out, table),
        Item::ArrayOfTables(tables) => {
            push_all(out, ['[', ']'], tables.iter(), |out, table| push_table(out, table));
        }
    }
}

fn push_value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => json::push_text(out, text.value()),
        Value::Boolean(value) => out.push_str(if *value.value() { "true" } else { "false" }),
        Value::Array(items) => push_all(out, ['[', ']'], items.iter(), push_value),
        Value::InlineTable(table) => push_table(out, table),
        // Nothing that concerns logins is a number or a time.
        Value::Integer(_) | Value::Float(_) | Value::Datetime(_) => out.push_str("null"),
    }
}

/// Adds items between brackets, with commas between them.
fn push_all<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl Iterator<Item = T>,
    push: impl Fn(&mut String, T),
) {
    out.push(open);
    for (number, item) in items.enumerate() {
        if number > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_every_kind_are_read_and_an_error_names_the_line_alone() {
        let text = "a = \"x\\u0022\" # why\n[b.\"c.d\"]\ne = [true, {f = 'g'}]\nn = 5\n[[h]]\ni = \"\"\"j\nk\"\"\"\n";
        let node = read(text.as_bytes()).unwrap();
        assert_eq!(
            node.to_json(),
            r#"{"a":"x\"","b":{"c.d":{"e":[true,{"f":"g"}],"n":null}},"h":[{"i":"j\nk"}]}"#
        );
        assert_eq!(read(b"a = 1\nb = s3cr3t\n").err(), Some(2));
        assert_eq!(read(b"a = 1\n\xff").err(), Some(2));
    }
}
