//! Many patterns, compiled so that a lookup does not try them one by one.
//!
//! Patterns are sorted by port and number of labels, then by their labels from the right. At each
//! label the index follows the child with exactly that name, the child of `*`, and the globs whose
//! literals occur in the label. A lookup does not allocate.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasherDefault, Hasher},
};

use super::{
    chain::Chain,
    glob::{Gaps, Glob, find, in_order, odd_matches},
    name::Name,
    pattern::Pattern,
    short::{after, last_dot, same},
};

/// How ports and paths are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reading {
    /// As the kubelet does: equal ports, and the path as a text prefix (`/foo` also matches
    /// `/foobar`).
    #[default]
    Kubelet,
    /// As the kubelet does, but a path matches whole segments only.
    Segments,
    /// As in the original proposal: a port counts only if the pattern has one.
    Proposal,
}

impl Reading {
    #[inline]
    pub(super) fn port_fits(self, pattern: &[u8], image: &[u8]) -> bool {
        same(pattern, image) || (self == Self::Proposal && pattern.is_empty())
    }

    #[inline]
    pub(super) fn path_fits(self, pattern: &[u8], image: &[u8]) -> bool {
        after(pattern, image).is_some_and(|rest| {
            self != Self::Segments
                || pattern.is_empty()
                || pattern.ends_with(b"/")
                || rest.first().is_none_or(|b| matches!(b, b'/' | b':' | b'@'))
        })
    }
}

/// Compiled patterns. A pattern's number is its position in the original list.
#[derive(Debug, Default)]
pub struct Index {
    reading: Reading,
    /// By port, then by number of dots in the host: the level where the walk starts.
    roots: Map<Vec<u8>, Vec<Option<usize>>>,
    levels: Vec<Level>,
    leaves: Vec<Chain<Vec<usize>>>,
    /// Patterns of more than [`MOST_LABELS`] labels, with their numbers.
    long: Vec<(Pattern, usize)>,
}

/// The choices at one label. A child is a level, or a leaf after the last label.
#[derive(Debug, Default)]
struct Level {
    exact: Map<Vec<u8>, usize>,
    any: Option<usize>,
    /// By prefix, then by suffix read backwards.
    gaps: Chain<Chain<Middles>>,
    odd: Vec<(String, usize)>,
}

/// The globs with the same prefix and suffix, by what is between.
#[derive(Debug, Default)]
struct Middles {
    /// `prefix*suffix`: nothing.
    none: Option<usize>,
    /// By their first literal: all their literals, and the child.
    first: Map<Vec<u8>, Vec<Ordered>>,
    /// The lengths that first literals have.
    lengths: Vec<usize>,
}

/// Literals in their order, and the child they lead to.
type Ordered = (Vec<Vec<u8>>, usize);

/// Levels are built and walked by recursion, one call per label. A DNS name has at most 127 labels;
/// patterns with more are compared one by one instead, so that none exhausts the stack.
const MOST_LABELS: usize = 128;

/// A pattern and its number.
type Numbered<'p> = (&'p Pattern, usize);

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Fnv>>;

