//! YAML 1.1 as go-yaml reads it: text, tokens, raw nodes, and from those the [`Node`]s that the
//! reference's conversion to JSON would leave.
//!
//! A reader of our own, because being right here means agreeing with that one reader, in what it
//! tolerates too, and because no input may bring a host down.

mod block;
mod cursor;
mod parse;
mod property;
mod resolve;
mod scalar;
mod scan;
mod source;
mod window;

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasher,
    ops::Range,
    rc::Rc,
};

use zeroize::Zeroizing;

use super::{
    Entry, MAX_DEPTH, MOST_REPEATS, Node, Repeat, SyntaxError, Value,
    budget::{Budget, Exceeded},
    layout::{Item, Shape},
};
pub(super) use block::read_items;
use parse::{Document, Kind, Raw, tag_of};
use resolve::Scalar;
use source::Source;

/// Reads the first document; whatever follows it is not looked at. Keys that a mapping had already
/// are told, in the order in which they were met.
pub(super) fn read(bytes: &[u8]) -> Result<(Node, Vec<Repeat>), SyntaxError> {
    match block::read(bytes) {
        Some(node) => Ok((node, Vec::new())),
        None => read_all(bytes),
    }
}

/// Reads everything that is YAML.
fn read_all(bytes: &[u8]) -> Result<(Node, Vec<Repeat>), SyntaxError> {
    let source = Source::of(bytes);
    let document = parse::document(&source, Budget::of(bytes), false);
    let document = document.map_err(|error| source.place(error))?;
    let Some(Document { raws, tags, root, shared, budget, .. }) = document else {
        return Ok((Node::at(Value::Null, 1, 1), Vec::new()));
    };
    let mut decoder = Decoder {
        raws,
        tags,
        shared,
        budget,
        depth: 0,
        visits: 1,
        alias_visits: 0,
        alias_depth: 0,
        repeats: Vec::new(),
    };
    match decoder.node(root)? {
        (_, Some(fault)) => Err(*fault),
        (node, None) => Ok((node, decoder.repeats)),
    }
}

