//! Escapes: which part of a URL needs them for what.

use super::UrlError;

/// The part of a URL that an escape stands in: each has its own rules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Path,
    Host,
    Zone,
    User,
    Fragment,
}

/// Resolves the escapes of a part, refusing what may not stand there.
pub(super) fn unescape(text: &str, part: Part) -> Result<Vec<u8>, UrlError> {
    const BAD: UrlError = UrlError("a `%` that is not an escape");
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (high, low) = (hex(bytes.next()), hex(bytes.next()));
            let value = high.zip(low).map(|(h, l)| h << 4 | l).ok_or(BAD)?;
            let percent = value == b'%';
            match part {
                // A host may only escape what is not ASCII; and a percent sign.
                Part::Host if value < 0x80 && !percent => return Err(BAD),
                Part::Zone if !percent && value != b' ' && escapes(value, Part::Host) => {
                    return Err(BAD);
                }
                _ => out.push(value),
            }
        } else {
            if matches!(part, Part::Host | Part::Zone) && byte < 0x80 && escapes(byte, part) {
                return Err(UrlError("a character that a host cannot have"));
            }
            out.push(byte);
        }
    }
    Ok(out)
}

fn hex(byte: Option<u8>) -> Option<u8> {
    let digit = char::from(byte?).to_digit(16)?;
    u8::try_from(digit).ok()
}

/// The part as it would be printed: as it was written if that is a valid spelling, else escaped
/// afresh. The text was accepted by [`unescape`] before.
pub(super) fn canonical(text: &str, part: Part) -> String {
    let valid = text.bytes().all(|b| {
        is_delimiter(b) || matches!(b, b':' | b'@' | b'[' | b']' | b'%') || !escapes(b, part)
    });
    if valid || text == "*" {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    push_escaped(&mut out, &unescape(text, part).unwrap_or_default(), part);
    out
}

/// Adds bytes, escaped where the part needs it.
pub(super) fn push_escaped(out: &mut String, bytes: &[u8], part: Part) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in bytes {
        if escapes(byte, part) {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        } else {
            out.push(char::from(byte));
        }
    }
}

/// Whether a byte is one of the `sub-delims` of RFC 3986.
fn is_delimiter(byte: u8) -> bool {
    b"!$&'()*+,;=".contains(&byte)
}

/// Whether a byte must be escaped in a part.
fn escapes(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
        return false;
    }
    match part {
        Part::Host | Part::Zone => {
            !is_delimiter(byte) && !matches!(byte, b':' | b'[' | b']' | b'<' | b'>' | b'"')
        }
        Part::Path => !matches!(byte, b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@'),
        Part::User => !matches!(byte, b'$' | b'&' | b'+' | b',' | b';' | b'='),
        Part::Fragment => !matches!(
            byte,
            b'$' | b'&'
                | b'+'
                | b','
                | b'/'
                | b':'
                | b';'
                | b'='
                | b'?'
                | b'@'
                | b'!'
                | b'('
                | b')'
                | b'*'
        ),
    }
}
