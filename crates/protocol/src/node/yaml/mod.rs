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

use std::{collections::HashMap, rc::Rc};

use zeroize::Zeroizing;

use super::{Entry, MAX_DEPTH, Node, Repeat, SyntaxError, Value, json::push_lossy};
pub(super) use block::read_items;
use parse::{Document, Kind, Raw};
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
    let document = parse::document(&source).map_err(|error| source.place(error))?;
    let Some(Document { raws, root, shared }) = document else {
        return Ok((Node::at(Value::Null, 1, 1), Vec::new()));
    };
    let mut decoder = Decoder {
        raws,
        shared,
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

/// What makes a node impossible in JSON, if it is still there in the end: the reference converts
/// only after duplicates have gone.
type Fault = Option<Box<SyntaxError>>;

struct Decoder {
    raws: Vec<Raw>,
    /// Whether a raw node may be visited more than once, so that its text must be left in it.
    shared: bool,
    depth: usize,
    visits: u32,
    alias_visits: u32,
    alias_depth: u32,
    repeats: Vec<Repeat>,
}

impl Decoder {
    fn node(&mut self, index: usize) -> Result<(Node, Fault), SyntaxError> {
        let entered = self.enter(index)?;
        let (value, fault) = match &self.raws[entered.target].kind {
            Kind::List(children) => {
                let children = Rc::clone(children);
                self.list(&children)?
            }
            Kind::Map(children) => {
                let children = Rc::clone(children);
                self.map(&children)?
            }
            Kind::Scalar { .. } | Kind::Alias { .. } => self.scalar(entered.target)?,
        };
        self.leave(&entered);
        let Raw { line, column, .. } = self.raws[entered.target];
        Ok((Node::at(value, line, column), fault))
    }

    fn scalar(&mut self, index: usize) -> Result<(Value, Fault), SyntaxError> {
        let shared = self.shared;
        let Raw { kind, line, column } = &mut self.raws[index];
        let (line, column) = (*line, *column);
        let Kind::Scalar { text, tag, plain } = kind else {
            return Err(fault(LOOP, line, column));
        };
        let scalar =
            scalar(tag.as_deref(), *plain, text).map_err(|what| fault(what, line, column))?;
        let value = match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(value) => Value::Number(value.to_string()),
            Scalar::Uint(value) => Value::Number(value.to_string()),
            Scalar::Float(value) => {
                let Some(text) = resolve::float(value) else {
                    let fault = fault("this number does not exist in JSON", line, column);
                    return Ok((Value::Null, Some(Box::new(fault))));
                };
                Value::Number(text)
            }
            Scalar::Text if shared => Value::Text(text.clone()),
            Scalar::Text => Value::Text(std::mem::take(text)),
            Scalar::Binary(text) => Value::Text(Zeroizing::new(text)),
        };
        Ok((value, None))
    }

    fn map(&mut self, children: &[usize]) -> Result<(Value, Fault), SyntaxError> {
        let mut map = Map { entries: Vec::with_capacity(children.len() / 2), ..Map::default() };
        self.fill(&mut map, children)?;
        Ok(map.finish())
    }

    fn list(&mut self, children: &[usize]) -> Result<(Value, Fault), SyntaxError> {
        let mut items = Vec::with_capacity(children.len());
        let mut first = None;
        for &child in children {
            let (item, fault) = self.node(child)?;
            items.push(item);
            first = first.or(fault);
        }
        Ok((Value::List(items), first))
    }

    /// Puts the pairs of a mapping into `map`; merge keys in the place where they stand.
    fn fill(&mut self, map: &mut Map, children: &[usize]) -> Result<(), SyntaxError> {
        for pair in children.chunks_exact(2) {
            let (key, value) = (pair[0], pair[1]);
            if self.is_merge(key) {
                self.merge(map, value)?;
                continue;
            }
            let line = self.raws[key].line;
            let text = self.key(key)?;
            let (node, fault) = self.node(value)?;
            match text {
                Ok(text) => self.repeats.extend(map.insert(text, line, node, fault)),
                Err(fault) => map.lasting = map.lasting.take().or(Some(Box::new(fault))),
            }
        }
        Ok(())
    }

    /// The text of a key, or the fault of having none.
    fn key(&mut self, index: usize) -> Result<Result<String, SyntaxError>, SyntaxError> {
        let index = self.enter(index)?;
        let shared = self.shared;
        let raw = &mut self.raws[index.target];
        let (line, column) = (raw.line, raw.column);
        let Kind::Scalar { text, tag, plain } = &mut raw.kind else {
            return Err(fault("a key must be a scalar", line, column));
        };
        let scalar =
            scalar(tag.as_deref(), *plain, text).map_err(|what| fault(what, line, column))?;
        let key = match scalar {
            Scalar::Text if !shared => Some(std::mem::take(&mut **text)),
            scalar => resolve::key(&scalar, text),
        };
        let key = key.ok_or_else(|| fault("this cannot be a key in JSON", line, column));
        self.leave(&index);
        Ok(key)
    }

    fn is_merge(&self, index: usize) -> bool {
        match &self.raws[index].kind {
            Kind::Scalar { text, tag, plain } => {
                text.as_str() == "<<" && (*plain || tag.as_deref() == Some(MERGE))
            }
            _ => false,
        }
    }

    /// Merges a mapping, or several, of which earlier ones win.
    fn merge(&mut self, map: &mut Map, index: usize) -> Result<(), SyntaxError> {
        let Kind::List(children) = &self.raws[index].kind else {
            return self.merge_one(map, index);
        };
        let children = Rc::clone(children);
        for &child in children.iter().rev() {
            self.merge_one(map, child)?;
        }
        Ok(())
    }

    fn merge_one(&mut self, map: &mut Map, index: usize) -> Result<(), SyntaxError> {
        let (line, column) = (self.raws[index].line, self.raws[index].column);
        let target = match self.raws[index].kind {
            Kind::Alias { target, .. } => target,
            _ => index,
        };
        if !matches!(self.raws[target].kind, Kind::Map(_)) {
            return Err(fault("`<<` needs a mapping or a list of them", line, column));
        }
        let entered = self.enter(index)?;
        if let Kind::Map(children) = &self.raws[entered.target].kind {
            let children = Rc::clone(children);
            self.fill(map, &children)?;
        }
        self.leave(&entered);
        Ok(())
    }

    /// Counts a visit, and follows an alias to what it stands for.
    fn enter(&mut self, index: usize) -> Result<Entered, SyntaxError> {
        self.visit(index)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.fault_at("nested too deeply", index));
        }
        let Kind::Alias { target, open } = &mut self.raws[index].kind else {
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
        if let Kind::Alias { open, .. } = &mut self.raws[alias].kind {
            *open = false;
        }
    }

    /// The reference's budget against documents that grow by aliases of aliases.
    fn visit(&mut self, index: usize) -> Result<(), SyntaxError> {
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

    fn fault_at(&self, what: &str, index: usize) -> SyntaxError {
        fault(what, self.raws[index].line, self.raws[index].column)
    }
}

