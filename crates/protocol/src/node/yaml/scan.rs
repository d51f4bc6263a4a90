//! Text to tokens. YAML says what is a key only after the fact, so tokens wait in a queue for as
//! long as one of them may still turn out to begin one.

use std::collections::{HashMap, VecDeque};

use zeroize::Zeroizing;

use super::{SyntaxError, fault, source::Source, window::Window};

/// A place in the text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Characters before it.
    pub(super) index: usize,
    /// Counted from 0.
    pub(super) line: usize,
    /// Counted from 0. It may be compared with an indentation, which is -1 outside of everything.
    pub(super) column: isize,
}

pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) mark: Mark,
    /// The bytes that it stands in; none for what only indentation says.
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    StreamEnd,
    Version(u8, u8),
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { text: Zeroizing<String>, plain: bool },
}

/// A token that may begin a key.
struct Candidate {
    possible: bool,
    /// Nothing else than a key can stand there.
    required: bool,
    /// The number of the token.
    token: usize,
    mark: Mark,
}

pub(super) struct Scanner<'a> {
    pub(super) source: &'a Source<'a>,
    /// Bytes before the place where we read.
    pub(super) at: usize,
    pub(super) mark: Mark,
    /// Where the token begins that is being read.
    start: usize,
    /// Where the last token ended that was taken.
    pub(super) end: usize,
    pub(super) window: Window,
    tokens: VecDeque<Token>,
    /// How many tokens were taken from the queue.
    taken: usize,
    /// Depth of `[` and `{`.
    pub(super) flow: usize,
    pub(super) indent: isize,
    indents: Vec<isize>,
    pub(super) key_allowed: bool,
    /// One for each level of flow, and one for what is around them.
    candidates: Vec<Candidate>,
    /// The candidates that tokens wait for, by the number of their token.
    awaited: HashMap<usize, usize>,
    /// Whether the first token in the queue waits for nothing more.
    ready: bool,
}

impl Candidate {
    fn none(token: usize, mark: Mark) -> Self {
        Self { possible: false, required: false, token, mark }
    }
}

