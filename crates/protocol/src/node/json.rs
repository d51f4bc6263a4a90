//! JSON as Go's `encoding/json` reads it.

use zeroize::Zeroizing;

use super::{
    Entry, MAX_DEPTH, Node, Spelling, SyntaxError, Value,
    budget::{Budget, Exceeded},
};
use crate::text::push_lossy;

/// Reads one value and white space after it.
pub(super) fn read(bytes: &[u8]) -> Result<Node, SyntaxError> {
    let budget = Budget::of(bytes);
    let mut reader = Reader { bytes, at: 0, line: 1, column: 1, counted: 0, budget };
    let node = reader.value()?;
    reader.skip_blank();
    if reader.at < bytes.len() {
        return Err(reader.error("there is more after the end of the document"));
    }
    Ok(node)
}

struct Reader<'a> {
    bytes: &'a [u8],
    /// Where we read.
    at: usize,
    /// The place of `counted`, which follows `at` whenever a place is asked for; so every byte is
    /// looked at once for it, however long a line is.
    line: u32,
    column: u32,
    counted: usize,
    budget: Budget,
}

impl Reader<'_> {
    /// Reads one value. A loop with a stack of its own: nesting must not cost stack frames.
    fn value(&mut self) -> Result<Node, SyntaxError> {
        // Lists and mappings that are not closed yet. The last entry of such a mapping has its
        // key only.
        let mut open: Vec<Node> = Vec::new();
        loop {
            self.skip_blank();
            let (line, column) = self.place();
            let mut node = Node::at(Value::Null, line, column);
            match self.peek() {
                Some(b'{') => {
                    self.deepen(open.len())?;
                    if !self.closes(b'}') {
                        let mut entries = Vec::new();
                        self.push(&mut entries, Self::key)?;
                        node.value = Value::Map(entries);
                        open.push(node);
                        continue;
                    }
                    node.value = Value::Map(Vec::new());
                }
                Some(b'[') => {
                    self.deepen(open.len())?;
                    node.value = Value::List(Vec::new());
                    if !self.closes(b']') {
                        open.push(node);
                        continue;
                    }
                }
                Some(b'"') => {
                    let (text, spelling) = self.text()?;
                    (node.value, node.spelling) = (Value::Text(text), spelling);
                }
                Some(b't') => node.value = self.word("true", Value::Bool(true))?,
                Some(b'f') => node.value = self.word("false", Value::Bool(false))?,
                Some(b'n') => node.value = self.word("null", Value::Null)?,
                Some(b'-' | b'0'..=b'9') => node.value = self.number()?,
                Some(_) => return Err(self.error("a value was expected here")),
                None => return Err(self.error("the document ends where a value was expected")),
            }
            // Hand the value to what it stands in, and close that as often as it ends here.
            loop {
                let Some(mut parent) = open.pop() else {
                    return Ok(node);
                };
                let more = match &mut parent.value {
                    Value::Map(entries) => {
                        if let Some(entry) = entries.last_mut() {
                            entry.value = node;
                        }
                        let more = self.more(b'}')?;
                        if more {
                            self.skip_blank();
                            self.push(entries, Self::key)?;
                        } else {
                            self.budget.close(entries);
                        }
                        more
                    }
                    Value::List(items) => {
                        self.push(items, |_| Ok(node))?;
                        let more = self.more(b']')?;
                        if !more {
                            self.budget.close(items);
                        }
                        more
                    }
                    _ => false,
                };
                if more {
                    open.push(parent);
                    break;
                }
                node = parent;
            }
        }
    }

    /// Whether a list or mapping ends right after its opening bracket.
    fn closes(&mut self, close: u8) -> bool {
        self.skip_blank();
        let closes = self.peek() == Some(close);
        self.at += usize::from(closes);
        closes
    }

    /// Steps over an opening bracket, if it is not one too many.
    fn deepen(&mut self, depth: usize) -> Result<(), SyntaxError> {
        if depth >= MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        self.at += 1;
        Ok(())
    }

    /// After an element: whether another follows (a comma) or `close` ends it.
    fn more(&mut self, close: u8) -> Result<bool, SyntaxError> {
        self.skip_blank();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(_) => Err(self.error(if close == b']' {
                "`,` or `]` was expected here"
            } else {
                "`,` or `}` was expected here"
            })),
            None => Err(self.error("the document ends in the middle")),
        }
    }

    /// A key and its colon; the value is still to come.
    fn key(&mut self) -> Result<Entry, SyntaxError> {
        let (line, column) = self.place();
        match self.peek() {
            Some(b'"') => {}
            Some(b'}') => return Err(self.error("the comma before this brace is one too many")),
            Some(_) => return Err(self.error("a key in double quotes was expected here")),
            None => return Err(self.error("the document ends where a key was expected")),
        }
        let (mut key, spelling) = self.text()?;
        self.skip_blank();
        if self.peek() != Some(b':') {
            return Err(self.error("`:` was expected here"));
        }
        self.at += 1;
        let value = Node::at(Value::Null, line, column);
        Ok(Entry { key: std::mem::take(&mut *key), line, value, spelling })
    }

    /// A text in quotes. Bytes that are not UTF-8 and lone surrogates become U+FFFD, one each.
    fn text(&mut self) -> Result<(Zeroizing<String>, Spelling), SyntaxError> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        let mut text = Zeroizing::new(String::new());
        loop {
            let rest = &self.bytes[self.at..];
            let plain = rest
                .iter()
                .position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20)
                .unwrap_or(rest.len());
            push_lossy(&mut text, &rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    let spelling = escaped.then(|| {
                        let mut spelling = Zeroizing::new(String::new());
                        push_lossy(&mut spelling, &self.bytes[start..self.at]);
                        Box::new(spelling)
                    });
                    self.at += 1;
                    let size = |spelling: &Zeroizing<String>| 24 + spelling.capacity();
                    let size = text.capacity() + spelling.as_deref().map_or(0, size);
                    self.budget.spend(size).map_err(|why| self.too_much(why))?;
                    return Ok((text, spelling));
                }
                Some(b'\\') => {
                    escaped = true;
                    let character = self.escape()?;
                    text.push(character);
                }
                Some(_) => return Err(self.error("a control character stands in a text")),
                None => return Err(self.error("a text has no closing quote")),
            }
        }
    }

    /// One escape sequence, or two that make up a surrogate pair.
    fn escape(&mut self) -> Result<char, SyntaxError> {
        let character = match self.bytes.get(self.at + 1) {
            Some(b'u') => return self.unicode_escape(),
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(*byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(_) => return Err(self.error("unknown escape in a text")),
            None => return Err(self.error("a text has no closing quote")),
        };
        self.at += 2;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, SyntaxError> {
        let Some(first) = self.hex_escape(self.at) else {
            return Err(self.error("`\\u` needs four hexadecimal digits"));
        };
        self.at += 6;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        if let (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) = (first, self.hex_escape(self.at))
        {
            self.at += 6;
            let joined = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    /// The number of a `\uXXXX` that starts at `at`.
    fn hex_escape(&self, at: usize) -> Option<u32> {
        let digits = self.bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits
            .iter()
            .try_fold(0, |number, &digit| Some(number * 16 + char::from(digit).to_digit(16)?))
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, SyntaxError> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error("a value was expected here"));
        }
        self.at += word.len();
        Ok(value)
    }

    /// A number, kept in its own spelling.
    fn number(&mut self) -> Result<Value, SyntaxError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.error("a digit was expected here")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        let text = String::from_utf8_lossy(&self.bytes[start..self.at]).into_owned();
        self.budget.spend(text.capacity()).map_err(|why| self.too_much(why))?;
        Ok(Value::Number(text))
    }

    fn some_digits(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        self.digits();
        if self.at == start {
            return Err(self.error("a digit was expected here"));
        }
        Ok(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    /// Line and column of where we are.
    fn place(&mut self) -> (u32, u32) {
        for &byte in &self.bytes[self.counted..self.at] {
            if byte == b'\n' {
                self.line = self.line.saturating_add(1);
                self.column = 1;
            } else if byte & 0xc0 != 0x80 {
                self.column = self.column.saturating_add(1);
            }
        }
        self.counted = self.at;
        (self.line, self.column)
    }

    /// Adds to a list or mapping, within the budget.
    fn push<T>(
        &mut self,
        items: &mut Vec<T>,
        item: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<(), SyntaxError> {
        let item = item(self)?;
        self.budget.push(items, item).map_err(|why| self.too_much(why))
    }

    fn too_much(&mut self, why: Exceeded) -> SyntaxError {
        let (line, column) = self.place();
        why.at(line, column)
    }

    fn error(&mut self, what: &str) -> SyntaxError {
        let (line, column) = self.place();
        SyntaxError { what: what.to_owned(), line, column }
    }
}
