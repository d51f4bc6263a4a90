//! The three ways to write a scalar.

use zeroize::Zeroizing;

use super::{
    SyntaxError,
    scan::{Mark, Scanner, place_fault},
};

type Text = Zeroizing<String>;

/// Line breaks that were read, but may be folded into a space.
#[derive(Default)]
struct Breaks {
    first: String,
    more: String,
}

impl Breaks {
    /// Takes one more of them.
    fn add(&mut self, scanner: &mut Scanner<'_>, is_first: bool) {
        scanner.keep_break(if is_first { &mut self.first } else { &mut self.more });
    }

    /// One break is a space, more of them are one less; those of Unicode stay what they are.
    fn fold(&mut self, text: &mut String) {
        if !self.first.starts_with('\n') {
            text.push_str(&self.first);
            text.push_str(&self.more);
        } else if self.more.is_empty() {
            text.push(' ');
        } else {
            text.push_str(&self.more);
        }
        self.first.clear();
        self.more.clear();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

impl Scanner<'_> {
    /// `|` and `>`.
    pub(super) fn block_scalar(&mut self, literal: bool) -> Result<Text, SyntaxError> {
        let start = self.mark;
        self.skip();
        let (chomp, increment) = self.block_header(start)?;
        let mut indent = match increment {
            0 => 0,
            _ if self.indent >= 0 => self.indent + increment,
            _ => increment,
        };
        let mut text = Text::default();
        let mut breaks = Breaks::default();
        self.block_breaks(&mut indent, &mut breaks.more, start)?;
        let mut after_blank = false;
        while self.mark.column == indent && !self.is_end() {
            let blank = self.is_blank(0);
            if !literal && !after_blank && !blank && breaks.first.starts_with('\n') {
                if breaks.more.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&breaks.first);
            }
            text.push_str(&breaks.more);
            breaks = Breaks::default();
            after_blank = blank;
            while !self.is_break_or_end(0) {
                self.keep(&mut text);
                self.keep_ascii(&mut text, |_| true);
            }
            self.keep_break(&mut breaks.first);
            self.block_breaks(&mut indent, &mut breaks.more, start)?;
        }
        if chomp != Chomp::Strip {
            text.push_str(&breaks.first);
        }
        if chomp == Chomp::Keep {
            text.push_str(&breaks.more);
        }
        Ok(text)
    }

    /// What follows the sign up to the end of its line: chomping and indentation.
    fn block_header(&mut self, start: Mark) -> Result<(Chomp, isize), SyntaxError> {
        let mut chomp = None;
        let mut increment = 0;
        // In either order, each at most once.
        for _ in 0..2 {
            match self.byte(0) {
                b'+' if chomp.is_none() => chomp = Some(Chomp::Keep),
                b'-' if chomp.is_none() => chomp = Some(Chomp::Strip),
                b'0' if increment == 0 => {
                    return Err(place_fault("an indentation of 0 cannot be", start));
                }
                digit @ b'1'..=b'9' if increment == 0 => increment = isize::from(digit - b'0'),
                _ => break,
            }
            self.skip();
        }
        self.end_line()?;
        Ok((chomp.unwrap_or(Chomp::Clip), increment))
    }

    /// Skips indentation and empty lines, and detects the indentation if it is not given.
    fn block_breaks(
        &mut self,
        indent: &mut isize,
        breaks: &mut String,
        start: Mark,
    ) -> Result<(), SyntaxError> {
        let mut widest = 0;
        loop {
            while (*indent == 0 || self.mark.column < *indent) && self.byte(0) == b' ' {
                self.skip();
            }
            widest = widest.max(self.mark.column);
            if (*indent == 0 || self.mark.column < *indent) && self.byte(0) == b'\t' {
                return Err(place_fault("a tab stands where indentation is expected", start));
            }
            if !self.is_break(0) {
                break;
            }
            self.keep_break(breaks);
        }
        if *indent == 0 {
            *indent = widest.max(self.indent + 1).max(1);
        }
        Ok(())
    }

