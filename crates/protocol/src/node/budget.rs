//! How much memory a document may take, in proportion to its text.
//!
//! A value of two bytes (`a,`) takes fifty as a node, so a text of nothing else would take a host down.
//! What is counted is what is really allocated, growth of lists included, so the more compact the
//! nodes are, the more documents fit.

use super::SyntaxError;

/// Bytes of memory for each byte of text, and for every document.
const FACTOR: usize = 20;
const FREE: usize = 8 << 20;

/// What is allocated beside what is counted: tokens that wait, hash maps while they grow, and the text
/// itself where it has to be copied.
const ASIDE: usize = 1 << 20;

/// What is left to spend on a document.
pub(super) struct Budget {
    live: usize,
    limit: usize,
}

/// A document that takes too much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exceeded;

impl Budget {
    /// The budget of a text.
    pub(super) fn of(text: &[u8]) -> Self {
        // Two copies of the text may be around: without a byte order mark, and as one line.
        let limit = text.len().saturating_mul(FACTOR - 2).saturating_add(FREE - ASIDE);
        Self { live: 0, limit }
    }

    /// Takes note of an allocation.
    #[inline]
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.live = self.live.saturating_add(bytes);
        if self.live > self.limit { Err(Exceeded) } else { Ok(()) }
    }

    /// Adds to a list that may have to grow. Old and new are there at the same time then.
    #[inline]
    pub(super) fn push<T>(&mut self, items: &mut Vec<T>, item: T) -> Result<(), Exceeded> {
        if items.len() == items.capacity() {
            self.grow(items)?;
        }
        items.push(item);
        Ok(())
    }

    #[cold]
    fn grow<T>(&mut self, items: &mut Vec<T>) -> Result<(), Exceeded> {
        let old = items.capacity() * size_of::<T>();
        let more = items.capacity().max(2);
        let new = (items.capacity() + more) * size_of::<T>();
        if self.live.saturating_add(new) > self.limit {
            return Err(Exceeded);
        }
        items.reserve_exact(more);
        self.live += new - old;
        Ok(())
    }

    /// Takes note that something was freed.
    pub(super) fn give(&mut self, bytes: usize) {
        self.live = self.live.saturating_sub(bytes);
    }

    /// Gives back what a list that is complete has too much.
    pub(super) fn close<T>(&mut self, items: &mut Vec<T>) {
        let spare = (items.capacity() - items.len()) * size_of::<T>();
        if spare > 0 {
            items.shrink_to_fit();
            self.live = self.live.saturating_sub(spare);
        }
    }
}

impl Exceeded {
    /// As a fault of the document, at the place that was one too many.
    #[expect(
        clippy::unused_self,
        reason = "there is one way to exceed the budget, and it reads as such"
    )]
    pub(super) fn at(self, line: u32, column: u32) -> SyntaxError {
        let what =
            "too complex: its many small parts would take more than 20 times its size in memory";
        SyntaxError { what: what.to_owned(), line, column }
    }
}