impl<'a> Scanner<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        let mark = Mark::default();
        Self {
            source,
            at: 0,
            mark,
            start: 0,
            end: 0,
            window: Window::default(),
            tokens: VecDeque::new(),
            taken: 0,
            flow: 0,
            indent: -1,
            indents: Vec::new(),
            key_allowed: true,
            candidates: vec![Candidate::none(0, mark)],
            awaited: HashMap::new(),
            ready: false,
        }
    }

    /// The next token, which stays where it is.
    pub(super) fn peek(&mut self) -> Result<&Token, SyntaxError> {
        if !self.ready {
            while self.tokens.is_empty() || self.may_become_key()? {
                self.fetch()?;
            }
            self.ready = true;
        }
        Ok(&self.tokens[0])
    }

    /// Takes the next token.
    pub(super) fn take(&mut self) -> Result<Token, SyntaxError> {
        self.peek()?;
        self.ready = false;
        self.taken += 1;
        // Filled by `peek`; an end would do as well as any other token.
        let end = Token { kind: TokenKind::StreamEnd, mark: self.mark, start: self.at, end: 0 };
        let token = self.tokens.pop_front().unwrap_or(end);
        self.end = self.end.max(token.end);
        Ok(token)
    }

    /// Whether the first token in the queue may still get a key before it.
    fn may_become_key(&mut self) -> Result<bool, SyntaxError> {
        match self.awaited.get(&self.taken) {
            Some(&index) => self.is_valid(index),
            None => Ok(false),
        }
    }

    /// A key ends on its line and within 1024 characters.
    fn is_valid(&mut self, index: usize) -> Result<bool, SyntaxError> {
        let here = self.mark;
        let candidate = &mut self.candidates[index];
        if !candidate.possible {
            return Ok(false);
        }
        if candidate.mark.line < here.line || candidate.mark.index + 1024 < here.index {
            if candidate.required {
                return Err(self.error(NO_COLON));
            }
            candidate.possible = false;
        }
        Ok(candidate.possible)
    }

    /// Remembers that a key may begin here.
    fn save_candidate(&mut self) -> Result<(), SyntaxError> {
        if !self.key_allowed {
            return Ok(());
        }
        let required = self.flow == 0 && self.indent == self.mark.column;
        let token = self.taken + self.tokens.len();
        self.drop_candidate()?;
        let last = self.candidates.len() - 1;
        self.candidates[last] = Candidate { possible: true, required, token, mark: self.mark };
        self.awaited.insert(token, last);
        Ok(())
    }

    fn drop_candidate(&mut self) -> Result<(), SyntaxError> {
        if let Some(last) = self.candidates.last_mut() {
            if last.possible && last.required {
                return Err(self.error(NO_COLON));
            }
            if std::mem::take(&mut last.possible) {
                self.awaited.remove(&last.token);
            }
        }
        Ok(())
    }

    /// Reads one more token, and what must stand around it, into the queue.
    fn fetch(&mut self) -> Result<(), SyntaxError> {
        self.skip_to_token();
        if self.at >= self.source.text.len() {
            self.source.check(self.at)?;
            return self.fetch_end();
        }
        self.start = self.at;
        self.unroll(self.mark.column);
        self.need(4);
        let first = self.byte(0);
        let line_start = self.mark.column == 0;
        if line_start && first == b'%' {
            self.leave_document()?;
            let mark = self.mark;
            let kind = self.directive()?;
            self.push(kind, mark);
            return Ok(());
        }
        if line_start && self.at_document_mark() {
            self.leave_document()?;
            let kind =
                if first == b'-' { TokenKind::DocumentStart } else { TokenKind::DocumentEnd };
            self.push_sign(kind, 3);
            return Ok(());
        }
        let next_blank = self.is_blank_or_end(1);
        match first {
            b'[' => self.open_flow(TokenKind::FlowSequenceStart),
            b'{' => self.open_flow(TokenKind::FlowMappingStart),
            b']' => self.close_flow(TokenKind::FlowSequenceEnd),
            b'}' => self.close_flow(TokenKind::FlowMappingEnd),
            b',' => {
                self.drop_candidate()?;
                self.key_allowed = true;
                self.push_sign(TokenKind::FlowEntry, 1);
                Ok(())
            }
            b'-' if next_blank => self.block_entry(),
            b'?' if next_blank || self.flow > 0 => self.key(),
            b':' if next_blank || self.flow > 0 => self.value(),
            b'*' => self.fetch_node(|scanner| scanner.anchor().map(TokenKind::Alias)),
            b'&' => self.fetch_node(|scanner| scanner.anchor().map(TokenKind::Anchor)),
            b'!' => self.fetch_node(Self::tag),
            b'|' | b'>' if self.flow == 0 => {
                self.drop_candidate()?;
                self.key_allowed = true;
                let mark = self.mark;
                let text = self.block_scalar(first == b'|')?;
                self.push(TokenKind::Scalar { text, plain: false }, mark);
                Ok(())
            }
            b'\'' | b'"' => self.fetch_node(|scanner| {
                let text = scanner.quoted_scalar(first == b'\'')?;
                Ok(TokenKind::Scalar { text, plain: false })
            }),
            _ if self.starts_plain(first) => self.fetch_node(|scanner| {
                Ok(TokenKind::Scalar { text: scanner.plain_scalar()?, plain: true })
            }),
            b'\t' => {
                Err(self.error("a tab stands where only spaces can: YAML is not indented by tabs"))
            }
            _ => Err(self.error("no value can begin with this character")),
        }
    }

    /// Reads a token that may begin a key, and after which none can begin.
    fn fetch_node(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<TokenKind, SyntaxError>,
    ) -> Result<(), SyntaxError> {
        self.save_candidate()?;
        self.key_allowed = false;
        let mark = self.mark;
        let kind = read(self)?;
        self.push(kind, mark);
        Ok(())
    }

    /// White space, comments and line breaks. Tabs do not count as white space where they could
    /// be taken for indentation.
    fn skip_to_token(&mut self) {
        self.need(1);
        loop {
            if self.loses_character() {
                self.skip();
            }
            while self.byte(0) == b' '
                || self.byte(0) == b'\t' && (self.flow > 0 || !self.key_allowed)
            {
                self.skip();
            }
            if self.byte(0) == b'#' {
                self.skip_comment();
            }
            if !self.is_break(0) {
                return;
            }
            self.skip_break();
            if self.flow == 0 {
                self.key_allowed = true;
            }
        }
    }

    fn starts_plain(&self, first: u8) -> bool {
        match first {
            b'-' => !matches!(self.byte(1), b' ' | b'\t'),
            b'?' | b':' => self.flow == 0 && !self.is_blank_or_end(1),
            _ => !self.is_blank_or_end(0) && !b",[]{}#&*!|>'\"%@`".contains(&first),
        }
    }

    fn fetch_end(&mut self) -> Result<(), SyntaxError> {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
        self.leave_document()?;
        self.push(TokenKind::StreamEnd, self.mark);
        Ok(())
    }

    fn leave_document(&mut self) -> Result<(), SyntaxError> {
        self.unroll(-1);
        self.drop_candidate()?;
        self.key_allowed = false;
        Ok(())
    }

    fn open_flow(&mut self, kind: TokenKind) -> Result<(), SyntaxError> {
        self.save_candidate()?;
        let (token, mark) = (self.taken + self.tokens.len(), self.mark);
        self.candidates.push(Candidate::none(token, mark));
        self.flow += 1;
        self.key_allowed = true;
        self.push_sign(kind, 1);
        Ok(())
    }

    fn close_flow(&mut self, kind: TokenKind) -> Result<(), SyntaxError> {
        self.drop_candidate()?;
        if self.flow > 0
            && let Some(inner) = self.candidates.pop()
        {
            self.flow -= 1;
            // As in the reference: nobody waits to see whether an empty flow is a key.
            self.awaited.remove(&inner.token);
        }
        self.key_allowed = false;
        self.push_sign(kind, 1);
        Ok(())
    }

    fn block_entry(&mut self) -> Result<(), SyntaxError> {
        self.begin_block(TokenKind::BlockSequenceStart, "no list can begin here")?;
        self.drop_candidate()?;
        self.key_allowed = true;
        self.push_sign(TokenKind::BlockEntry, 1);
        Ok(())
    }

    fn key(&mut self) -> Result<(), SyntaxError> {
        self.begin_block(TokenKind::BlockMappingStart, "no key can stand here")?;
        self.drop_candidate()?;
        self.key_allowed = self.flow == 0;
        self.push_sign(TokenKind::Key, 1);
        Ok(())
    }

    fn value(&mut self) -> Result<(), SyntaxError> {
        let last = self.candidates.len() - 1;
        if self.is_valid(last)? {
            let Candidate { token, mark, .. } = self.candidates[last];
            // A token that nobody waited for is gone; then its key comes late.
            let place = token.checked_sub(self.taken);
            self.insert(place, TokenKind::Key, mark);
            self.roll(mark, place, TokenKind::BlockMappingStart);
            self.candidates[last].possible = false;
            self.awaited.remove(&token);
            self.key_allowed = false;
        } else {
            self.begin_block(TokenKind::BlockMappingStart, "no value can stand here")?;
            self.key_allowed = self.flow == 0;
        }
        self.push_sign(TokenKind::Value, 1);
        Ok(())
    }

    /// Opens a block here if it is indented more than the block around it. `wrong` is the fault where
    /// none can begin.
    fn begin_block(&mut self, kind: TokenKind, wrong: &str) -> Result<(), SyntaxError> {
        if self.flow == 0 {
            if !self.key_allowed {
                return Err(self.error(wrong));
            }
            self.roll(self.mark, None, kind);
        }
        Ok(())
    }

    /// Opens a block if `mark` is indented more than the block around it.
    fn roll(&mut self, mark: Mark, place: Option<usize>, kind: TokenKind) {
        if self.flow > 0 || self.indent >= mark.column {
            return;
        }
        self.indents.push(self.indent);
        self.indent = mark.column;
        self.insert(place, kind, mark);
    }

    /// Puts a token at a place of the queue, or at its end.
    fn insert(&mut self, place: Option<usize>, kind: TokenKind, mark: Mark) {
        let end = self.tokens.len();
        let token = Token { kind, mark, start: self.start, end: 0 };
        self.tokens.insert(place.unwrap_or(end).min(end), token);
    }

    /// Closes the blocks that are indented more than `column`.
    fn unroll(&mut self, column: isize) {
        while self.flow == 0 && self.indent > column {
            self.push_until(TokenKind::BlockEnd, self.mark, 0);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn push(&mut self, kind: TokenKind, mark: Mark) {
        self.push_until(kind, mark, self.at);
    }

    fn push_until(&mut self, kind: TokenKind, mark: Mark, end: usize) {
        self.tokens.push_back(Token { kind, mark, start: self.start, end });
    }

    /// A token of as many ASCII characters.
    fn push_sign(&mut self, kind: TokenKind, width: usize) {
        self.push_until(kind, self.mark, self.at + width);
        (0..width).for_each(|_| self.skip());
    }

    pub(super) fn error(&self, what: &str) -> SyntaxError {
        place_fault(what, self.mark)
    }
}

const NO_COLON: &str = "a key without its `:`";

/// A fault with its place counted as people do.
pub(super) fn place_fault(what: &str, mark: Mark) -> SyntaxError {
    let (line, column) = place(mark);
    fault(what, line, column)
}

pub(super) fn place(mark: Mark) -> (u32, u32) {
    let line = u32::try_from(mark.line + 1).unwrap_or(u32::MAX);
    (line, u32::try_from(mark.column + 1).unwrap_or(u32::MAX))
}
