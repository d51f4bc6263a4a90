//! Answers, cached under the keys that the answers themselves name.
//!
//! For the kubelet the *answer* decides what it is for: an image, a registry, everything. So a list
//! of keys is looked up, and the answer says under which key and for how long it is cached.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use sha2::{Digest as _, Sha256};

use keyward_process::{clock::SharedClock, lock};

/// How often expired entries that nobody asks for are removed (LK-07).
const SWEEP: Duration = Duration::from_secs(15 * 60);

/// The key of an entry: the hash of its parts, each with its length. Parts may have any size, none
/// can be mistaken for another, and the key contains no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        Self(digest.finalize().into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

/// A bounded number of answers.
pub(super) struct Cache<V> {
    clock: SharedClock,
    most: usize,
    /// No foreign code runs under this lock.
    inner: Mutex<Inner<V>>,
}

struct Inner<V> {
    kept: HashMap<Key, Kept<V>>,
    swept: Duration,
}

struct Kept<V> {
    value: Arc<V>,
    /// The end of its time, by the wall clock and by the monotonic clock.
    until: Moment,
    /// The expiry inside the credential, in wall-clock milliseconds: until then it is better than
    /// nothing.
    valid: Option<i64>,
}

#[derive(Clone, Copy)]
struct Moment {
    wall: i64,
    elapsed: Duration,
}

impl<V> Cache<V> {
    pub(super) fn new(clock: SharedClock, most: usize) -> Self {
        let swept = clock.elapsed();
        Self { clock, most, inner: Mutex::new(Inner { kept: HashMap::new(), swept }) }
    }

    /// The first of these keys with an entry that may still be served.
    pub(super) fn find(&self, keys: &[Key]) -> Option<(usize, Arc<V>)> {
        let now = self.now();
        let mut inner = lock(&self.inner);
        if now.elapsed > inner.swept + SWEEP {
            inner.sweep(now);
        }
        keys.iter().enumerate().find_map(|(number, key)| {
            let kept = inner.kept.get(key).filter(|kept| !kept.expired(now))?;
            Some((number, Arc::clone(&kept.value)))
        })
    }

    /// The last entry under one of these keys, if its credential has not expired.
    pub(super) fn last_good(&self, keys: &[Key]) -> Option<Arc<V>> {
        let now = self.now();
        let inner = lock(&self.inner);
        let kept = keys.iter().find_map(|key| inner.kept.get(key).filter(|kept| kept.is_good(now)));
        kept.map(|kept| Arc::clone(&kept.value))
    }

    /// Caches an answer for this long. `valid` is the expiry inside the credential, if it has one.
    pub(super) fn put(&self, key: Key, value: &Arc<V>, time: Duration, valid: Option<i64>) {
        let now = self.now();
        let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let until = Moment {
            wall: now.wall.saturating_add(millis),
            elapsed: now.elapsed.saturating_add(time),
        };
        let mut inner = lock(&self.inner);
        if inner.kept.len() >= self.most && !inner.kept.contains_key(&key) {
            inner.make_room(now, self.most);
        }
        inner.kept.insert(key, Kept { value: Arc::clone(value), until, valid });
    }

    /// The number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        lock(&self.inner).kept.len()
    }

    fn now(&self) -> Moment {
        Moment { wall: self.clock.wall_millis(), elapsed: self.clock.elapsed() }
    }
}

impl<V> Inner<V> {
    fn sweep(&mut self, now: Moment) {
        self.kept.retain(|_, kept| kept.is_good(now));
        self.swept = now.elapsed;
    }

    /// Removes expired entries and, if that is not enough, those that expire next.
    fn make_room(&mut self, now: Moment, most: usize) {
        self.sweep(now);
        while self.kept.len() >= most {
            let first = self.kept.iter().min_by_key(|(_, kept)| kept.until.elapsed);
            let Some(key) = first.map(|(key, _)| *key) else { return };
            self.kept.remove(&key);
        }
    }
}

