//! Tokens to raw nodes, aliases not followed yet.

use std::{collections::HashMap, ops::Range, rc::Rc};

use zeroize::Zeroizing;

use super::{
    super::budget::{Budget, Exceeded},
    MAX_DEPTH, SyntaxError,
    scan::{Mark, Scanner, TokenKind, place, place_fault},
    source::Source,
};

/// A node as it was written.
pub(super) struct Raw {
    pub(super) kind: Kind,
    pub(super) line: u32,
    pub(super) column: u32,
}

pub(super) enum Kind {
    Scalar {
        text: Zeroizing<String>,
        /// The number of the tag among the document's, counted from 1; 0 is none. Few nodes have one.
        tag: u32,
        /// A plain scalar: its text decides the type.
        plain: bool,
    },
    List(Rc<[u32]>),
    /// Keys and values in turn.
    Map(Rc<[u32]>),
    Alias {
        target: u32,
        /// Being followed right now.
        open: bool,
    },
}

/// The raw nodes of a document.
pub(super) struct Document {
    pub(super) raws: Vec<Raw>,
    pub(super) tags: Vec<Box<str>>,
    pub(super) root: u32,
    /// Whether any node has an anchor, so that nodes may be visited more than once.
    pub(super) shared: bool,
    /// What is left after all this.
    pub(super) budget: Budget,
    /// The bytes of each node's content, without its anchor and tag, if they were asked for.
    pub(super) spans: Vec<Range<usize>>,
}

/// Reads the first document of a stream, if there is one. What follows it is not looked at.
/// `spanned` asks where the nodes stand.
pub(super) fn document(
    source: &Source<'_>,
    mut budget: Budget,
    spanned: bool,
) -> Result<Option<Document>, SyntaxError> {
    // Few documents have more nodes than that, and what is not used costs nothing.
    let guess = source.text.len() / 16;
    let _ = budget.spend(guess * size_of::<Raw>());
    let mut parser = Parser {
        scanner: Scanner::new(source),
        raws: Vec::with_capacity(guess),
        tags: Vec::new(),
        anchors: HashMap::new(),
        handles: HashMap::new(),
        depth: 0,
        budget,
        spans: spanned.then(Vec::new),
    };
    let Some(root) = parser.root()? else { return Ok(None) };
    // The end must be readable, whatever it is.
    parser.scanner.peek()?;
    source.check(parser.scanner.at + 3)?;
    let shared = !parser.anchors.is_empty();
    let Parser { raws, tags, budget, spans, .. } = parser;
    let spans = spans.unwrap_or_default();
    Ok(Some(Document { raws, tags, root, shared, budget, spans }))
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    raws: Vec<Raw>,
    tags: Vec<Box<str>>,
    anchors: HashMap<String, u32>,
    /// What tags may begin with, and what that stands for.
    handles: HashMap<String, String>,
    depth: usize,
    budget: Budget,
    /// Where the nodes stand, for whoever asked.
    spans: Option<Vec<Range<usize>>>,
}