/// A node that is being visited, and the alias that led there.
struct Entered {
    target: usize,
    alias: Option<usize>,
}

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
    /// Where each key is, once there are too many to look through.
    places: HashMap<String, usize>,
    /// Faults of entries, by index; a later duplicate takes the fault away with the value.
    faults: Vec<(usize, Box<SyntaxError>)>,
    /// The fault of a key, which nothing takes away.
    lasting: Fault,
}

impl Map {
    const FEW: usize = 16;

    /// Adds an entry, or replaces the one of the same key, which is told.
    fn insert(&mut self, key: String, line: u32, value: Node, fault: Fault) -> Option<Repeat> {
        let mut repeat = None;
        let index = if let Some(index) = self.find(&key) {
            self.faults.retain(|(at, _)| *at != index);
            let entry = &mut self.entries[index];
            repeat = Some(Repeat { key, line, first: entry.line });
            (entry.line, entry.value) = (line, value);
            index
        } else {
            let index = self.entries.len();
            if index == Self::FEW {
                let keys = self.entries.iter().map(|entry| entry.key.clone());
                self.places = keys.zip(0..).collect();
            }
            if index >= Self::FEW {
                self.places.insert(key.clone(), index);
            }
            self.entries.push(Entry { key, line, value, spelling: None });
            index
        };
        self.faults.extend(fault.map(|fault| (index, fault)));
        repeat
    }

    fn find(&self, key: &str) -> Option<usize> {
        if self.entries.len() <= Self::FEW {
            self.entries.iter().position(|entry| entry.key == key)
        } else {
            self.places.get(key).copied()
        }
    }

    fn finish(mut self) -> (Value, Fault) {
        self.entries.sort_by(|a, b| a.key.cmp(&b.key));
        let fault = self.faults.into_iter().next().map(|(_, fault)| fault);
        (Value::Map(self.entries), self.lasting.or(fault))
    }
}

fn fault(what: &str, line: u32, column: u32) -> SyntaxError {
    SyntaxError { what: what.to_owned(), line, column }
}
