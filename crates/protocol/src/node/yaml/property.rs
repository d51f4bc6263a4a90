//! Anchors, tags and directives.

use super::{
    SyntaxError,
    scan::{Scanner, TokenKind},
};

impl Scanner<'_> {
    /// The name after `&` or `*`.
    pub(super) fn anchor(&mut self) -> Result<String, SyntaxError> {
        self.skip();
        let name = self.word();
        let ended = self.is_blank_or_end(0) || b"?:,]}%@`".contains(&self.byte(0));
        if name.is_empty() || !ended {
            return Err(self.error("a name of letters and digits was expected here"));
        }
        Ok(name)
    }

    /// `!suffix`, `!handle!suffix` or `!<suffix>`.
    pub(super) fn tag(&mut self) -> Result<TokenKind, SyntaxError> {
        let (handle, suffix);
        self.need(2);
        if self.byte(1) == b'<' {
            self.skip();
            self.skip();
            (handle, suffix) = (String::new(), self.uri("")?);
            if self.byte(0) != b'>' {
                return Err(self.error("a tag was never closed by `>`"));
            }
            self.skip();
        } else {
            let head = self.tag_handle(false)?;
            if head.len() > 1 && head.ends_with('!') {
                (handle, suffix) = (head, self.uri("")?);
            } else {
                let rest = self.uri(&head)?;
                // A lone `!` is a tag without handle.
                (handle, suffix) =
                    if rest.is_empty() { (String::new(), head) } else { ("!".to_owned(), rest) };
            }
        }
        if !self.is_blank_or_end(0) {
            return Err(self.error("a space or the end of the line was expected after a tag"));
        }
        Ok(TokenKind::Tag { handle, suffix })
    }

    /// A line that begins with `%`.
    pub(super) fn directive(&mut self) -> Result<TokenKind, SyntaxError> {
        self.skip();
        let name = self.word();
        if !self.is_blank_or_end(0) {
            return Err(self.error("unknown directive"));
        }
        let kind = match name.as_str() {
            "YAML" => {
                self.skip_blanks();
                let major = self.version_number()?;
                if self.byte(0) != b'.' {
                    return Err(self.error("a version was expected here"));
                }
                self.skip();
                TokenKind::Version(major, self.version_number()?)
            }
            "TAG" => {
                self.skip_blanks();
                let handle = self.tag_handle(true)?;
                if !self.is_blank(0) {
                    return Err(self.error("a space was expected here"));
                }
                self.skip_blanks();
                let prefix = self.uri("")?;
                if !self.is_blank_or_end(0) {
                    return Err(self.error("a space or the end of the line was expected here"));
                }
                TokenKind::TagDirective { handle, prefix }
            }
            _ => return Err(self.error("unknown directive")),
        };
        self.end_line()?;
        Ok(kind)
    }

    fn version_number(&mut self) -> Result<u8, SyntaxError> {
        let mut number = 0;
        let mut length = 0;
        while self.byte(0).is_ascii_digit() {
            length += 1;
            if length > 2 {
                break;
            }
            number = number * 10 + (self.byte(0) - b'0');
            self.skip();
        }
        if !(1..=2).contains(&length) {
            return Err(self.error("a version was expected here"));
        }
        Ok(number)
    }

    fn tag_handle(&mut self, directive: bool) -> Result<String, SyntaxError> {
        if self.byte(0) != b'!' {
            return Err(self.error("`!` was expected here"));
        }
        let mut handle = String::new();
        self.keep(&mut handle);
        handle += &self.word();
        if self.byte(0) == b'!' {
            self.keep(&mut handle);
        } else if directive && handle != "!" {
            return Err(self.error("`!` was expected here"));
        }
        Ok(handle)
    }

    /// The rest of a tag; `head` is what was read of it already, with its `!`.
    fn uri(&mut self, head: &str) -> Result<String, SyntaxError> {
        let mut uri = head.get(1..).unwrap_or_default().as_bytes().to_vec();
        let mut any = !head.is_empty();
        loop {
            match self.byte(0) {
                b'%' => self.uri_escape(&mut uri)?,
                byte if is_word(byte) || b";/?:@&=+$,.!~*'()[]".contains(&byte) => {
                    uri.push(byte);
                    self.skip();
                }
                _ => break,
            }
            any = true;
        }
        if !any {
            return Err(self.error("a tag was expected here"));
        }
        Ok(String::from_utf8_lossy(&uri).into_owned())
    }

    /// One character in `%XX`.
    fn uri_escape(&mut self, uri: &mut Vec<u8>) -> Result<(), SyntaxError> {
        let mut left = None;
        while left != Some(0) {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
            self.need(3);
            let octet = match (self.byte(0), digit(self.byte(1)), digit(self.byte(2))) {
                (b'%', Some(high), Some(low)) => high << 4 | low,
                _ => return Err(self.error("`%` must be followed by two hexadecimal digits")),
            };
            let width = match (left, octet) {
                (Some(left), 0x80..=0xbf) => left,
                (None, 0..=0x7f) => 1,
                (None, 0xc0..=0xdf) => 2,
                (None, 0xe0..=0xef) => 3,
                (None, 0xf0..=0xf7) => 4,
                _ => return Err(self.error("escapes in a tag are not UTF-8")),
            };
            left = Some(width - 1);
            uri.push(octet);
            (0..3).for_each(|_| self.skip());
        }
        Ok(())
    }

    fn word(&mut self) -> String {
        let mut word = String::new();
        while is_word(self.byte(0)) {
            self.keep(&mut word);
        }
        word
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