/// Reads where everything stands, aliases not followed. `None` for an empty document, and for one
/// whose bytes are not its text (UTF-16).
pub(super) fn layout(bytes: &[u8]) -> Result<Option<(Vec<Item>, u32)>, SyntaxError> {
    let source = Source::of(bytes);
    let Some(offset) = source.offset() else { return Ok(None) };
    let document = parse::document(&source, Budget::of(bytes), true);
    let Some(document) = document.map_err(|error| source.place(error))? else { return Ok(None) };
    let Document { raws, spans, root, .. } = document;
    let item = |(raw, span): (Raw, Range<usize>)| {
        let kind = match raw.kind {
            Kind::Scalar { text, .. } => Shape::Scalar(text),
            Kind::List(items) => Shape::List(items.to_vec()),
            Kind::Map(pairs) => Shape::Map(pairs.chunks_exact(2).map(|p| (p[0], p[1])).collect()),
            Kind::Alias { target, .. } => Shape::Alias(target),
        };
        let text = &source.text[span.start..span.end.max(span.start)];
        // A plain or block scalar is read to the next token.
        let width =
            text.trim_end_matches([' ', '\t', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
        let start = span.start + offset;
        Item { shape: kind, start, end: start + width.len(), line: raw.line }
    };
    Ok(Some((raws.into_iter().zip(spans).map(item).collect(), root)))
}

/// What makes a node impossible in JSON, if it is still there in the end: the reference converts
/// only after duplicates have gone.
type Fault = Option<Box<SyntaxError>>;

struct Decoder {
    raws: Vec<Raw>,
    tags: Vec<Box<str>>,
    budget: Budget,
    /// Whether a raw node may be visited more than once, so that its text must be left in it.
    shared: bool,
    depth: usize,
    visits: u32,
    alias_visits: u32,
    alias_depth: u32,
    repeats: Vec<Repeat>,
}

impl Decoder {
    fn node(&mut self, index: u32) -> Result<(Node, Fault), SyntaxError> {
        let entered = self.enter(index)?;
        let (value, fault) = match self.children(entered.target)? {
            Children::List(children) => self.list(&children)?,
            Children::Map(children) => self.map(&children)?,
            Children::None => self.scalar(entered.target)?,
        };
        self.leave(&entered);
        let Raw { line, column, .. } = self.raws[entered.target as usize];
        Ok((Node::at(value, line, column), fault))
    }

    /// What stands in a list or mapping, for which there is memory.
    #[inline(never)]
    fn children(&mut self, index: u32) -> Result<Children, SyntaxError> {
        let (children, size) = match &self.raws[index as usize].kind {
            Kind::List(children) => {
                (Children::List(Rc::clone(children)), children.len() * size_of::<Node>())
            }
            Kind::Map(children) => {
                (Children::Map(Rc::clone(children)), children.len() / 2 * size_of::<Entry>())
            }
            Kind::Scalar { .. } | Kind::Alias { .. } => (Children::None, 0),
        };
        self.spend(size, index)?;
        Ok(children)
    }

    fn scalar(&mut self, index: u32) -> Result<(Value, Fault), SyntaxError> {
        let shared = self.shared;
        let Raw { kind, line, column } = &mut self.raws[index as usize];
        let (line, column) = (*line, *column);
        let Kind::Scalar { text, tag, plain } = kind else {
            return Err(fault(LOOP, line, column));
        };
        let scalar = scalar(tag_of(&self.tags, *tag), *plain, text)
            .map_err(|what| fault(what, line, column))?;
        let value = match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(value) => Value::Number(value.to_string()),
            Scalar::Uint(value) => Value::Number(value.to_string()),
            Scalar::Float(value) => {
                let Some(text) = resolve::float(value) else {
                    let fault = fault("this number does not exist in JSON", line, column);
                    self.spend(FAULT, index)?;
                    return Ok((Value::Null, Some(Box::new(fault))));
                };
                Value::Number(text)
            }
            Scalar::Text if shared => Value::Text(text.clone()),
            Scalar::Text => Value::Text(std::mem::take(text)),
            Scalar::Binary(text) => Value::Text(Zeroizing::new(text)),
        };
        // A text of the scalar's own was counted when it was read.
        match &value {
            Value::Text(text) if shared => self.spend(text.capacity(), index)?,
            Value::Number(text) => self.spend(text.capacity(), index)?,
            _ => {}
        }
        Ok((value, None))
    }

    fn map(&mut self, children: &[u32]) -> Result<(Value, Fault), SyntaxError> {
        let mut map = Map { entries: Vec::with_capacity(children.len() / 2), ..Map::default() };
        self.fill(&mut map, children)?;
        Ok(map.finish())
    }

    fn list(&mut self, children: &[u32]) -> Result<(Value, Fault), SyntaxError> {
        let mut items = Vec::with_capacity(children.len());
        let mut first = None;
        for &child in children {
            let (item, fault) = self.node(child)?;
            items.push(item);
            first = first.or(fault);
        }
        Ok((Value::List(items), first))
    }

    /// Puts the pairs of a mapping into `map`; merge keys in the place where they stand. As in go-yaml v2, a merge also
    /// replaces keys before it.
    fn fill(&mut self, map: &mut Map, children: &[u32]) -> Result<(), SyntaxError> {
        for pair in children.chunks_exact(2) {
            let (key, value) = (pair[0], pair[1]);
            if self.is_merge(key) {
                self.merge(map, value)?;
                continue;
            }
            let line = self.raws[key as usize].line;
            let text = self.key(key)?;
            let (node, fault) = self.node(value)?;
            match text {
                Ok(text) => self.put(map, (key, text, line), (node, fault))?,
                Err(fault) => map.lasting = map.lasting.take().or(Some(Box::new(fault))),
            }
        }
        Ok(())
    }

    /// Puts an entry into `map`. A function of its own: what calls it is on the stack once for every level.
    #[inline(never)]
    fn put(
        &mut self,
        map: &mut Map,
        (key, text, line): (u32, String, u32),
        (node, fault): (Node, Fault),
    ) -> Result<(), SyntaxError> {
        let inserted = map.insert(text, line, node, fault, &mut self.budget);
        let repeat = inserted.map_err(|why| self.too_much(why, key))?;
        let told = self.repeats.len() < MOST_REPEATS;
        self.repeats.extend(repeat.filter(|_| told));
        Ok(())
    }

    /// The text of a key, or the fault of having none.
    fn key(&mut self, index: u32) -> Result<Result<String, SyntaxError>, SyntaxError> {
        let index = self.enter(index)?;
        let shared = self.shared;
        let raw = &mut self.raws[index.target as usize];
        let (line, column) = (raw.line, raw.column);
        let Kind::Scalar { text, tag, plain } = &mut raw.kind else {
            return Err(fault("a key must be a scalar", line, column));
        };
        let scalar = scalar(tag_of(&self.tags, *tag), *plain, text)
            .map_err(|what| fault(what, line, column))?;
        let key = match scalar {
            Scalar::Text if !shared => Some(std::mem::take(&mut **text)),
            scalar => resolve::key(&scalar, text),
        };
        let key = key.ok_or_else(|| fault("this cannot be a key in JSON", line, column));
        if shared {
            self.spend(key.as_ref().map_or(FAULT, String::capacity), index.target)?;
        }
        self.leave(&index);
        Ok(key)
    }

    fn is_merge(&self, index: u32) -> bool {
        match &self.raws[index as usize].kind {
            Kind::Scalar { text, tag, plain } => {
                text.as_str() == "<<" && (*plain || tag_of(&self.tags, *tag) == Some(MERGE))
            }
            _ => false,
        }
    }

    /// Merges a mapping, or several, of which earlier ones win.
    fn merge(&mut self, map: &mut Map, index: u32) -> Result<(), SyntaxError> {
        let Kind::List(children) = &self.raws[index as usize].kind else {
            return self.merge_one(map, index);
        };
        let children = Rc::clone(children);
        for &child in children.iter().rev() {
            self.merge_one(map, child)?;
        }
        Ok(())
    }

    fn merge_one(&mut self, map: &mut Map, index: u32) -> Result<(), SyntaxError> {
        let Raw { line, column, .. } = self.raws[index as usize];
        let target = match self.raws[index as usize].kind {
            Kind::Alias { target, .. } => target,
            _ => index,
        };
        if !matches!(self.raws[target as usize].kind, Kind::Map(_)) {
            return Err(fault("`<<` needs a mapping or a list of them", line, column));
        }
        let entered = self.enter(index)?;
        if let Kind::Map(children) = &self.raws[entered.target as usize].kind {
            let children = Rc::clone(children);
            self.fill(map, &children)?;
        }
        self.leave(&entered);
        Ok(())
    }

    /// Counts a visit, and follows an alias to what it stands for.
    fn enter(&mut self, index: u32) -> Result<Entered, SyntaxError> {
        self.visit(index)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.fault_at("nested too deeply", index));
        }
        let Kind::Alias { target, open } = &mut self.raws[index as usize].kind else {
            return Ok(Entered { target: index, alias: None });
        };
        let target = *target;
        if std::mem::replace(open, true) {
            return Err(self.fault_at(LOOP, index));
        }
        self.alias_depth += 1;
        self.visit(target)?;
        Ok(Entered { target, alias: Some(index) })
    }

    fn leave(&mut self, entered: &Entered) {
        self.depth -= 1;
        let Some(alias) = entered.alias else { return };
        self.alias_depth -= 1;
        if let Kind::Alias { open, .. } = &mut self.raws[alias as usize].kind {
            *open = false;
        }
    }

    /// The reference's budget against documents that grow by aliases of aliases.
    fn visit(&mut self, index: u32) -> Result<(), SyntaxError> {
        self.visits = self.visits.saturating_add(1);
        if self.alias_depth > 0 {
            self.alias_visits = self.alias_visits.saturating_add(1);
        }
        if self.alias_visits > 100
            && self.visits > 1000
            && f64::from(self.alias_visits) / f64::from(self.visits) > allowed_share(self.visits)
        {
            return Err(self.fault_at("aliases make the document too large", index));
        }
        Ok(())
    }

    fn fault_at(&self, what: &str, index: u32) -> SyntaxError {
        let Raw { line, column, .. } = self.raws[index as usize];
        fault(what, line, column)
    }

    fn spend(&mut self, bytes: usize, index: u32) -> Result<(), SyntaxError> {
        self.budget.spend(bytes).map_err(|why| self.too_much(why, index))
    }

    fn too_much(&self, why: Exceeded, index: u32) -> SyntaxError {
        let Raw { line, column, .. } = self.raws[index as usize];
        why.at(line, column)
    }
}

