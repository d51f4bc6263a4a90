//! A set of secrets that can be looked for all at once.
//!
//! Not an Aho-Corasick automaton: it would hold every secret again in memory that nobody wipes, and has to
//! be built anew for each one that comes. Here an index has two bytes of hash for each.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    ops::Range,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use keyward_protocol::Secret;
use zeroize::Zeroizing;

/// Anything shorter is more likely to be a part of ordinary words than a secret worth the name.
const SHORTEST: usize = 4;

/// Anything shorter, of what may be no secret at all, is more likely to be the name of a region.
pub(crate) const SHORTEST_VALUE: usize = 8;

/// A key in DER is known in pieces of this length, which are the lines of its PEM.
const PIECE: usize = 48;

/// How many secrets, and how many bytes of them, are known at most.
const MOST: usize = 20_000;
const MOST_BYTES: usize = 32 << 20;

/// Secrets, wiped with the set.
#[derive(Default)]
pub(super) struct Known {
    entries: Vec<Entry>,
    /// The patterns by a hash of their first bytes, the longest first.
    index: HashMap<u16, Vec<Pattern>>,
    /// A bit for each of the hashes that are in the index: nearly every place of a text is told by it
    /// that nothing begins there.
    filter: Vec<u64>,
    /// The entries by a hash of all of their bytes.
    whole: HashMap<u64, usize>,
    hasher: RandomState,
    bytes: usize,
    /// When the first of the entries is to be forgotten.
    next: Option<Duration>,
}

struct Entry {
    secret: Secret,
    /// On the monotonic clock; `None` is for good.
    until: Option<Duration>,
}

/// A part of a secret that is looked for: all of it, or one line.
#[derive(Clone)]
struct Pattern {
    entry: usize,
    range: Range<usize>,
}

impl Known {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a secret, and the bytes of a key in PEM. One that is known already is kept for longer.
    pub(super) fn add(&mut self, secret: &Secret, until: Option<Duration>, now: Duration) {
        let text = secret.expose_bytes().trim_ascii();
        self.add_bytes(text, lines(text), until, now);
        if let Some(der) = der(text) {
            let pieces = (0..der.len()).step_by(PIECE).map(|at| at..der.len().min(at + PIECE));
            let pieces = pieces.filter(|piece| piece.len() >= PIECE / 2).collect();
            self.add_bytes(&der, pieces, until, now);
        }
    }

    fn add_bytes(
        &mut self,
        bytes: &[u8],
        mut parts: Vec<Range<usize>>,
        until: Option<Duration>,
        now: Duration,
    ) {
        parts.retain(|part| part.len() >= SHORTEST);
        if parts.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(bytes);
        if let Some(&entry) = self.whole.get(&hash)
            && self.entries[entry].secret.expose_bytes() == bytes
        {
            let until = until.zip(self.entries[entry].until).map(|(a, b)| a.max(b));
            self.entries[entry].until = until;
            return;
        }
        self.forget(bytes.len(), now);
        self.bytes += bytes.len();
        self.next = self.next.into_iter().chain(until).min();
        self.entries.push(Entry { secret: Secret::from_bytes(bytes.to_vec()), until });
        let entry = self.entries.len() - 1;
        self.whole.insert(hash, entry);
        for range in parts {
            let pattern = Pattern { entry, range };
            if let Some(patterns) = self.slot_of(&pattern) {
                let longer = |known: &Pattern| known.range.len() >= pattern.range.len();
                let place = patterns.partition_point(longer);
                patterns.insert(place, pattern);
            }
        }
    }

    /// The longest pattern that stands at the beginning of `text`, by its length.
    #[inline]
    pub(super) fn at(&self, text: &[u8], least: usize) -> Option<usize> {
        let slot = slot(text)?;
        if self.filter.get(usize::from(slot >> 6))? >> (slot & 63) & 1 == 0 {
            return None;
        }
        let patterns = self.index.get(&slot)?;
        let found = patterns.iter().find(|pattern| text.starts_with(self.text(pattern)))?;
        Some(found.range.len()).filter(|length| *length >= least)
    }