impl<V> Kept<V> {
    /// At the exact end of its time an entry is still good (LK-06).
    fn expired(&self, now: Moment) -> bool {
        now.wall > self.until.wall || now.elapsed > self.until.elapsed
    }

    /// Whether it may still be served, or is at least better than nothing.
    fn is_good(&self, now: Moment) -> bool {
        !self.expired(now) || self.valid.is_some_and(|valid| now.wall <= valid)
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use keyward_process::clock::ManualClock;

    fn cache(most: usize) -> (Arc<ManualClock>, Cache<u8>) {
        let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
        (Arc::clone(&clock), Cache::new(clock, most))
    }

    fn key(text: &str) -> Key {
        Key::of([text.as_bytes()])
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn an_answer_is_good_at_its_end_and_not_after() {
        let (clock, cache) = cache(10);
        cache.put(key("a"), &Arc::new(1), MINUTE, None);
        clock.advance(Duration::from_secs(60));
        assert!(cache.find(&[key("a")]).is_some());
        clock.advance(Duration::from_millis(1));
        assert!(cache.find(&[key("a")]).is_none());
    }

    #[test]
    fn a_clock_set_back_makes_nothing_live_longer() {
        let (clock, cache) = cache(10);
        cache.put(key("a"), &Arc::new(1), MINUTE, None);
        clock.jump(SignedDuration::from_hours(-5));
        clock.advance(Duration::from_secs(61));
        assert!(cache.find(&[key("a")]).is_none());
    }

    #[test]
    fn the_first_key_wins() {
        let (_, cache) = cache(10);
        cache.put(key("registry"), &Arc::new(2), MINUTE, None);
        let keys = [key("image"), key("registry"), key("global")];
        assert_eq!(cache.find(&keys).map(|(n, v)| (n, *v)), Some((1, 2)));
        cache.put(key("image"), &Arc::new(1), MINUTE, None);
        assert_eq!(cache.find(&keys).map(|(n, v)| (n, *v)), Some((0, 1)));
    }

    #[test]
    fn what_nobody_asks_for_is_swept_by_any_lookup_after_a_quarter_of_an_hour() {
        let (clock, cache) = cache(10);
        cache.put(key("a"), &Arc::new(1), MINUTE, None);
        clock.advance(Duration::from_secs(15 * 60));
        assert!(cache.find(&[key("other")]).is_none());
        assert_eq!(cache.len(), 1);
        clock.advance(Duration::from_millis(1));
        assert!(cache.find(&[key("other")]).is_none());
        assert_eq!(cache.len(), 0);
    }

    #[test]
    fn what_is_still_valid_by_itself_is_the_last_good_one() {
        let (clock, cache) = cache(10);
        cache.put(key("a"), &Arc::new(1), MINUTE, Some(3_600_000));
        clock.advance(Duration::from_secs(61));
        assert!(cache.find(&[key("a")]).is_none());
        assert_eq!(cache.last_good(&[key("a")]).as_deref(), Some(&1));
        clock.advance(Duration::from_secs(3600));
        assert!(cache.last_good(&[key("a")]).is_none());
    }

    #[test]
    fn a_full_shelf_gives_up_what_ends_first() {
        let (_, cache) = cache(2);
        for (name, seconds) in [("long", 90), ("short", 30), ("new", 60)] {
            cache.put(key(name), &Arc::new(1), Duration::from_secs(seconds), None);
        }
        assert!(cache.find(&[key("short")]).is_none());
        assert!(cache.find(&[key("long")]).is_some() && cache.find(&[key("new")]).is_some());
    }

    #[test]
    fn parts_of_any_size_are_told_apart() {
        let big = vec![b'x'; 100_000];
        assert_eq!(Key::of([&big[..]]), Key::of([&big[..]]));
        assert_ne!(Key::of([&big[..]]), Key::of([&big[..99_999], &b"x"[..]]));
        assert_ne!(Key::of([&b"a"[..], b"bc"]), Key::of([&b"ab"[..], b"c"]));
    }
}