/// A node that is being visited, and the alias that led there.
struct Entered {
    target: u32,
    alias: Option<u32>,
}

/// What stands in a raw node.
enum Children {
    List(Rc<[u32]>),
    Map(Rc<[u32]>),
    None,
}

/// What a fault takes.
const FAULT: usize = 160;

const LOOP: &str = "an anchor contains its own alias";
const MERGE: &str = "tag:yaml.org,2002:merge";

/// How much of all visits may come from aliases: nearly all in small documents, a tenth in huge
/// ones.
fn allowed_share(visits: u32) -> f64 {
    const LOW: f64 = 400_000.0;
    const HIGH: f64 = 4_000_000.0;
    let visits = f64::from(visits);
    if visits <= LOW {
        0.99
    } else if visits >= HIGH {
        0.10
    } else {
        0.99 - 0.89 * ((visits - LOW) / (HIGH - LOW))
    }
}

fn scalar(tag: Option<&str>, plain: bool, text: &str) -> Result<Scalar, &'static str> {
    match tag {
        None | Some("") if !plain => Ok(Scalar::Text),
        tag => resolve::resolve(tag, text),
    }
}

/// A mapping under construction.
#[derive(Default)]
struct Map {
    entries: Vec<Entry>,
    /// Where each key is, by its hash, once there are too many to look through.
    places: HashMap<u64, usize>,
    /// Two keys have the same hash, so that all have to be looked through.
    ambiguous: bool,
    /// Faults of entries, by index; a later duplicate takes the fault away with the value.
    faults: BTreeMap<usize, Box<SyntaxError>>,
    /// The fault of a key, which nothing takes away.
    lasting: Fault,
}

