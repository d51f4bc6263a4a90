//! The plain block style that programs write, read straight into [`Node`]s.
//!
//! Nearly every kubeconfig is one, and the largest are: this is several times faster than tokens and
//! raw nodes. It reads only what it is sure about. At the first sign of anything else (a comment,
//! an anchor, a tag, a flow, a line that goes on) it gives up, and the whole text is read anew by
//! the reader that knows everything; so the two must never differ.

use zeroize::Zeroizing;

use super::{
    super::{Entry, Node, Value, budget::Budget},
    resolve::{self, Scalar},
};

/// Reads a text if all of it is in plain block style.
pub(super) fn read(bytes: &[u8]) -> Option<Node> {
    read_items(bytes, leave)
}

/// Reads a text in plain block style and hands the items of the outermost mapping's lists to `take`.
pub(in super::super) fn read_items(
    bytes: &[u8],
    take: impl FnMut(&str, Node) -> Option<Node>,
) -> Option<Node> {
    let usual = |byte: &u8| matches!(byte, b'\n' | b' '..=b'~');
    if !bytes.iter().all(usual) {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let budget = Budget::of(bytes);
    let mut reader = Reader { text, rest: "", column: 0, line: 0, ended: false, depth: 0, budget };
    reader.advance()?;
    if reader.ended || reader.column > 0 {
        return None;
    }
    let root = reader.map(take)?;
    reader.ended.then_some(root)
}

/// Takes no item: it stays in the list of that key.
#[expect(clippy::unnecessary_wraps, reason = "others take some")]
fn leave(_: &str, item: Node) -> Option<Node> {
    Some(item)
}

struct Reader<'a> {
    /// What comes after the current line.
    text: &'a str,
    /// What is left of the current line.
    rest: &'a str,
    /// Where in its line that stands, counted from 0.
    column: usize,
    /// Counted from 1.
    line: u32,
    ended: bool,
    depth: usize,
    /// A document that exceeds it is left to the other reader, which says where.
    budget: Budget,
}

/// Mappings with more entries are left to the reader with a hash map.
const MOST_ENTRIES: usize = 100;
const MOST_LEVELS: usize = 32;

