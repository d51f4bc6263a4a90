//! Keeps a repeated line from filling the log: any process on this machine can connect to a proxy,
//! and each attempt logs a line.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How many lines of one message are written in each window.
const LINES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// How many messages are counted separately; with more, counting starts over.
const MESSAGES: usize = 1000;

/// Counts the lines of each message.
#[derive(Default)]
pub(crate) struct LogLimit {
    hasher: RandomState,
    windows: Mutex<HashMap<u64, Window>>,
}

struct Window {
    since: Duration,
    lines: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Whether to write a line with this message now; if so, with the number of such lines dropped
    /// since the last one.
    pub(crate) fn admit(&self, message: &str, now: Duration) -> Option<u64> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let key = self.hasher.hash_one(message);
        if windows.len() >= MESSAGES && !windows.contains_key(&key) {
            windows.clear();
        }
        let new = Window { since: now, lines: 0, suppressed: 0 };
        let window = windows.entry(key).or_insert(new);
        let mut suppressed = 0;
        if now.saturating_sub(window.since) >= WINDOW {
            suppressed = window.suppressed;
            *window = Window { since: now, lines: 0, suppressed: 0 };
        }
        if window.lines >= LINES {
            window.suppressed += 1;
            return None;
        }
        window.lines += 1;
        Some(suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_repeats_is_written_a_few_times_and_counted() {
        let limit = LogLimit::default();
        let written = (0..1000).filter(|_| limit.admit("x", Duration::ZERO).is_some()).count();
        assert_eq!(written, LINES as usize);
        assert_eq!(limit.admit("y", Duration::ZERO), Some(0), "another one has its own count");
        assert_eq!(limit.admit("x", WINDOW), Some(1000 - u64::from(LINES)));
        assert_eq!(limit.admit("x", WINDOW), Some(0));
    }
}