    fn text(&self, pattern: &Pattern) -> &[u8] {
        &self.entries[pattern.entry].secret.expose_bytes()[pattern.range.clone()]
    }

    /// Where in the index a pattern belongs.
    fn slot_of(&mut self, pattern: &Pattern) -> Option<&mut Vec<Pattern>> {
        let slot = slot(self.text(pattern))?;
        self.filter.resize(1 << 10, 0);
        self.filter[usize::from(slot >> 6)] |= 1 << (slot & 63);
        Some(self.index.entry(slot).or_default())
    }

    /// Forgets what has expired and, where there is no room for so many bytes more, what expires first.
    fn forget(&mut self, more: usize, now: Duration) {
        let full = self.entries.len() >= MOST || self.bytes + more > MOST_BYTES;
        if !full && self.next.is_none_or(|next| next > now) {
            return;
        }
        self.filter.clear();
        self.whole.clear();
        let mut patterns = vec![Vec::new(); self.entries.len()];
        for pattern in std::mem::take(&mut self.index).into_values().flatten() {
            patterns[pattern.entry].push(pattern.range);
        }
        let mut kept: Vec<_> =
            std::mem::take(&mut self.entries).into_iter().zip(patterns).collect();
        kept.retain(|(entry, _)| entry.until.is_none_or(|until| until > now));
        if full {
            // A stable sort: of those that are for good, the oldest come first. An eighth at once, or
            // every secret that comes would cost a walk over all of them.
            kept.sort_by_key(|(entry, _)| entry.until.unwrap_or(Duration::MAX));
            let mut bytes: usize = kept.iter().map(|(entry, _)| entry.len()).sum();
            let room = |count: usize, bytes: usize| {
                count <= MOST - MOST / 8 && bytes + more <= MOST_BYTES - MOST_BYTES / 8
            };
            let count = kept.len();
            let gone = kept
                .iter()
                .enumerate()
                .position(|(gone, (entry, _))| {
                    let enough = room(count - gone, bytes);
                    bytes -= entry.len();
                    enough
                })
                .unwrap_or(count);
            kept.drain(..gone);
        }
        self.bytes = kept.iter().map(|(entry, _)| entry.len()).sum();
        self.next = kept.iter().filter_map(|(entry, _)| entry.until).min();
        for (number, (entry, ranges)) in kept.into_iter().enumerate() {
            self.whole.insert(self.hasher.hash_one(entry.secret.expose_bytes()), number);
            self.entries.push(entry);
            for range in ranges {
                let pattern = Pattern { entry: number, range };
                if let Some(patterns) = self.slot_of(&pattern) {
                    patterns.push(pattern);
                }
            }
        }
        let longest_first = |pattern: &Pattern| std::cmp::Reverse(pattern.range.len());
        self.index.values_mut().for_each(|patterns| patterns.sort_by_key(longest_first));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Entry {
    fn len(&self) -> usize {
        self.secret.expose_bytes().len()
    }
}

/// Where patterns that begin so are found.
#[inline]
fn slot(text: &[u8]) -> Option<u16> {
    let first = u32::from_le_bytes(*text.first_chunk::<4>()?);
    u16::try_from(first.wrapping_mul(0x9e37_79b1) >> 16).ok()
}

/// The text itself and each of its lines, but for the frame of a PEM block.
fn lines(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if !text.starts_with(b"-----") {
        found.push(0..text.len());
    }
    let mut start = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let skipped = line.len() - line.trim_ascii_start().len();
        let trimmed = line.trim_ascii();
        if trimmed.len() < text.len() && !trimmed.starts_with(b"-----") {
            found.push(start + skipped..start + skipped + trimmed.len());
        }
        start += line.len();
    }
    found
}

/// The bytes of the first private key in a PEM text.
fn der(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, rest) = text.split_once("PRIVATE KEY-----")?;
    let (body, _) = rest.split_once("-----END")?;
    let mut joined = Zeroizing::new(Vec::with_capacity(body.len()));
    joined.extend(body.bytes().filter(|byte| !byte.is_ascii_whitespace()));
    STANDARD.decode(&*joined).ok().map(Zeroizing::new)
}
