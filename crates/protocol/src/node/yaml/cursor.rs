//! Looking at the text and stepping over it.

use super::{SyntaxError, scan::Scanner};

impl Scanner<'_> {
    /// The byte that stands `ahead` of us; NUL, which no text has, after the end.
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        self.source.text.as_bytes().get(self.at + ahead).copied().unwrap_or_default()
    }

    pub(super) fn is_end(&self) -> bool {
        self.at >= self.source.text.len()
    }

    /// How wide a line break at `ahead` is; 0 when there is none.
    fn break_width(&self, ahead: usize) -> usize {
        match (self.byte(ahead), self.byte(ahead + 1), self.byte(ahead + 2)) {
            (b'\r', b'\n', _) | (0xc2, 0x85, _) => 2,
            (b'\r' | b'\n', ..) => 1,
            (0xe2, 0x80, 0xa8 | 0xa9) => 3,
            _ => 0,
        }
    }

    pub(super) fn is_break(&self, ahead: usize) -> bool {
        self.break_width(ahead) > 0
    }

    pub(super) fn is_break_or_end(&self, ahead: usize) -> bool {
        self.byte(ahead) == 0 || self.is_break(ahead)
    }

    pub(super) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t')
    }

    pub(super) fn is_blank_or_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break_or_end(ahead)
    }

    /// Whether `---` or `...` stands here by itself.
    pub(super) fn at_document_mark(&self) -> bool {
        let marks = [self.byte(0), self.byte(1), self.byte(2)];
        (marks == *b"---" || marks == *b"...") && self.is_blank_or_end(3)
    }

    /// Steps over one character.
    pub(super) fn skip(&mut self) {
        self.at += 1;
        while self.byte(0) & 0xc0 == 0x80 {
            self.at += 1;
        }
        self.mark.index += 1;
        self.mark.column += 1;
        self.need(1);
    }

    /// Steps over one character and keeps it.
    pub(super) fn keep(&mut self, text: &mut String) {
        let start = self.at;
        self.skip();
        text.push_str(&self.source.text[start..self.at]);
    }

    /// Steps over ASCII characters for as long as they `fit`, and keeps them. Nearly all text is
    /// of this kind, and this is much faster than one character at a time.
    pub(super) fn keep_ascii(&mut self, text: &mut String, fit: impl Fn(u8) -> bool) {
        if self.source.marked {
            return;
        }
        let rest = &self.source.text.as_bytes()[self.at..];
        let fits = |byte: &u8| byte.is_ascii_graphic() && fit(*byte);
        let width = rest.iter().take_while(|byte| fits(byte)).count();
        text.push_str(&self.source.text[self.at..self.at + width]);
        self.at += width;
        self.mark.index += width;
        self.mark.column += width.cast_signed();
    }

    pub(super) fn skip_break(&mut self) {
        self.need(2);
        let width = self.break_width(0);
        if width == 0 {
            return;
        }
        self.mark.index += if self.byte(0) == b'\r' && width == 2 { 2 } else { 1 };
        self.at += width;
        self.mark.column = 0;
        self.mark.line += 1;
        self.need(1);
    }

    /// Steps over a line break and keeps it; those of ASCII and NEL become `\n`.
    pub(super) fn keep_break(&mut self, text: &mut String) {
        self.need(2);
        match self.break_width(0) {
            0 => return,
            3 => text.push_str(&self.source.text[self.at..self.at + 3]),
            _ => text.push('\n'),
        }
        self.skip_break();
    }

    pub(super) fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.skip();
        }
    }

    /// Steps over the rest of a line, which may have a comment and nothing else.
    pub(super) fn end_line(&mut self) -> Result<(), SyntaxError> {
        self.skip_blanks();
        if self.byte(0) == b'#' {
            self.skip_comment();
        }
        if !self.is_break_or_end(0) {
            return Err(self.error("a comment or the end of the line was expected here"));
        }
        self.skip_break();
        Ok(())
    }

    pub(super) fn skip_comment(&mut self) {
        while !self.is_break_or_end(0) {
            self.skip();
        }
    }
}
