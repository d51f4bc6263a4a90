//! How much memory and time a reader may use.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Runs `read`, which must need no more memory than 20 times the input and 8 MB, and no more time
/// than is in proportion to the input.
pub(crate) fn within<T>(input: &[u8], read: impl Fn() -> T) -> T {
    let start = Instant::now();
    let mut result = None;
    let used = allocation_counter::measure(|| result = Some(read()));
    let most = input.len() * 20 + (8 << 20);
    assert!(
        used.bytes_max <= most as u64,
        "{} bytes of memory for {} bytes of input",
        used.bytes_max,
        input.len()
    );
    let limit = limit(input.len());
    // On a busy machine the wall clock says little: what was slow by it is done again by the clock
    // of this thread.
    if start.elapsed() > limit {
        let start = thread_time();
        read();
        let taken = thread_time().saturating_sub(start);
        assert!(taken <= limit, "{taken:?} for {} bytes of input", input.len());
    }
    result.expect("it was run")
}

/// Half a second and 50 µs for every byte: twenty times what an unoptimised reader needs, and far
/// less than one whose time grows with the square of the input.
fn limit(length: usize) -> Duration {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    Duration::from_millis(500) + Duration::from_micros(50) * length
}

fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("a time since the thread began")
}
