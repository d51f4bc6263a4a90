//! Secrets by name, for providers that share a token between processes.

use std::collections::{HashMap, VecDeque};

use keyward_protocol::{Secret, agent::Served};

use super::connection::Id;

/// How long a secret without an expiry is kept, and any secret at most.
const LONGEST: i64 = 12 * 3600 * 1000;
/// How many secrets are kept.
const MOST: usize = 1000;
/// How long a name may be.
const NAME: usize = 512;
/// How long a secret may be.
const SIZE: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Secrets {
    kept: HashMap<String, Kept>,
    leases: HashMap<String, Leased>,
    /// Whether a new secret may displace another: a program can bring all of them again, without a person.
    displaces: bool,
}

struct Kept {
    value: Secret,
    until: i64,
}

struct Leased {
    holder: Id,
    waiting: VecDeque<Id>,
}

/// The answers that a change causes, with their connections.
pub(super) type Told = Vec<(Id, Served)>;

impl Secrets {
    pub(super) fn new(displaces: bool) -> Self {
        Self { displaces, ..Self::default() }
    }

    pub(super) fn get(&self, name: &str, now: i64) -> Served {
        match self.kept.get(name).filter(|kept| now < kept.until) {
            Some(kept) => Served::Done(kept.value.clone()),
            None => Served::Absent,
        }
    }

    /// Keeps a secret and sends it to everybody who waits for it.
    pub(super) fn put(
        &mut self,
        name: String,
        value: Secret,
        until: i64,
        now: i64,
        who: Id,
    ) -> Told {
        if name.len() > NAME || value.expose_bytes().len() > SIZE {
            return vec![(who, Served::Not("the name or the secret is too long".into()))];
        }
        self.sweep(now);
        if self.kept.len() >= MOST && !self.kept.contains_key(&name) && !self.make_room() {
            return vec![(who, Served::Not(format!("the agent already keeps {MOST} secrets")))];
        }
        let most = now.saturating_add(LONGEST);
        let until = if until == 0 { most } else { until.min(most) };
        // If another client holds the lease, its waiters are answered when it puts the secret.
        let ours = self.leases.get(&name).is_some_and(|leased| leased.holder == who);
        let leased = if ours { self.leases.remove(&name) } else { None };
        let waiting = leased.into_iter().flat_map(|leased| leased.waiting);
        let told = waiting.map(|id| (id, Served::Done(value.clone())));
        let told = told.chain([(who, Served::Done(Secret::default()))]).collect();
        // What must not be kept is still for those who wait.
        if now < until {
            self.kept.insert(name, Kept { value, until });
        } else {
            self.kept.remove(&name);
        }
        told
    }

    /// Removes the secret that expires first, if that is allowed.
    fn make_room(&mut self) -> bool {
        let first = self.kept.iter().min_by_key(|(_, kept)| kept.until);
        let first = first.filter(|_| self.displaces).map(|(name, _)| name.clone());
        first.is_some_and(|name| self.kept.remove(&name).is_some())
    }

    /// The secret, the lease, or `None` while another holds the lease.
    pub(super) fn lease(&mut self, name: &str, now: i64, who: Id) -> Option<Served> {
        if let found @ Served::Done(_) = self.get(name, now) {
            return Some(found);
        }
        if name.len() > NAME {
            return Some(Served::Not("the name is too long".into()));
        }
        match self.leases.get_mut(name) {
            Some(leased) if leased.holder == who => Some(Served::Leased),
            Some(leased) => {
                leased.waiting.push_back(who);
                None
            }
            None => {
                let leased = Leased { holder: who, waiting: VecDeque::new() };
                self.leases.insert(name.to_owned(), leased);
                Some(Served::Leased)
            }
        }
    }

    pub(super) fn forget(&mut self, name: &str) -> Served {
        match self.kept.remove(name) {
            Some(_) => Served::Done(Secret::default()),
            None => Served::Absent,
        }
    }

    pub(super) fn forget_all(&mut self) {
        self.kept.clear();
    }

