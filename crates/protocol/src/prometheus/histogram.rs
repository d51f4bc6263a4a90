//! Counts durations in buckets.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the latency buckets, in microseconds: client-go's, with more at the lower end.
const BOUNDS: [u64; 14] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 4_000_000,
    15_000_000, 60_000_000,
];

/// A histogram of durations.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds in microseconds.
    bounds: &'static [u64],
    /// One more than there are bounds.
    buckets: Box<[AtomicU64]>,
    micros: AtomicU64,
}

impl Default for Histogram {
    /// A histogram for latencies.
    fn default() -> Self {
        Self::with_bounds(&BOUNDS)
    }
}

impl Histogram {
    /// A histogram with these upper bounds, in microseconds and in order.
    pub fn with_bounds(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, micros: AtomicU64::new(0) }
    }

    /// Counts a duration. Neither locks nor allocates.
    pub fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = self.bounds.partition_point(|bound| *bound < micros);
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Upper bounds in seconds with the count up to each, the last one without a bound; and the sum
    /// in seconds.
    #[expect(clippy::cast_precision_loss, reason = "a sum of times need not be exact")]
    pub(super) fn read(&self) -> (Vec<(Option<f64>, u64)>, f64) {
        let mut sum = 0;
        let bounds = self.bounds.iter().map(|bound| Some(*bound as f64 / 1e6)).chain([None]);
        let counts = self.buckets.iter().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        });
        let buckets = bounds.zip(counts).collect();
        (buckets, self.micros.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_everything_up_to_its_bound() {
        let histogram = Histogram::default();
        for micros in [1, 250, 251, 70_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let (buckets, sum) = histogram.read();
        assert_eq!(buckets[0], (Some(0.000_25), 2));
        assert_eq!(buckets[1], (Some(0.000_5), 3));
        assert_eq!(buckets.last(), Some(&(None, 4)));
        assert!((sum - 70.000_502).abs() < 1e-9, "{sum}");
    }
}
