//! What the agent keeps for a family.

use keyward_protocol::Secret;

use crate::{
    Call,
    store::{Key, Lease, Store},
};

/// What a lease found, as `read` understands it; `None` if this process has to bring it. `missing` is what the agent
/// does not keep, for people.
pub(crate) fn found<T>(
    lease: &Lease,
    store: &mut Store,
    key: &Key,
    call: &Call,
    missing: &str,
    read: impl FnOnce(&Secret) -> Option<T>,
) -> Option<T> {
    match lease {
        Lease::Found(kept) => {
            let found = read(kept);
            if found.is_none() {
                store.forget(key);
            }
            return found;
        }
        Lease::Ours => call.skipped("agent", format!("it keeps no {missing}")),
        Lease::NoAgent => call.skipped("agent", store.absence().unwrap_or("it keeps nothing")),
    }
    None
}