    /// The names with a lease.
    pub(super) fn pending(&self) -> Served {
        let mut names: Vec<_> = self.leases.keys().map(String::as_str).collect();
        names.sort_unstable();
        Served::Done(Secret::new(names.join("\n")))
    }

    /// A connection has ended: its leases go to those who have waited longest.
    pub(super) fn gone(&mut self, who: Id) -> Told {
        let mut told = Vec::new();
        self.leases.retain(|_, leased| {
            leased.waiting.retain(|id| *id != who);
            if leased.holder != who {
                return true;
            }
            match leased.waiting.pop_front() {
                Some(next) => {
                    leased.holder = next;
                    told.push((next, Served::Leased));
                    true
                }
                None => false,
            }
        });
        told
    }

    pub(super) fn sweep(&mut self, now: i64) {
        self.kept.retain(|_, kept| now < kept.until);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.leases.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Served {
        Served::Done(Secret::new(text))
    }

    #[test]
    fn one_brings_it_and_all_who_wait_get_it() {
        let mut secrets = Secrets::default();
        assert_eq!(secrets.lease("a", 0, 1), Some(Served::Leased));
        assert_eq!(secrets.lease("a", 0, 2), None);
        assert_eq!(secrets.lease("a", 0, 3), None);
        assert_eq!(secrets.pending(), secret("a"));
        let told = secrets.put("a".into(), Secret::new("t"), 50, 0, 1);
        assert_eq!(told, [(2, secret("t")), (3, secret("t")), (1, secret(""))]);
        assert_eq!(secrets.lease("a", 49, 4), Some(secret("t")));
        assert_eq!(secrets.get("a", 50), Served::Absent);
        assert_eq!(secrets.lease("a", 50, 4), Some(Served::Leased));
    }

    #[test]
    fn what_has_expired_goes_to_those_who_wait_and_is_not_kept() {
        let mut secrets = Secrets::default();
        secrets.lease("a", 5, 1);
        secrets.lease("a", 5, 2);
        let told = secrets.put("a".into(), Secret::new("t"), 5, 5, 1);
        assert_eq!(told, [(2, secret("t")), (1, secret(""))]);
        assert_eq!(secrets.count(), 0);
        assert_eq!(secrets.lease("a", 5, 3), Some(Served::Leased));
    }

    #[test]
    fn a_full_store_of_the_node_gives_up_what_expires_first() {
        let mut secrets = Secrets::new(true);
        for number in 0..MOST {
            let until = i64::try_from(number).unwrap() + 100;
            secrets.put(number.to_string(), Secret::new("t"), until, 0, 1);
        }
        secrets.put("new".into(), Secret::new("t"), 5000, 0, 1);
        assert_eq!(secrets.count(), MOST);
        assert_eq!(secrets.get("0", 0), Served::Absent);
        assert_eq!(secrets.get("1", 0), secret("t"));
        assert_eq!(secrets.get("new", 0), secret("t"));
    }

    #[test]
    fn who_holds_a_lease_and_goes_away_is_followed_by_the_next() {
        let mut secrets = Secrets::default();
        for id in 1..=3 {
            secrets.lease("a", 0, id);
        }
        assert_eq!(secrets.gone(2), []);
        assert_eq!(secrets.gone(1), [(3, Served::Leased)]);
        assert_eq!(secrets.gone(3), []);
        assert!(secrets.is_empty());
    }

    #[test]
    fn a_secret_is_kept_no_longer_than_twelve_hours_and_there_are_not_too_many() {
        let mut secrets = Secrets::default();
        secrets.put("a".into(), Secret::new("t"), 0, 0, 1);
        assert_eq!(secrets.get("a", LONGEST - 1), secret("t"));
        assert_eq!(secrets.get("a", LONGEST), Served::Absent);
        for number in 0..MOST {
            secrets.put(number.to_string(), Secret::new("t"), 0, LONGEST, 1);
        }
        let told = secrets.put("b".into(), Secret::new("t"), 0, LONGEST, 1);
        assert!(matches!(told.as_slice(), [(1, Served::Not(_))]), "{told:?}");
    }
}
