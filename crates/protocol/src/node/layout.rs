//! Where the nodes of a document stand in its bytes, for edits that leave everything else as it was.

use std::ops::Range;

use zeroize::Zeroizing;

use super::{Node, SyntaxError, Value, looks_like_json, yaml};

/// The nodes of a document as they were written: aliases and repeated keys are there as such, and each
/// node knows its bytes.
pub struct Layout {
    items: Vec<Item>,
    root: u32,
}

/// A node of a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

pub(super) struct Item {
    pub(super) shape: Shape,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: u32,
}

pub(super) enum Shape {
    Scalar(Zeroizing<String>),
    List(Vec<u32>),
    /// Keys and values.
    Map(Vec<(u32, u32)>),
    Alias(u32),
}

impl Layout {
    /// Finds out where everything stands in a document that [`Node::from_json_or_yaml`] reads. `None`
    /// for an empty document, and for one in UTF-16.
    ///
    /// In JSON, only scalars have an end, and keys no place.
    pub fn of(bytes: &[u8]) -> Result<Option<Self>, SyntaxError> {
        if looks_like_json(bytes) {
            let node = Node::from_json(bytes)?;
            let mut reader = Reader { bytes, at: 0, line: 1, column: 1, items: Vec::new() };
            let root = reader.add(&node);
            return Ok(Some(Self { items: reader.items, root }));
        }
        Ok(yaml::layout(bytes)?.map(|(items, root)| Self { items, root }))
    }

    /// The outermost node.
    pub fn root(&self) -> Place {
        Place(self.root)
    }

    /// The bytes of a node's content: without anchor and tag, and with the quotes. For an alias, and
    /// for a value that is not there, an empty range.
    pub fn span(&self, place: Place) -> Range<usize> {
        self.item(place).map_or(0..0, |item| item.start..item.end)
    }

    /// The line of a node, counted from 1.
    pub fn line(&self, place: Place) -> u32 {
        self.item(place).map_or(0, |item| item.line)
    }

    /// What an alias stands for; any other node is itself.
    pub fn follow(&self, place: Place) -> Place {
        match self.item(place).map(|item| &item.shape) {
            Some(Shape::Alias(target)) => Place(*target),
            _ => place,
        }
    }

    /// Whether it is a scalar, which a value that is not there is too.
    pub fn is_scalar(&self, place: Place) -> bool {
        matches!(self.item(place).map(|item| &item.shape), Some(Shape::Scalar(_)))
    }

    /// The items of a list.
    pub fn items(&self, place: Place) -> Option<Vec<Place>> {
        match &self.item(place)?.shape {
            Shape::List(items) => Some(items.iter().copied().map(Place).collect()),
            _ => None,
        }
    }

    /// Key and value of an entry that stands in the mapping itself; the last one if there are several.
    pub fn entry(&self, place: Place, key: &str) -> Option<(Place, Place)> {
        let Shape::Map(pairs) = &self.item(place)?.shape else { return None };
        let is_it = |(name, _): &&(u32, u32)| {
            let name = self.item(self.follow(Place(*name)));
            matches!(name.map(|item| &item.shape), Some(Shape::Scalar(text)) if **text == *key)
        };
        pairs.iter().rfind(is_it).map(|(name, value)| (Place(*name), Place(*value)))
    }

    fn item(&self, place: Place) -> Option<&Item> {
        self.items.get(place.0 as usize)
    }
}

/// Finds the bytes of JSON nodes by their lines and columns, which grow from node to node.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    column: u32,
    items: Vec<Item>,
}

impl Reader<'_> {
    fn add(&mut self, node: &Node) -> u32 {
        let start = self.offset(node.line, node.column);
        let index = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        let end = start + scalar_width(&self.bytes[start..]);
        let empty = Shape::Scalar(Zeroizing::default());
        self.items.push(Item { shape: empty, start, end, line: node.line });
        let shape = match &node.value {
            Value::List(items) => Shape::List(items.iter().map(|item| self.add(item)).collect()),
            Value::Map(entries) => {
                let pair = |entry: &super::Entry| {
                    let key = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
                    let shape = Shape::Scalar(Zeroizing::new(entry.key.clone()));
                    self.items.push(Item { shape, start: 0, end: 0, line: entry.line });
                    (key, self.add(&entry.value))
                };
                Shape::Map(entries.iter().map(pair).collect())
            }
            _ => return index,
        };
        self.items[index as usize].shape = shape;
        index
    }

    /// The byte at a place that is not before the last one.
    fn offset(&mut self, line: u32, column: u32) -> usize {
        while (self.line, self.column) < (line, column) && self.at < self.bytes.len() {
            if self.bytes[self.at] == b'\n' {
                self.line += 1;
                self.column = 1;
            } else if self.bytes.get(self.at + 1).is_none_or(|next| next & 0xc0 != 0x80) {
                self.column += 1;
            }
            self.at += 1;
        }
        self.at
    }
}

/// How wide the scalar at the beginning of good JSON is; 1 for a bracket.
fn scalar_width(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(b'"') => {
            let mut at = 1;
            while let Some(byte) = bytes.get(at) {
                match byte {
                    b'"' => return at + 1,
                    b'\\' => at += 2,
                    _ => at += 1,
                }
            }
            bytes.len()
        }
        Some(b'[' | b'{') => 1,
        _ => {
            let ends = |byte: &u8| b",]} \t\r\n".contains(byte);
            bytes.iter().position(ends).unwrap_or(bytes.len())
        }
    }
}
