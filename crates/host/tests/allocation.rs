//! What a cached value costs: counted by an allocator that counts.
#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use keyward_host::{Credential, Error, Fetched, Occasion, Source};
use keyward_process::clock::{Clock, SystemClock};
use keyward_protocol::Secret;

#[test]
fn a_cached_value_is_handed_out_without_allocation() {
    let fetch = |_: &Occasion| -> Result<Fetched<Credential>, Error> {
        let expires = SystemClock.now() + Duration::from_secs(3600);
        let value = Credential::of(Some(Secret::new("t")), None, Some(expires))?;
        Ok(Fetched { value, expires: Some(expires) })
    };
    let source = Source::from_fetch(fetch, Arc::new(SystemClock));
    let first = allocation_counter::measure(|| {
        source.credential_blocking().unwrap();
        // The first time, a thread gets its place among the readers.
        source.current().unwrap();
    });
    assert!(first.count_total > 0, "the allocator does count");
    let cached = allocation_counter::measure(|| {
        for _ in 0..10_000 {
            assert!(source.current().is_some());
        }
    });
    assert_eq!((cached.count_total, cached.bytes_total), (0, 0));
}
