//! The allocator of the program (decision 0027).

/// From now on memory that was freed goes back to the system within seconds, also while nothing happens. It
/// takes a thread, so only commands that run for long ask for it.
pub(crate) fn return_memory() {
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::debug!(%error, "freed memory stays with this process");
    }
}
