//! One label of a pattern's host: literal, `*`, a mix of both, or something odd.

/// A compiled label.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Glob {
    /// Exactly these bytes.
    Exact(Vec<u8>),
    /// Anything, including nothing.
    Any,
    /// Literals with gaps between them.
    Gaps(Gaps),
    /// A host whose characters mean something else to the reference's matcher, which reads the `[`
    /// of an IPv6 address as the start of a class.
    Odd(String),
}

/// `prefix*middle*…*suffix`; at least one of them is not empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Gaps {
    pub(super) prefix: Vec<u8>,
    pub(super) middles: Vec<Vec<u8>>,
    pub(super) suffix: Vec<u8>,
}

impl Glob {
    pub(super) fn compile(label: &[u8]) -> Self {
        if label.iter().any(|b| matches!(b, b'[' | b'\\' | b'?')) {
            return Self::Odd(String::from_utf8_lossy(label).into_owned());
        }
        let mut parts = label.split(|b| *b == b'*');
        let prefix = parts.next().unwrap_or_default().to_vec();
        let Some(suffix) = parts.next_back() else {
            return Self::Exact(prefix);
        };
        let suffix = suffix.to_vec();
        let middles: Vec<_> = parts.filter(|p| !p.is_empty()).map(<[u8]>::to_vec).collect();
        if prefix.is_empty() && middles.is_empty() && suffix.is_empty() {
            return Self::Any;
        }
        Self::Gaps(Gaps { prefix, middles, suffix })
    }

    pub(super) fn matches(&self, label: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text == label,
            Self::Any => true,
            Self::Gaps(gaps) => gaps.matches(label),
            Self::Odd(pattern) => odd_matches(pattern, label),
        }
    }
}

impl Gaps {
    fn matches(&self, label: &[u8]) -> bool {
        label
            .strip_prefix(&self.prefix[..])
            .and_then(|rest| rest.strip_suffix(&self.suffix[..]))
            .is_some_and(|rest| in_order(&self.middles, rest))
    }
}

/// Whether `text` contains the literals in this order.
pub(super) fn in_order(literals: &[Vec<u8>], mut text: &[u8]) -> bool {
    literals.iter().all(|literal| match find(text, literal) {
        Some(at) => {
            text = &text[at + literal.len()..];
            true
        }
        None => false,
    })
}

/// The first position of `literal` in `text`.
pub(super) fn find(text: &[u8], literal: &[u8]) -> Option<usize> {
    text.windows(literal.len()).position(|window| window == literal)
}

/// Shell matching as in the reference, for labels with more than literals and `*`. A malformed
/// pattern matches nothing.
pub(super) fn odd_matches(pattern: &str, label: &[u8]) -> bool {
    let text = String::from_utf8_lossy(label);
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    odd(&pattern, &text).unwrap_or(false)
}

/// Matches; `None` for a malformed pattern.
fn odd(mut pattern: &[char], mut text: &[char]) -> Option<bool> {
    while let Some((&head, rest)) = pattern.split_first() {
        match head {
            '*' => {
                return (0..=text.len())
                    .map(|skip| odd(rest, &text[skip..]))
                    .find(|found| *found != Some(false))
                    .unwrap_or(Some(false));
            }
            '[' => {
                let Some((&c, after)) = text.split_first() else { return Some(false) };
                let (matched, rest) = class(rest, c)?;
                if !matched {
                    return Some(false);
                }
                (pattern, text) = (rest, after);
            }
            '?' => {
                let Some((_, after)) = text.split_first() else { return Some(false) };
                (pattern, text) = (rest, after);
            }
            _ => {
                let (literal, rest) = if head == '\\' {
                    rest.split_first().map(|(c, r)| (*c, r))?
                } else {
                    (head, rest)
                };
                match text.split_first() {
                    Some((&c, after)) if c == literal => (pattern, text) = (rest, after),
                    _ => return Some(false),
                }
            }
        }
    }
    Some(text.is_empty())
}

/// Whether `c` is in the class that `pattern` opens, and what follows the class.
fn class(mut pattern: &[char], c: char) -> Option<(bool, &[char])> {
    let negated = pattern.first() == Some(&'^');
    if negated {
        pattern = &pattern[1..];
    }
    let mut matched = false;
    let mut ranges = 0;
    loop {
        if ranges > 0 && pattern.first() == Some(&']') {
            return Some((matched != negated, &pattern[1..]));
        }
        let (low, rest) = bound(pattern)?;
        let (high, rest) = match rest.split_first() {
            Some(('-', rest)) => bound(rest)?,
            _ => (low, rest),
        };
        matched |= (low..=high).contains(&c);
        ranges += 1;
        pattern = rest;
    }
}

/// One end of a range; something must follow it.
fn bound(pattern: &[char]) -> Option<(char, &[char])> {
    let (&c, rest) = pattern.split_first()?;
    let (c, rest) = match c {
        '-' | ']' => return None,
        '\\' => rest.split_first().map(|(c, r)| (*c, r))?,
        c => (c, rest),
    };
    (!rest.is_empty()).then_some((c, rest))
}
