//! Tokens to raw nodes, aliases not followed yet.

use std::{collections::HashMap, rc::Rc};

use zeroize::Zeroizing;

use super::{
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
        tag: Option<Box<str>>,
        /// Its looks decide what it is.
        plain: bool,
    },
    List(Rc<[usize]>),
    /// Keys and values in turn.
    Map(Rc<[usize]>),
    Alias {
        target: usize,
        /// Being followed right now.
        open: bool,
    },
}

/// The raw nodes of a document.
pub(super) struct Document {
    pub(super) raws: Vec<Raw>,
    pub(super) root: usize,
    /// Whether any node has an anchor, so that nodes may be visited more than once.
    pub(super) shared: bool,
}

/// Reads the first document of a stream, if there is one. What follows it is not looked at.
pub(super) fn document(source: &Source<'_>) -> Result<Option<Document>, SyntaxError> {
    let mut parser = Parser {
        scanner: Scanner::new(source),
        // Few documents have more nodes than that, and what is not used costs nothing.
        raws: Vec::with_capacity(source.text.len() / 12),
        anchors: HashMap::new(),
        handles: Vec::new(),
        depth: 0,
    };
    let Some(root) = parser.root()? else { return Ok(None) };
    // The end must be readable, whatever it is.
    parser.scanner.peek()?;
    source.check(parser.scanner.at + 3)?;
    let shared = !parser.anchors.is_empty();
    Ok(Some(Document { raws: parser.raws, root, shared }))
}

struct Parser<'a> {
    scanner: Scanner<'a>,
    raws: Vec<Raw>,
    anchors: HashMap<String, usize>,
    /// What tags may begin with, and what that stands for.
    handles: Vec<(String, String)>,
    depth: usize,
}