impl Parser<'_> {
    fn root(&mut self) -> Result<Option<u32>, SyntaxError> {
        use TokenKind::{DocumentEnd, DocumentStart, StreamEnd, TagDirective, Version};

        let explicit = match self.scanner.peek()?.kind {
            StreamEnd => return Ok(None),
            Version(..) | TagDirective { .. } | DocumentStart => true,
            _ => false,
        };
        self.directives()?;
        if explicit {
            let token = self.scanner.take()?;
            if token.kind != DocumentStart {
                return Err(place_fault("`---` was expected here", token.mark));
            }
            let next = self.scanner.peek()?;
            if let Version(..) | TagDirective { .. } | DocumentStart | DocumentEnd | StreamEnd =
                next.kind
            {
                let mark = next.mark;
                return self.empty(mark).map(Some);
            }
        }
        self.node(true, false).map(Some)
    }

    fn directives(&mut self) -> Result<(), SyntaxError> {
        let mut version_seen = false;
        while let TokenKind::Version(..) | TokenKind::TagDirective { .. } =
            &self.scanner.peek()?.kind
        {
            let token = self.scanner.take()?;
            match token.kind {
                TokenKind::Version(1, 1) if !version_seen => version_seen = true,
                TokenKind::TagDirective { handle, prefix } if self.handle(&handle).is_none() => {
                    self.spend(IN_MAP + handle.capacity() + prefix.capacity())?;
                    self.handles.insert(handle, prefix);
                }
                TokenKind::Version(1, 1) | TokenKind::TagDirective { .. } => {
                    return Err(place_fault("the same directive twice", token.mark));
                }
                _ => return Err(place_fault("this is not YAML 1.1", token.mark)),
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if self.handle(handle).is_none() {
                self.handles.insert(handle.to_owned(), prefix.to_owned());
            }
        }
        Ok(())
    }

    fn handle(&self, wanted: &str) -> Option<&str> {
        self.handles.get(wanted).map(String::as_str)
    }

    /// A node. `block` allows indented lists and mappings, `indentless` a list at the indentation of
    /// the key it belongs to.
    fn node(&mut self, block: bool, indentless: bool) -> Result<u32, SyntaxError> {
        let mark = self.scanner.peek()?.mark;
        if let TokenKind::Alias(_) = self.scanner.peek()?.kind {
            return self.alias();
        }
        let (anchor, tag) = self.properties(mark)?;
        let token = self.scanner.peek()?;
        let (next, start) = (token.mark, token.start);
        let fits = match &token.kind {
            TokenKind::Scalar { .. }
            | TokenKind::FlowSequenceStart
            | TokenKind::FlowMappingStart => true,
            TokenKind::BlockEntry => indentless,
            TokenKind::BlockSequenceStart | TokenKind::BlockMappingStart => block,
            _ => false,
        };
        let named = anchor.is_some() || tag.is_some();
        if !fits && !named {
            return Err(place_fault("a value was expected here", next));
        }
        // The anchor is known inside of its own node, if only to be refused there.
        let implicit = tag.is_none();
        let index = self.begin(anchor, tag, implicit, mark)?;
        if !fits {
            return Ok(index);
        }
        if self.depth >= MAX_DEPTH {
            return Err(place_fault("nested too deeply", next));
        }
        self.depth += 1;
        self.content(index)?;
        self.depth -= 1;
        self.note_span(index, start);
        Ok(index)
    }

    fn note_span(&mut self, index: u32, start: usize) {
        let end = self.scanner.end;
        if let Some(span) = self.spans.as_mut().and_then(|spans| spans.get_mut(index as usize)) {
            *span = start..end;
        }
    }

    /// Reads what the next token begins into the node at `index`.
    fn content(&mut self, index: u32) -> Result<(), SyntaxError> {
        let (children, list) = match &self.scanner.peek()?.kind {
            TokenKind::BlockEntry => (self.indentless_list()?, true),
            TokenKind::FlowSequenceStart => (self.flow_list()?, true),
            TokenKind::FlowMappingStart => (self.flow_map()?, false),
            TokenKind::BlockSequenceStart => (self.block_list()?, true),
            TokenKind::BlockMappingStart => (self.block_map()?, false),
            _ => return self.scalar(index),
        };
        self.end(index, children, list)
    }

    /// A node of which anchor and tag are known. A function of its own, as [`Parser::end`] is: what calls
    /// them is on the stack once for every level.
    #[inline(never)]
    fn begin(
        &mut self,
        anchor: Option<String>,
        tag: Option<String>,
        implicit: bool,
        mark: Mark,
    ) -> Result<u32, SyntaxError> {
        let tag = tag.map_or(Ok(0), |tag| self.add_tag(tag))?;
        let index = self.add(empty_scalar(tag, implicit), mark)?;
        if let Some(anchor) = anchor {
            self.spend(IN_MAP + anchor.capacity())?;
            self.anchors.insert(anchor, index);
        }
        Ok(index)
    }

    /// Puts what stands in it into a list or mapping.
    #[inline(never)]
    fn end(&mut self, index: u32, children: Vec<u32>, list: bool) -> Result<(), SyntaxError> {
        self.spend(size_of_val(children.as_slice()) + 16)?;
        self.budget.give(children.capacity() * size_of::<u32>());
        let children = children.into();
        let kind = if list { Kind::List(children) } else { Kind::Map(children) };
        self.raws[index as usize].kind = kind;
        Ok(())
    }

    fn scalar(&mut self, index: u32) -> Result<(), SyntaxError> {
        let token = self.scanner.take()?;
        if let TokenKind::Scalar { text, .. } = &token.kind {
            self.spend(text.capacity())?;
        }
        if let (
            TokenKind::Scalar { text: written, plain: unquoted },
            Kind::Scalar { text, tag, plain },
        ) = (token.kind, &mut self.raws[index as usize].kind)
        {
            *plain = match tag_of(&self.tags, *tag) {
                None => unquoted,
                Some(tag) => tag == "!",
            };
            *text = written;
        }
        Ok(())
    }

    fn alias(&mut self) -> Result<u32, SyntaxError> {
        let token = self.scanner.take()?;
        let target = match &token.kind {
            TokenKind::Alias(name) => self.anchors.get(name),
            _ => None,
        };
        let Some(&target) = target else {
            return Err(place_fault("an alias has no anchor before it", token.mark));
        };
        self.add(Kind::Alias { target, open: false }, token.mark)
    }

    /// An anchor and a tag, in either order, each at most once.
    fn properties(&mut self, start: Mark) -> Result<(Option<String>, Option<String>), SyntaxError> {
        let (mut anchor, mut tag) = (None, None);
        loop {
            match &self.scanner.peek()?.kind {
                TokenKind::Anchor(_) if anchor.is_none() => {}
                TokenKind::Tag { .. } if tag.is_none() => {}
                _ => return Ok((anchor, tag)),
            }
            match self.scanner.take()?.kind {
                TokenKind::Anchor(name) => anchor = Some(name),
                TokenKind::Tag { handle, suffix } if handle.is_empty() => tag = Some(suffix),
                TokenKind::Tag { handle, suffix } => {
                    let prefix = self.handle(&handle);
                    let full = prefix.map(|prefix| format!("{prefix}{suffix}"));
                    let unknown = || place_fault("a tag has an unknown handle", start);
                    tag = Some(full.filter(|tag| !tag.is_empty()).ok_or_else(unknown)?);
                }
                _ => {}
            }
        }
    }

    fn block_list(&mut self) -> Result<Vec<u32>, SyntaxError> {
        self.scanner.take()?;
        let mut items = Vec::new();
        loop {
            let token = self.scanner.take()?;
            match token.kind {
                TokenKind::BlockEntry => {}
                TokenKind::BlockEnd => return Ok(items),
                _ => return Err(place_fault("`-` was expected here", token.mark)),
            }
            let next = self.scanner.peek()?;
            let empty = matches!(next.kind, TokenKind::BlockEntry | TokenKind::BlockEnd);
            let item = self.node_or_empty(empty, token.mark, true, false)?;
            self.push(&mut items, item)?;
        }
    }

    fn indentless_list(&mut self) -> Result<Vec<u32>, SyntaxError> {
        let mut items = Vec::new();
        while self.scanner.peek()?.kind == TokenKind::BlockEntry {
            let mark = self.scanner.take()?.mark;
            let empty = self.peeks_block_end()? || self.peeks(&TokenKind::BlockEntry)?;
            let item = self.node_or_empty(empty, mark, true, false)?;
            self.push(&mut items, item)?;
        }
        Ok(items)
    }

    fn block_map(&mut self) -> Result<Vec<u32>, SyntaxError> {
        self.scanner.take()?;
        let mut pairs = Vec::new();
        loop {
            let token = self.scanner.take()?;
            match token.kind {
                TokenKind::Key => {}
                TokenKind::BlockEnd => return Ok(pairs),
                _ => return Err(place_fault("a key was expected here", token.mark)),
            }
            let empty = self.peeks_block_end()?;
            let key = self.node_or_empty(empty, token.mark, true, true)?;
            self.push(&mut pairs, key)?;
            let (mut empty, mut mark) = (true, self.scanner.peek()?.mark);
            if self.peeks(&TokenKind::Value)? {
                mark = self.scanner.take()?.mark;
                empty = self.peeks_block_end()?;
            }
            let value = self.node_or_empty(empty, mark, true, true)?;
            self.push(&mut pairs, value)?;
        }
    }

    /// Whether what comes next in a block mapping is not a node.
    fn peeks_block_end(&mut self) -> Result<bool, SyntaxError> {
        let kind = &self.scanner.peek()?.kind;
        Ok(matches!(kind, TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd))
    }

    fn flow_list(&mut self) -> Result<Vec<u32>, SyntaxError> {
        const END: TokenKind = TokenKind::FlowSequenceEnd;
        self.scanner.take()?;
        let mut items = Vec::new();
        while self.flow_goes_on(&END, items.is_empty())? {
            let pair = self.peeks(&TokenKind::Key)?;
            let item = if pair { self.flow_pair()? } else { self.node(false, false)? };
            self.push(&mut items, item)?;
        }
        Ok(items)
    }

    /// A mapping of one pair, written without braces in a list.
    fn flow_pair(&mut self) -> Result<u32, SyntaxError> {
        const END: TokenKind = TokenKind::FlowSequenceEnd;
        let mark = self.scanner.take()?.mark;
        let index = self.add(empty_scalar(0, true), mark)?;
        let key = if self.peeks_flow_end(&END)? {
            // The reference swallows what stands in place of the key.
            let mark = self.scanner.take()?.mark;
            self.empty(mark)?
        } else {
            self.node(false, false)?
        };
        let value = self.flow_value(&END)?;
        self.spend(16 + size_of_val(&[key, value]))?;
        self.raws[index as usize].kind = Kind::Map([key, value].into());
        Ok(index)
    }

    fn flow_map(&mut self) -> Result<Vec<u32>, SyntaxError> {
        const END: TokenKind = TokenKind::FlowMappingEnd;
        self.scanner.take()?;
        let mut pairs = Vec::new();
        while self.flow_goes_on(&END, pairs.is_empty())? {
            if self.peeks(&TokenKind::Key)? {
                self.scanner.take()?;
                let mark = self.scanner.peek()?.mark;
                let empty = self.peeks_flow_end(&END)?;
                let key = self.node_or_empty(empty, mark, false, false)?;
                self.push(&mut pairs, key)?;
                let value = self.flow_value(&END)?;
                self.push(&mut pairs, value)?;
            } else {
                let key = self.node(false, false)?;
                self.push(&mut pairs, key)?;
                let mark = self.scanner.peek()?.mark;
                let value = self.empty(mark)?;
                self.push(&mut pairs, value)?;
            }
        }
        Ok(pairs)
    }

    /// Takes the comma before the next element, or the end.
    fn flow_goes_on(&mut self, end: &TokenKind, first: bool) -> Result<bool, SyntaxError> {
        if !first && !self.peeks(end)? {
            let token = self.scanner.take()?;
            if token.kind != TokenKind::FlowEntry {
                return Err(place_fault(
                    "`,` or the closing bracket was expected here",
                    token.mark,
                ));
            }
        }
        let ends = self.peeks(end)?;
        if ends {
            self.scanner.take()?;
        }
        Ok(!ends)
    }

    /// The value after a key, empty if there is no `:` or nothing after it.
    fn flow_value(&mut self, end: &TokenKind) -> Result<u32, SyntaxError> {
        let mut empty = true;
        if self.peeks(&TokenKind::Value)? {
            self.scanner.take()?;
            empty = self.peeks(&TokenKind::FlowEntry)? || self.peeks(end)?;
        }
        let mark = self.scanner.peek()?.mark;
        self.node_or_empty(empty, mark, false, false)
    }

    /// Whether what comes next in a flow is not a key.
    fn peeks_flow_end(&mut self, end: &TokenKind) -> Result<bool, SyntaxError> {
        let kind = &self.scanner.peek()?.kind;
        Ok(matches!(kind, TokenKind::Value | TokenKind::FlowEntry) || kind == end)
    }

    fn peeks(&mut self, kind: &TokenKind) -> Result<bool, SyntaxError> {
        Ok(self.scanner.peek()?.kind == *kind)
    }

    fn node_or_empty(
        &mut self,
        empty: bool,
        mark: Mark,
        block: bool,
        indentless: bool,
    ) -> Result<u32, SyntaxError> {
        if empty { self.empty(mark) } else { self.node(block, indentless) }
    }

    /// A value that is not there.
    fn empty(&mut self, mark: Mark) -> Result<u32, SyntaxError> {
        self.add(empty_scalar(0, true), mark)
    }

    fn add(&mut self, kind: Kind, mark: Mark) -> Result<u32, SyntaxError> {
        let (line, column) = place(mark);
        let index = u32::try_from(self.raws.len()).map_err(|_| Exceeded.at(line, column))?;
        if let Some(spans) = &mut self.spans {
            let at = self.scanner.end;
            self.budget.push(spans, at..at).map_err(|why| why.at(line, column))?;
        }
        let raw = Raw { kind, line, column };
        self.budget.push(&mut self.raws, raw).map_err(|why| why.at(line, column))?;
        Ok(index)
    }

    /// The number of a tag.
    fn add_tag(&mut self, tag: String) -> Result<u32, SyntaxError> {
        self.spend(tag.len())?;
        let (line, column) = place(self.scanner.mark);
        let tag = tag.into_boxed_str();
        self.budget.push(&mut self.tags, tag).map_err(|why| why.at(line, column))?;
        u32::try_from(self.tags.len()).map_err(|_| Exceeded.at(line, column))
    }

    fn push(&mut self, items: &mut Vec<u32>, item: u32) -> Result<(), SyntaxError> {
        let (line, column) = place(self.scanner.mark);
        self.budget.push(items, item).map_err(|why| why.at(line, column))
    }

    fn spend(&mut self, bytes: usize) -> Result<(), SyntaxError> {
        let (line, column) = place(self.scanner.mark);
        self.budget.spend(bytes).map_err(|why| why.at(line, column))
    }
}

/// What an entry of a hash map of texts takes at most, while the map grows.
const IN_MAP: usize = 180;

/// A tag by its number.
pub(super) fn tag_of(tags: &[Box<str>], number: u32) -> Option<&str> {
    tags.get(usize::try_from(number).ok()?.checked_sub(1)?).map(|tag| &**tag)
}

fn empty_scalar(tag: u32, plain: bool) -> Kind {
    Kind::Scalar { text: Zeroizing::default(), tag, plain }
}
