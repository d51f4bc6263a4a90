//! What a cached value costs: counted by an allocator that counts.
#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use keyward_host::{
    Error,
    cell::{Cell, Fresh, Keep, Occasion, Settings},
};
use keyward_process::clock::{Clock, SharedClock, SystemClock};

struct Coin(Box<u64>);

impl Keep for Coin {
    fn copy(&self) -> Self {
        Self(self.0.clone())
    }

    fn serial(&self) -> u64 {
        *self.0
    }
}

#[test]
fn a_cached_value_is_handed_out_without_allocation() {
    let fetch = |_: &Occasion| -> Result<Fresh<Coin>, Error> {
        let expires = SystemClock.now() + Duration::from_secs(3600);
        Ok(Fresh { value: Coin(Box::new(1)), expires: Some(expires) })
    };
    let clock: SharedClock = Arc::new(SystemClock);
    let cell = Cell::new(fetch, clock, Settings::default());
    let first = allocation_counter::measure(|| {
        cell.value_blocking().unwrap();
        // The first time, a thread gets its place among the readers.
        cell.current().unwrap();
    });
    assert!(first.count_total > 0, "the allocator does count");
    let cached = allocation_counter::measure(|| {
        for _ in 0..10_000 {
            assert!(cell.current().is_some());
        }
    });
    assert_eq!((cached.count_total, cached.bytes_total), (0, 0));
}