impl Parser<'_> {
    fn root(&mut self) -> Result<Option<usize>, SyntaxError> {
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
                return Ok(Some(self.empty(mark)));
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
                    self.handles.push((handle, prefix));
                }
                TokenKind::Version(1, 1) | TokenKind::TagDirective { .. } => {
                    return Err(place_fault("the same directive twice", token.mark));
                }
                _ => return Err(place_fault("this is not YAML 1.1", token.mark)),
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if self.handle(handle).is_none() {
                self.handles.push((handle.to_owned(), prefix.to_owned()));
            }
        }
        Ok(())
    }

    fn handle(&self, wanted: &str) -> Option<&str> {
        let mut handles = self.handles.iter();
        handles.find(|(handle, _)| handle == wanted).map(|(_, prefix)| prefix.as_str())
    }

    /// A node. `block` allows indented lists and mappings, `indentless` a list at the indentation of
    /// the key it belongs to.
    fn node(&mut self, block: bool, indentless: bool) -> Result<usize, SyntaxError> {
        let mark = self.scanner.peek()?.mark;
        if let TokenKind::Alias(_) = self.scanner.peek()?.kind {
            return self.alias();
        }
        let (anchor, tag) = self.properties(mark)?;
        let token = self.scanner.peek()?;
        let next = token.mark;
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
        let index = self.add(empty_scalar(tag, implicit), mark);
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, index);
        }
        if !fits {
            return Ok(index);
        }
        if self.depth >= MAX_DEPTH {
            return Err(place_fault("nested too deeply", next));
        }
        self.depth += 1;
        self.content(index)?;
        self.depth -= 1;
        Ok(index)
    }

    /// Reads what the next token begins into the node at `index`.
    fn content(&mut self, index: usize) -> Result<(), SyntaxError> {
        let kind = match &self.scanner.peek()?.kind {
            TokenKind::BlockEntry => Kind::List(self.indentless_list()?.into()),
            TokenKind::FlowSequenceStart => Kind::List(self.flow_list()?.into()),
            TokenKind::FlowMappingStart => Kind::Map(self.flow_map()?.into()),
            TokenKind::BlockSequenceStart => Kind::List(self.block_list()?.into()),
            TokenKind::BlockMappingStart => Kind::Map(self.block_map()?.into()),
            _ => return self.scalar(index),
        };
        self.raws[index].kind = kind;
        Ok(())
    }

    fn scalar(&mut self, index: usize) -> Result<(), SyntaxError> {
        let token = self.scanner.take()?;
        if let (
            TokenKind::Scalar { text: written, plain: unquoted },
            Kind::Scalar { text, tag, plain },
        ) = (token.kind, &mut self.raws[index].kind)
        {
            *plain = match tag.as_deref() {
                None => unquoted,
                Some(tag) => tag == "!",
            };
            *text = written;
        }
        Ok(())
    }

    fn alias(&mut self) -> Result<usize, SyntaxError> {
        let token = self.scanner.take()?;
        let target = match &token.kind {
            TokenKind::Alias(name) => self.anchors.get(name),
            _ => None,
        };
        let Some(&target) = target else {
            return Err(place_fault("an alias has no anchor before it", token.mark));
        };
        Ok(self.add(Kind::Alias { target, open: false }, token.mark))
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

    fn block_list(&mut self) -> Result<Vec<usize>, SyntaxError> {
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
            items.push(self.node_or_empty(empty, token.mark, true, false)?);
        }
    }

    fn indentless_list(&mut self) -> Result<Vec<usize>, SyntaxError> {
        let mut items = Vec::new();
        while self.scanner.peek()?.kind == TokenKind::BlockEntry {
            let mark = self.scanner.take()?.mark;
            let empty = self.peeks_block_end()? || self.peeks(&TokenKind::BlockEntry)?;
            items.push(self.node_or_empty(empty, mark, true, false)?);
        }
        Ok(items)
    }

    fn block_map(&mut self) -> Result<Vec<usize>, SyntaxError> {
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
            pairs.push(self.node_or_empty(empty, token.mark, true, true)?);
            let (mut empty, mut mark) = (true, self.scanner.peek()?.mark);
            if self.peeks(&TokenKind::Value)? {
                mark = self.scanner.take()?.mark;
                empty = self.peeks_block_end()?;
            }
            pairs.push(self.node_or_empty(empty, mark, true, true)?);
        }
    }

    /// Whether what comes next in a block mapping is not a node.
    fn peeks_block_end(&mut self) -> Result<bool, SyntaxError> {
        let kind = &self.scanner.peek()?.kind;
        Ok(matches!(kind, TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd))
    }

    fn flow_list(&mut self) -> Result<Vec<usize>, SyntaxError> {
        const END: TokenKind = TokenKind::FlowSequenceEnd;
        self.scanner.take()?;
        let mut items = Vec::new();
        while self.flow_goes_on(&END, items.is_empty())? {
            if self.peeks(&TokenKind::Key)? {
                let pair = self.flow_pair()?;
                items.push(pair);
            } else {
                items.push(self.node(false, false)?);
            }
        }
        Ok(items)
    }

    /// A mapping of one pair, written without braces in a list.
    fn flow_pair(&mut self) -> Result<usize, SyntaxError> {
        const END: TokenKind = TokenKind::FlowSequenceEnd;
        let mark = self.scanner.take()?.mark;
        let index = self.add(empty_scalar(None, true), mark);
        let key = if self.peeks_flow_end(&END)? {
            // The reference swallows what stands in place of the key.
            let mark = self.scanner.take()?.mark;
            self.empty(mark)
        } else {
            self.node(false, false)?
        };
        let value = self.flow_value(&END)?;
        self.raws[index].kind = Kind::Map([key, value].into());
        Ok(index)
    }

    fn flow_map(&mut self) -> Result<Vec<usize>, SyntaxError> {
        const END: TokenKind = TokenKind::FlowMappingEnd;
        self.scanner.take()?;
        let mut pairs = Vec::new();
        while self.flow_goes_on(&END, pairs.is_empty())? {
            if self.peeks(&TokenKind::Key)? {
                self.scanner.take()?;
                let mark = self.scanner.peek()?.mark;
                let empty = self.peeks_flow_end(&END)?;
                pairs.push(self.node_or_empty(empty, mark, false, false)?);
                pairs.push(self.flow_value(&END)?);
            } else {
                pairs.push(self.node(false, false)?);
                let mark = self.scanner.peek()?.mark;
                pairs.push(self.empty(mark));
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
    fn flow_value(&mut self, end: &TokenKind) -> Result<usize, SyntaxError> {
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
    ) -> Result<usize, SyntaxError> {
        if empty { Ok(self.empty(mark)) } else { self.node(block, indentless) }
    }

    /// A value that is not there.
    fn empty(&mut self, mark: Mark) -> usize {
        self.add(empty_scalar(None, true), mark)
    }

    fn add(&mut self, kind: Kind, mark: Mark) -> usize {
        let (line, column) = place(mark);
        self.raws.push(Raw { kind, line, column });
        self.raws.len() - 1
    }
}

fn empty_scalar(tag: Option<String>, plain: bool) -> Kind {
    Kind::Scalar { text: Zeroizing::default(), tag: tag.map(String::into_boxed_str), plain }
}
