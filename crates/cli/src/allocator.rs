//! The program's allocator (decision 0027).

/// Returns freed memory to the system within seconds, even while the program is idle. This takes a
/// thread, so only long-running commands call it.
pub(crate) fn return_memory() {
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::debug!(%error, "freed memory stays with this process");
    }
}
