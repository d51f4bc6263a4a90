//! Copies of one value, a few threads each, so that threads do not fight for one reference count.

use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Threads beyond this share.
const COPIES: usize = 8;

/// A value in several copies, of which each thread uses its own.
pub struct ThreadCopies<T>([Arc<T>; COPIES]);

impl<T> ThreadCopies<T> {
    /// Calls `copy` once for each copy.
    pub fn new(mut copy: impl FnMut() -> T) -> Self {
        Self(array::from_fn(|_| Arc::new(copy())))
    }

    /// The copy of this thread: no lock, no allocation.
    #[inline]
    pub fn mine(&self) -> Arc<T> {
        Arc::clone(&self.0[thread_number() % COPIES])
    }
}

/// A small number that differs between threads.
#[inline]
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