impl Index {
    /// Compiles patterns.
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p Pattern>, reading: Reading) -> Self {
        let mut index = Self { reading, ..Self::default() };
        let mut groups: BTreeMap<(&[u8], usize), Vec<Numbered<'_>>> = BTreeMap::new();
        for (number, pattern) in patterns.into_iter().enumerate() {
            if pattern.labels.len() > MOST_LABELS {
                index.long.push((pattern.clone(), number));
                continue;
            }
            let group = (&pattern.port[..], pattern.labels.len());
            groups.entry(group).or_default().push((pattern, number));
        }
        for ((port, labels), group) in groups {
            let root = index.level(&group, 0);
            let roots = index.roots.entry(port.to_vec()).or_default();
            roots.resize(labels, None);
            roots[labels - 1] = Some(root);
        }
        index
    }

    /// Calls `found` with the number of every pattern that matches this image, in no order.
    pub fn each_match(&self, name: &Name<'_>, mut found: impl FnMut(usize)) {
        self.each_of_port(name.port(), name, &mut found);
        if self.reading == Reading::Proposal && !name.port().is_empty() {
            self.each_of_port(b"", name, &mut found);
        }
        for (pattern, number) in &self.long {
            if pattern.matches(name, self.reading) {
                found(*number);
            }
        }
    }

    /// The lowest number of a pattern that matches this image.
    pub fn first(&self, name: &Name<'_>) -> Option<usize> {
        let mut first = None;
        self.each_match(name, |number| {
            first = Some(first.map_or(number, |f: usize| f.min(number)));
        });
        first
    }

    fn each_of_port(&self, port: &[u8], name: &Name<'_>, found: &mut impl FnMut(usize)) {
        let Some(roots) = self.roots.get(port) else { return };
        let dots = name.host().iter().filter(|b| **b == b'.').count();
        if let Some(Some(root)) = roots.get(dots) {
            self.walk(*root, name.host(), name.path(), found);
        }
    }

    /// Follows the last label of `host`, then the rest of it.
    fn walk(&self, level: usize, host: &[u8], path: &[u8], found: &mut impl FnMut(usize)) {
        let dot = last_dot(host);
        let label = &host[dot.map_or(0, |dot| dot + 1)..];
        self.levels[level].each_child(label, |child| match dot {
            Some(dot) => self.walk(child, &host[..dot], path, found),
            None => self.leaves[child].each_prefix(&path.iter(), |prefix, numbers| {
                if self.reading.path_fits(prefix, path) {
                    for number in numbers {
                        found(*number);
                    }
                }
            }),
        });
    }

    /// Compiles patterns that are equal right of the label at `depth`.
    fn level(&mut self, patterns: &[Numbered<'_>], depth: usize) -> usize {
        let mut children: BTreeMap<&Glob, Vec<Numbered<'_>>> = BTreeMap::new();
        for (pattern, number) in patterns {
            children.entry(&pattern.labels[depth]).or_default().push((pattern, *number));
        }
        let mut level = Level::default();
        let mut gaps: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Middles>> = BTreeMap::new();
        for (glob, group) in children {
            let last = group.iter().all(|(pattern, _)| pattern.labels.len() == depth + 1);
            let child = if last { self.leaf(&group) } else { self.level(&group, depth + 1) };
            match glob {
                Glob::Exact(text) => _ = level.exact.insert(text.clone(), child),
                Glob::Any => level.any = Some(child),
                Glob::Gaps(Gaps { prefix, middles, suffix }) => {
                    let reversed = suffix.iter().rev().copied().collect();
                    let suffixes = gaps.entry(prefix.clone()).or_default();
                    suffixes.entry(reversed).or_default().add(middles, child);
                }
                Glob::Odd(pattern) => level.odd.push((pattern.clone(), child)),
            }
        }
        level.gaps = Chain::new(gaps.into_iter().map(|(prefix, s)| (prefix, Chain::new(s))));
        self.levels.push(level);
        self.levels.len() - 1
    }

    /// Compiles patterns that differ only in the path.
    fn leaf(&mut self, patterns: &[Numbered<'_>]) -> usize {
        let mut paths: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (pattern, number) in patterns {
            paths.entry(pattern.path.clone()).or_default().push(*number);
        }
        self.leaves.push(Chain::new(paths));
        self.leaves.len() - 1
    }
}

impl Level {
    /// Calls `found` with every child that matches this label.
    fn each_child(&self, label: &[u8], mut found: impl FnMut(usize)) {
        if let Some(child) = self.exact.get(label) {
            found(*child);
        }
        if let Some(child) = self.any {
            found(child);
        }
        self.gaps.each_prefix(&label.iter(), |prefix, suffixes| {
            let rest = &label[prefix.len()..];
            suffixes.each_prefix(&rest.iter().rev(), |suffix, middles| {
                middles.each_child(&rest[..rest.len() - suffix.len()], &mut found);
            });
        });
        for (pattern, child) in &self.odd {
            if odd_matches(pattern, label) {
                found(*child);
            }
        }
    }
}

impl Middles {
    fn add(&mut self, literals: &[Vec<u8>], child: usize) {
        let Some(first) = literals.first() else {
            self.none = Some(child);
            return;
        };
        if !self.lengths.contains(&first.len()) {
            self.lengths.push(first.len());
        }
        self.first.entry(first.clone()).or_default().push((literals.to_vec(), child));
    }

    /// Calls `found` with every child whose literals stand in `text` in their order.
    fn each_child(&self, text: &[u8], found: &mut impl FnMut(usize)) {
        if let Some(child) = self.none {
            found(child);
        }
        for length in &self.lengths {
            for (at, window) in text.windows(*length).enumerate() {
                let Some(globs) = self.first.get(window) else { continue };
                // A literal that stands here twice is one literal: take its first place.
                if find(text, window) != Some(at) {
                    continue;
                }
                for (literals, child) in globs {
                    if in_order(&literals[1..], &text[at + length..]) {
                        found(*child);
                    }
                }
            }
        }
    }
}

/// Short keys from a configuration that its owner wrote: no need for a keyed hash.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const READINGS: [Reading; 3] = [Reading::Kubelet, Reading::Segments, Reading::Proposal];

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().filter_map(|text| Pattern::parse(text).ok()).collect()
    }

    fn numbers(index: &Index, image: &str) -> Vec<usize> {
        let mut numbers = Vec::new();
        if let Some(name) = Name::parse(image) {
            index.each_match(&name, |number| numbers.push(number));
        }
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn every_pattern_that_means_the_image_is_found() {
        let list = patterns(&[
            "*.io", "a*.io", "*b.io", "a*b.io", "ab.io", "*x*.io", "ab.io/p", "ab.io:1",
        ]);
        let index = Index::new(&list, Reading::Kubelet);
        assert_eq!(numbers(&index, "ab.io/path"), [0, 1, 2, 3, 4, 6]);
        assert_eq!(numbers(&index, "ab.io:1/path"), [7]);
        assert_eq!(numbers(&index, "axxb.io"), [0, 1, 2, 3, 5]);
    }

    #[test]
    fn a_strict_path_ends_with_a_segment() {
        let list = patterns(&["r.io/foo"]);
        assert_eq!(numbers(&Index::new(&list, Reading::Kubelet), "r.io/foobar"), [0]);
        assert!(numbers(&Index::new(&list, Reading::Segments), "r.io/foobar").is_empty());
        assert_eq!(numbers(&Index::new(&list, Reading::Segments), "r.io/foo/bar"), [0]);
    }

    #[test]
    fn the_proposal_asks_for_a_port_only_where_the_pattern_has_one() {
        let list = patterns(&["r.io", "r.io:80"]);
        assert_eq!(numbers(&Index::new(&list, Reading::Proposal), "r.io:80/x"), [0, 1]);
        assert_eq!(numbers(&Index::new(&list, Reading::Proposal), "r.io/x"), [0]);
    }

    #[test]
    fn a_pattern_of_a_hundred_thousand_labels_is_compiled_and_found() {
        let long = vec!["a"; 100_000].join(".");
        let glob = long.replacen('a', "*", 1);
        let list = patterns(&[&long, &glob, "a.a"]);
        for reading in READINGS {
            let index = Index::new(&list, reading);
            assert_eq!(numbers(&index, &format!("{long}/app")), [0, 1]);
            assert_eq!(numbers(&index, "a.a/app"), [2]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_index_and_the_plain_matcher_agree(
            texts in prop::collection::vec("[ab*]{0,4}(\\.[ab*]{0,3}){0,2}(:1)?(/[ab/]{0,3})?", 0..12),
            image in "[ab]{0,4}(\\.[ab]{0,3}){0,2}(:1)?(/[ab/]{0,4})?",
        ) {
            let list = patterns(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            for reading in READINGS {
                let one_by_one: Vec<usize> = Name::parse(&image).map_or_else(Vec::new, |name| {
                    (0..list.len()).filter(|n| list[*n].matches(&name, reading)).collect()
                });
                prop_assert_eq!(numbers(&Index::new(&list, reading), &image), one_by_one);
            }
        }
    }
}