impl Reader<'_> {
    /// A mapping whose first key is next; all its keys stand in the same column.
    fn map(&mut self, mut take: impl FnMut(&str, Node) -> Option<Node>) -> Option<Node> {
        self.enter()?;
        let (column, start) = (self.column, self.place(0));
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let line = self.line;
            let (key, after) = split_key(self.rest)?;
            let colon = self.place(key.len());
            let value = if after.is_empty() {
                self.advance()?;
                self.nested(column, colon, |item| take(key, item))?
            } else {
                let value = after.strip_prefix(' ')?;
                let value = scalar(value, self.place(key.len() + 2))?;
                self.advance()?;
                value
            };
            if entries.len() == MOST_ENTRIES || entries.iter().any(|entry| entry.key == key) {
                return None;
            }
            self.budget.spend(key.len() + after.len()).ok()?;
            let entry = Entry { key: key.to_owned(), line, value, spelling: None };
            self.budget.push(&mut entries, entry).ok()?;
            if !self.goes_on(column)? {
                break;
            }
        }
        self.depth -= 1;
        self.budget.close(&mut entries);
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Some(node(Value::Map(entries), start))
    }

    /// What belongs to a key in `column` whose line has nothing after the colon.
    fn nested(
        &mut self,
        column: usize,
        colon: (u32, u32),
        take: impl FnMut(Node) -> Option<Node>,
    ) -> Option<Node> {
        let list = self.rest.starts_with("- ");
        if self.ended || self.column < column || self.column == column && !list {
            // Not even a dash by itself, which would be a list of nothing.
            return (self.rest != "-").then(|| node(Value::Null, colon));
        }
        if list { self.list(take) } else { self.map(leave) }
    }

    /// A list whose first dash is next; all its dashes stand in the same column.
    fn list(&mut self, mut take: impl FnMut(Node) -> Option<Node>) -> Option<Node> {
        self.enter()?;
        let (column, start) = (self.column, self.place(0));
        let mut items = Vec::new();
        while !self.ended && self.column == column {
            let Some(item) = self.rest.strip_prefix("- ") else { break };
            (self.rest, self.column) = (item, column + 2);
            let item = if split_key(item).is_some() {
                self.map(leave)?
            } else {
                self.budget.spend(item.len()).ok()?;
                let item = scalar(item, self.place(0))?;
                self.advance()?;
                item
            };
            if let Some(item) = take(item) {
                self.budget.push(&mut items, item).ok()?;
            }
            if !self.ended && self.column > column {
                return None;
            }
        }
        self.depth -= 1;
        self.budget.close(&mut items);
        Some(node(Value::List(items), start))
    }

    /// Whether the mapping in `column` has another key. A line further in would belong to the
    /// value before it, in ways that are not plain.
    fn goes_on(&self, column: usize) -> Option<bool> {
        match self.column {
            _ if self.ended => Some(false),
            here if here > column => None,
            here => Some(here == column),
        }
    }

    fn enter(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= MOST_LEVELS).then_some(())
    }

    /// Goes to the next line that is not empty.
    fn advance(&mut self) -> Option<()> {
        loop {
            if self.text.is_empty() {
                (self.ended, self.rest) = (true, "");
                return Some(());
            }
            // A last line without an end is not plain to everybody.
            let end = self.text.find('\n')?;
            let line = &self.text[..end];
            self.text = &self.text[end + 1..];
            self.line = self.line.checked_add(1)?;
            if !line.is_empty() {
                self.rest = line.trim_start_matches(' ');
                self.column = line.len() - self.rest.len();
                let blank = self.rest.is_empty() || self.rest.ends_with(' ');
                return (!blank).then_some(());
            }
        }
    }

    /// The place of what stands `ahead` in the line, both counted from 1.
    fn place(&self, ahead: usize) -> (u32, u32) {
        (self.line, u32::try_from(self.column + ahead + 1).unwrap_or(u32::MAX))
    }
}

/// A key that is only a word, and what follows its colon: nothing, or a space and more.
fn split_key(text: &str) -> Option<(&str, &str)> {
    let dull = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./".contains(byte);
    let width = text.bytes().take_while(dull).count();
    let (key, after) = text.split_at(width);
    let after = after.strip_prefix(':')?;
    let fits = key.as_bytes().first()?.is_ascii_alphabetic()
        && key.len() < 1000
        && (after.is_empty() || after.starts_with(' '))
        && matches!(resolve::resolve(None, key), Ok(Scalar::Text));
    fits.then_some((key, after))
}

/// A value that is all of what is left of its line.
fn scalar(text: &str, place: (u32, u32)) -> Option<Node> {
    let value = match text.as_bytes() {
        b"{}" => Value::Map(Vec::new()),
        b"[]" => Value::List(Vec::new()),
        [b'"', inner @ .., b'"'] if !inner.contains(&b'"') && !inner.contains(&b'\\') => {
            Value::Text(copy(&text[1..text.len() - 1]))
        }
        [b'\'', inner @ .., b'\''] if !inner.contains(&b'\'') => {
            Value::Text(copy(&text[1..text.len() - 1]))
        }
        [b'-', b' ', ..] | [b'-'] => return None,
        [first, ..] if first.is_ascii_alphanumeric() || b"-/.+~$(".contains(first) => plain(text)?,
        _ => return None,
    };
    Some(node(value, place))
}