    /// `'…'` and `"…"`.
    pub(super) fn quoted_scalar(&mut self, single: bool) -> Result<Text, SyntaxError> {
        let start = self.mark;
        let quote = if single { b'\'' } else { b'"' };
        self.skip();
        let mut text = Text::default();
        let mut breaks = Breaks::default();
        let mut blanks = String::new();
        loop {
            self.need(4);
            if self.mark.column == 0 && self.at_document_mark() {
                return Err(self.error("a document ends inside of quotes"));
            }
            if self.is_end() {
                self.source.check(self.at)?;
                return Err(place_fault("a quote is never closed", start));
            }
            let mut broken = false;
            while !self.is_blank_or_end(0) {
                let byte = self.byte(0);
                if single && byte == quote && self.byte(1) == quote {
                    text.push('\'');
                    self.skip();
                    self.skip();
                } else if byte == quote {
                    break;
                } else if !single && byte == b'\\' {
                    if self.is_break(1) {
                        self.need(3);
                        self.skip();
                        self.skip_break();
                        broken = true;
                        break;
                    }
                    self.skip();
                    let character = self.escape()?;
                    text.push(character);
                } else {
                    self.keep(&mut text);
                    self.keep_ascii(&mut text, |byte| byte != quote && byte != b'\\');
                }
                self.need(2);
            }
            if self.byte(0) == quote {
                break;
            }
            self.white_space(&mut blanks, &mut breaks, &mut broken, 0)?;
            if broken {
                breaks.fold(&mut text);
            } else {
                text.push_str(&blanks);
            }
            blanks.clear();
        }
        self.skip();
        Ok(text)
    }

    /// What stands after a backslash.
    fn escape(&mut self) -> Result<char, SyntaxError> {
        let (character, digits) = match self.byte(0) {
            b'0' => ('\0', 0),
            b'a' => ('\u{7}', 0),
            b'b' => ('\u{8}', 0),
            b't' | b'\t' => ('\t', 0),
            b'n' => ('\n', 0),
            b'v' => ('\u{b}', 0),
            b'f' => ('\u{c}', 0),
            b'r' => ('\r', 0),
            b'e' => ('\u{1b}', 0),
            byte @ (b' ' | b'"' | b'\'' | b'\\') => (char::from(byte), 0),
            b'N' => ('\u{85}', 0),
            b'_' => ('\u{a0}', 0),
            b'L' => ('\u{2028}', 0),
            b'P' => ('\u{2029}', 0),
            b'x' => ('\0', 2),
            b'u' => ('\0', 4),
            b'U' => ('\0', 8),
            _ => return Err(self.error("unknown escape in quotes")),
        };
        self.skip();
        if digits == 0 {
            return Ok(character);
        }
        self.need(digits);
        let mut code = 0;
        for _ in 0..digits {
            let Some(digit) = char::from(self.byte(0)).to_digit(16) else {
                return Err(self.error("an escape has too few hexadecimal digits"));
            };
            code = code << 4 | digit;
            self.skip();
        }
        char::from_u32(code).ok_or_else(|| self.error("an escape names no character"))
    }

    /// Without quotes.
    pub(super) fn plain_scalar(&mut self) -> Result<Text, SyntaxError> {
        let indent = self.indent + 1;
        let mut text = Text::default();
        let mut breaks = Breaks::default();
        let mut blanks = String::new();
        let mut broken = false;
        loop {
            self.need(4);
            if self.mark.column == 0 && self.at_document_mark() || self.byte(0) == b'#' {
                break;
            }
            while !self.is_blank_or_end(0) && !self.ends_plain() {
                if broken {
                    breaks.fold(&mut text);
                    broken = false;
                } else {
                    text.push_str(&blanks);
                }
                blanks.clear();
                self.keep(&mut text);
                self.keep_ascii(&mut text, |byte| !b":,?[]{}".contains(&byte));
                self.need(2);
            }
            if !(self.is_blank(0) || self.is_break(0)) {
                break;
            }
            self.white_space(&mut blanks, &mut breaks, &mut broken, indent)?;
            if self.flow == 0 && self.mark.column < indent {
                break;
            }
        }
        if broken {
            self.key_allowed = true;
        }
        Ok(text)
    }

    /// Reads blanks and line breaks between two words of a scalar. After a line break, a tab below
    /// `indent` is a fault.
    fn white_space(
        &mut self,
        blanks: &mut String,
        breaks: &mut Breaks,
        broken: &mut bool,
        indent: isize,
    ) -> Result<(), SyntaxError> {
        while self.is_blank(0) || self.is_break(0) {
            if self.is_break(0) {
                blanks.clear();
                breaks.add(self, !*broken);
                *broken = true;
            } else if !*broken {
                self.keep(blanks);
            } else if self.mark.column < indent && self.byte(0) == b'\t' {
                return Err(self.error("a tab stands where indentation is expected"));
            } else {
                self.skip();
            }
        }
        Ok(())
    }

    fn ends_plain(&self) -> bool {
        match self.byte(0) {
            b':' => self.is_blank_or_end(1),
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => self.flow > 0,
            _ => false,
        }
    }
}