impl Map {
    const FEW: usize = 16;
    /// What a place takes at most, while the hash map grows.
    const PLACE: usize = 64;

    /// Adds an entry, or replaces the one of the same key, which is reported.
    fn insert(
        &mut self,
        key: String,
        line: u32,
        value: Node,
        fault: Fault,
        budget: &mut Budget,
    ) -> Result<Option<Repeat>, Exceeded> {
        let mut repeat = None;
        let index = if let Some(index) = self.find(&key) {
            self.faults.remove(&index);
            let entry = &mut self.entries[index];
            repeat = Some(Repeat { key, line, first: entry.line });
            (entry.line, entry.value) = (line, value);
            index
        } else {
            let index = self.entries.len();
            if index == Self::FEW {
                for index in 0..index {
                    self.note_place(index);
                }
            }
            budget.push(&mut self.entries, Entry { key, line, value, spelling: None })?;
            if index >= Self::FEW {
                budget.spend(Self::PLACE)?;
                self.note_place(index);
            }
            index
        };
        self.faults.extend(fault.map(|fault| (index, fault)));
        Ok(repeat)
    }

    fn note_place(&mut self, index: usize) {
        let hash = self.places.hasher().hash_one(&self.entries[index].key);
        self.ambiguous |= self.places.insert(hash, index).is_some();
    }

    fn find(&self, key: &str) -> Option<usize> {
        let is_it = |index: &usize| self.entries[*index].key == key;
        if self.entries.len() <= Self::FEW || self.ambiguous {
            return (0..self.entries.len()).find(is_it);
        }
        self.places.get(&self.places.hasher().hash_one(key)).copied().filter(is_it)
    }

    fn finish(mut self) -> (Value, Fault) {
        self.entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        let fault = self.faults.into_values().next();
        (Value::Map(self.entries), self.lasting.or(fault))
    }
}

fn fault(what: &str, line: u32, column: u32) -> SyntaxError {
    SyntaxError { what: what.to_owned(), line, column }
}
