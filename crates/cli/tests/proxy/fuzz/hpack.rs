//! Header blocks of HTTP/2 (RFC 7541), without the Huffman code but for a few words.

use super::Chance;

/// A name and a value, which may be no text.
pub(super) type Field = (Vec<u8>, Vec<u8>);

/// What both tables together may hold, by the count of the RFC.
const SIZE: usize = 4096;

/// Words in their Huffman code, as the examples of the RFC have them.
const WORDS: [(&[u8], &[u8]); 3] = [
    (b"no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
    (b"custom-key", &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f]),
    (b"custom-value", &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf]),
];

pub(super) enum Wrong {
    /// Not a header block.
    Broken,
    /// Perhaps a header block: it contains Huffman codes.
    Unclear,
}

/// The fields that were sent before, the latest first.
#[derive(Default)]
pub(super) struct Table {
    fields: Vec<Field>,
    limit: Option<usize>,
}

impl Table {
    fn find(&self, index: usize) -> Option<Field> {
        if let Some((name, value)) = index.checked_sub(1).and_then(|place| STATIC.get(place)) {
            return Some((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        }
        self.fields.get(index.checked_sub(STATIC.len() + 1)?).cloned()
    }

    fn insert(&mut self, field: Field) {
        self.fields.insert(0, field);
        self.shrink();
    }

    fn size(&self) -> usize {
        self.fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
    }

    fn shrink(&mut self) {
        while self.size() > self.limit.unwrap_or(SIZE) {
            self.fields.pop();
        }
    }

    /// Reads a whole block.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<Vec<Field>, Wrong> {
        let mut fields = Vec::new();
        while let Some(first) = bytes.first().copied() {
            if first & 0x80 != 0 {
                let index = number(&mut bytes, 7)?;
                fields.push(self.find(index).ok_or(Wrong::Broken)?);
                continue;
            }
            if first & 0xe0 == 0x20 {
                // A new size of the table, which may stand before the first field only.
                let limit = number(&mut bytes, 5)?;
                if limit > SIZE || !fields.is_empty() {
                    return Err(Wrong::Broken);
                }
                self.limit = Some(limit);
                self.shrink();
                continue;
            }
            let kept = first & 0x40 != 0;
            let name = match number(&mut bytes, if kept { 6 } else { 4 })? {
                0 => string(&mut bytes)?,
                index => self.find(index).ok_or(Wrong::Broken)?.0,
            };
            let field = (name, string(&mut bytes)?);
            if kept {
                self.insert(field.clone());
            }
            fields.push(field);
        }
        Ok(fields)
    }

    /// Writes a block, each field in one of the ways there are.
    pub(super) fn write(&mut self, fields: &[Field], chance: &mut Chance) -> Vec<u8> {
        let mut out = Vec::new();
        for field in fields {
            let known = (1..=STATIC.len() + self.fields.len())
                .find(|index| self.find(*index).as_ref() == Some(field));
            if let Some(index) = known
                && !chance.one_in(4)
            {
                put(&mut out, 0x80, 7, index);
                continue;
            }
            let kept = field.1.len() < 100 && chance.one_in(2);
            let (mark, bits) = match (kept, chance.one_in(2)) {
                (true, _) => (0x40, 6),
                (false, true) => (0x10, 4),
                (false, false) => (0, 4),
            };
            let name = STATIC.iter().position(|(name, _)| name.as_bytes() == field.0);
            match name.filter(|_| chance.one_in(2)) {
                Some(place) => put(&mut out, mark, bits, place + 1),
                None => {
                    put(&mut out, mark, bits, 0);
                    say(&mut out, &field.0, chance);
                }
            }
            say(&mut out, &field.1, chance);
            if kept {
                self.insert(field.clone());
            }
        }
        out
    }
}

fn number(bytes: &mut &[u8], bits: u32) -> Result<usize, Wrong> {
    let most = (1_usize << bits) - 1;
    let mut next = || -> Result<usize, Wrong> {
        let (first, rest) = bytes.split_first().ok_or(Wrong::Broken)?;
        *bytes = rest;
        Ok(usize::from(*first))
    };
    let mut value = next()? & most;
    if value < most {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let byte = next()?;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Wrong::Broken)
}

fn string(bytes: &mut &[u8]) -> Result<Vec<u8>, Wrong> {
    let coded = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let size = number(bytes, 7)?;
    let (text, rest) = bytes.split_at_checked(size).ok_or(Wrong::Broken)?;
    *bytes = rest;
    if !coded {
        return Ok(text.to_vec());
    }
    let word = WORDS.iter().find(|(_, code)| *code == text);
    word.map(|(word, _)| word.to_vec()).ok_or(Wrong::Unclear)
}

fn put(out: &mut Vec<u8>, mark: u8, bits: u32, value: usize) {
    let most = (1_usize << bits) - 1;
    let low = |value: usize| u8::try_from(value & 0xff).unwrap();
    if value < most {
        out.push(mark | low(value));
        return;
    }
    out.push(mark | low(most));
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(0x80 | low(rest & 0x7f));
        rest >>= 7;
    }
    out.push(low(rest));
}

fn say(out: &mut Vec<u8>, text: &[u8], chance: &mut Chance) {
    match WORDS.iter().find(|(word, _)| *word == text) {
        Some((_, code)) if chance.one_in(2) => {
            put(out, 0x80, 7, code.len());
            out.extend_from_slice(code);
        }
        _ => {
            put(out, 0, 7, text.len());
            out.extend_from_slice(text);
        }
    }
}

const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];