fn plain(text: &str) -> Option<Value> {
    if text.contains('#') || text.contains(": ") || text.ends_with(':') {
        return None;
    }
    Some(match resolve::resolve(None, text).ok()? {
        Scalar::Text => Value::Text(copy(text)),
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::Bool(value),
        Scalar::Int(value) => Value::Number(value.to_string()),
        Scalar::Uint(_) | Scalar::Float(_) | Scalar::Binary(_) => return None,
    })
}

fn copy(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_owned())
}

fn node(value: Value, (line, column): (u32, u32)) -> Node {
    Node::at(value, line, column)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::{super::read_all, *};

    /// Lines that are plain, nearly plain, and not plain at all.
    fn text() -> impl Strategy<Value = String> {
        let indent = select(vec!["", "", "  ", "  ", "    ", " ", "      "]);
        let dash = select(vec!["", "", "", "- ", "- ", "-", "- - ", "-  "]);
        let key = select(vec!["", "a: ", "b: ", "c-d: ", "a:", "b:", "y: ", "no: ", "1: ", "e :"]);
        let value = select(vec![
            "",
            "x",
            "x y",
            "1",
            "010",
            "1.5",
            "yes",
            "~",
            "null",
            "-",
            "-x",
            "--x",
            "...",
            "---",
            "'q'",
            "\"q\"",
            "'it''s'",
            "\"\\n\"",
            "'a': b",
            "{}",
            "[]",
            "{a: b}",
            "a: b",
            "a:",
            "a#b",
            "a #b",
            "# c",
            "https://h:1",
            "&n x",
            "*n",
            "!t x",
            "|",
            ">",
            "x ",
            "<<",
            "=",
            "@x",
            "?",
            "2001-01-01",
            "1:30",
            "\u{e9}",
            "\t",
            "\r",
            "a,b",
            "0x1F",
            "+1",
            ".5",
            "-1",
            "'",
            "\"",
        ]);
        let end = select(vec!["\n", "\n", "\n", "\n", "\n\n", "\n \n", ""]);
        let line = (indent, dash, key, value, end)
            .prop_map(|(indent, dash, key, value, end)| format!("{indent}{dash}{key}{value}{end}"));
        vec(line, 1..7).prop_map(|lines| lines.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn what_is_read_at_once_is_what_the_whole_reader_reads(text in text()) {
            if let Some(node) = read(text.as_bytes()) {
                let whole = read_all(text.as_bytes()).ok();
                prop_assert!(Some((node, Vec::new())) == whole, "{text:?}");
            }
        }
    }

    #[test]
    fn items_are_handed_over_with_the_key_of_their_list_and_those_given_back_stay() {
        let text = "a:\n- 1\n- x:\n  - deep\nb:\n- 2\n- 3\nc: 4\n";
        let mut taken = Vec::new();
        let rest = read_items(text.as_bytes(), |key, item| {
            taken.push((key.to_owned(), item.line, item.to_json()));
            (taken.len() == 3).then_some(item)
        });
        assert_eq!(rest.map(|rest| rest.to_json()).as_deref(), Some(r#"{"a":[],"b":[2],"c":4}"#));
        let taken: Vec<_> = taken.iter().map(|(k, l, v)| (k.as_str(), *l, v.as_str())).collect();
        assert_eq!(
            taken,
            [("a", 2, "1"), ("a", 3, r#"{"x":["deep"]}"#), ("b", 6, "2"), ("b", 7, "3")]
        );
    }

    #[test]
    fn a_kubeconfig_as_programs_write_it_is_read_at_once() {
        let text = "\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: LS0tLS1CRUdJTg==
    server: https://h:6443
  name: c
contexts:
- context:
    cluster: c
    user: \"\"
  name: x
current-context: x
kind: Config
preferences: {}
users:
- name: u
  user:
    exec:
      args:
      - --region
      - eu
      env: null
      installHint: 'do this'
      provideClusterInfo: false
";
        let node = read(text.as_bytes());
        assert!(node.is_some());
        assert!(node == read_all(text.as_bytes()).ok().map(|(node, _)| node));
    }
}
