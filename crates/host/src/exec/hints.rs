//! Spares a log the same advice over and over.

use std::{sync::Mutex, time::Duration};

use keyward_process::lock;

const MOST: u32 = 10;
const WINDOW: Duration = Duration::from_secs(3600);

/// Lets ten hints an hour pass (IH-03): a person at a terminal sees each, a log is not filled.
#[derive(Default)]
pub(super) struct Hints(Mutex<Option<(Duration, u32)>>);

impl Hints {
    /// Whether one more may be shown at this time.
    pub(super) fn allow(&self, now: Duration) -> bool {
        let mut window = lock(&self.0);
        let (start, shown) = window.filter(|(start, _)| now < *start + WINDOW).unwrap_or((now, 0));
        let allowed = shown < MOST;
        *window = Some((start, shown + u32::from(allowed)));
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_an_hour_and_then_ten_more() {
        let hints = Hints::default();
        let shown = |from: u64, to: u64| {
            (from..to).filter(|second| hints.allow(Duration::from_secs(*second))).count()
        };
        assert_eq!(shown(0, 3600), 10);
        assert_eq!(shown(3600, 7200), 10);
    }
}
