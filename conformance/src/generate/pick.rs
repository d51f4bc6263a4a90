//! Chance, from a number: the same number gives the same chances.

/// A source of choices.
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Choices that follow from `number`.
    pub fn new(number: u64) -> Self {
        Self(fastrand::Rng::with_seed(number))
    }

    /// A number below `end`; zero when there is none.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { self.0.usize(..end) }
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    /// Mostly the first, otherwise one of the others.
    pub fn mostly<'a>(&mut self, percent: usize, usual: &'a str, list: &[&'a str]) -> &'a str {
        if self.chance(percent) { usual } else { self.of(list) }
    }
}
