//! Runs and answers that several processes share: each pull on a node is a process of its own.
//!
//! One process runs a provider, and all that wait for its answer get it; an error only those that wait for the same
//! image, because a provider may refuse one image and have a login for the next. Answers are kept under the
//! key that they name themselves, for as long as they say; one that is valid for longer is kept aside, for the time
//! when the provider fails.

use std::{sync::Arc, time::Duration};

use keyward_host::{Error, Kind, redact, rules::Program};
use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::{
    Secret,
    image::{CacheKey, Response, Version},
};

use super::{
    answer::{Answer, Scope},
    cache::{Key, hex},
    config::Protocol,
    failure::needed_by,
    question::Question,
};

/// Keeps answers for several processes, and lets one of them run a provider for all. Calls may block.
///
/// Whatever goes wrong with the store itself is "nothing is kept": the provider then runs as it would without.
pub trait SharedStore: Send + Sync + 'static {
    /// What is kept under a name.
    fn get(&self, name: &str) -> Option<Secret>;

    /// What is kept under several names, in their order. A store that is far away answers them all at once.
    fn get_all(&self, names: &[String]) -> Vec<Option<Secret>> {
        names.iter().map(|name| self.get(name)).collect()
    }

    /// What is kept or just brought under a name, or the right to bring it. Waits up to `limit` while another
    /// process has that right.
    fn lease(&self, name: &str, limit: Duration) -> SharedLease;

    /// Gives a value to those who wait for it, and keeps it until this time, in wall-clock milliseconds.
    fn put(&self, name: &str, value: Secret, until: i64);
}

/// What came of asking for a lease.
#[derive(Debug)]
pub enum SharedLease {
    /// The value is kept, or another process has just brought it.
    Found(Secret),
    /// This process brings the value; others wait until then.
    Ours,
    /// Nothing is shared.
    Unavailable,
}

/// The label of a note on failures of runs that other processes made.
const ELSEWHERE: &str = "run by";

/// Whether a provider's failure comes from a run that another process made.
pub fn failed_elsewhere(error: &Error) -> bool {
    error.notes().iter().any(|(label, _)| *label == ELSEWHERE)
}

/// A store, and how long a provider may take including the wait for the run of another process.
#[derive(Clone)]
pub(super) struct Sharing {
    pub(super) store: Arc<dyn SharedStore>,
    pub(super) within: Duration,
}

/// A time that has passed: what ends then is given to those who wait, and not kept.
const PAST: i64 = 1;

/// The word before a failure, where an answer has its time.
const FAILED: &str = "failed";

/// What another process has brought.
enum Shared {
    Answer(Answer),
    /// The image that the provider ran for, and why it failed.
    Failure(String, Error),
}

/// A question whose answer is shared.
pub(super) struct SharedQuestion<'a> {
    sharing: &'a Sharing,
    question: &'a Question,
    /// What the provider's run depends on, except for whom it is made.
    provider: Key,
    /// For whom the run is made.
    client: &'a Key,
    /// The wall clock's time, in milliseconds.
    now: i64,
}

impl<'a> SharedQuestion<'a> {
    pub(super) fn new(
        sharing: &'a Sharing,
        question: &'a Question,
        program: &Program,
        client: &'a Key,
        now: i64,
    ) -> Self {
        // A replaced program may answer differently.
        let provider = Key::of([
            question.provider_key().bytes(),
            program.path.as_os_str().as_encoded_bytes(),
            &program.file_id.to_bytes(),
        ]);
        Self { sharing, question, provider, client, now }
    }

    /// The kept answer, that of a run which another process makes, or that of `run`, which gets the time that is left.
    pub(super) fn obtain(
        &self,
        budget: Duration,
        run: impl FnOnce(Duration) -> Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        if let Some(answer) = self.kept() {
            return Ok(answer);
        }
        let start = SystemClock.elapsed();
        let left = || {
            let waited = SystemClock.elapsed().saturating_sub(start);
            budget.min(self.sharing.within.saturating_sub(waited))
        };
        let mut scope = self.expected_scope();
        loop {
            let found = match self.sharing.store.lease(&self.name("fresh", scope), left()) {
                SharedLease::Found(found) => found,
                SharedLease::Unavailable => return run(left()),
                SharedLease::Ours => break,
            };
            match self.read(&found) {
                Some(Shared::Answer(answer)) if self.question.covered(&answer) => {
                    return Ok(answer);
                }
                Some(Shared::Failure(image, error)) if image == self.question.image => {
                    return Err(error);
                }
                _ if scope == Scope::Image => return run(left()),
                // It is for another image only.
                _ => scope = Scope::Image,
            }
        }
        // Another run may have ended since, with an answer for other images too.
        let kept = self.kept();
        let result = kept.map_or_else(|| run(left()), Ok);
        self.publish(scope, &result);
        result
    }

    /// The last answer, if its logins have not expired.
    pub(super) fn last_good(&self) -> Option<Answer> {
        self.find("last", |answer| answer.own_expiry().is_some_and(|end| self.now <= end))
    }

    /// The answer that is kept, the most specific first (LK-05).
    fn kept(&self) -> Option<Answer> {
        self.find("fresh", |_| true)
    }

    fn find(&self, kind: &str, good: impl Fn(&Answer) -> bool) -> Option<Answer> {
        let names = Scope::ALL.map(|scope| self.name(kind, scope));
        self.sharing.store.get_all(&names).into_iter().find_map(|found| {
            let Some(Shared::Answer(answer)) = self.read(&found?) else { return None };
            (self.question.covered(&answer) && good(&answer)).then_some(answer)
        })
    }

    /// The images that the next run is expected to answer for: as the last one, or as the configuration declares.
    /// Before the first run, pulls from one registry wait for each other, and no registry for another.
    fn expected_scope(&self) -> Scope {
        if self.question.provider.protocol == Protocol::Proposal {
            return Scope::Image;
        }
        let learnt = self.sharing.store.get(&self.scope_name());
        let learnt = learnt.and_then(|learnt| Scope::named(learnt.expose()));
        learnt.or(self.question.provider.known_key).unwrap_or(Scope::Registry)
    }

    /// Gives the result of a run to those who wait for it, and keeps it for later.
    fn publish(&self, leased: Scope, result: &Result<Answer, Error>) {
        let store = &self.sharing.store;
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                let failure = failure(&self.question.image, error);
                return store.put(&self.name("fresh", leased), failure, PAST);
            }
        };
        let until = answer.kept_for.map_or(PAST, |time| self.now.saturating_add(millis(time)));
        let value = || written(answer, until);
        if answer.runs > 0 {
            if answer.scope != leased && answer.kept_for.is_some() {
                store.put(&self.name("fresh", answer.scope), value(), until);
            }
            let end = answer.own_expiry().filter(|end| *end > until && answer.kept_for.is_some());
            if let Some(end) = end {
                store.put(&self.name("last", answer.scope), value(), end);
            }
            store.put(&self.scope_name(), Secret::new(answer.scope.name()), i64::MAX);
        }
        // Those who wait go on only now, and find everything in its place.
        let until = if answer.scope == leased { until } else { PAST };
        store.put(&self.name("fresh", leased), value(), until);
    }

    fn name(&self, kind: &str, scope: Scope) -> String {
        let part = scope.part(&self.question.image);
        let parts = [kind.as_bytes(), self.provider.bytes(), scope.name().as_bytes()];
        hex(Key::of(parts.into_iter().chain([part.as_bytes(), self.client.bytes()])).bytes())
    }

    fn scope_name(&self) -> String {
        hex(Key::of([&b"scope"[..], self.provider.bytes()]).bytes())
    }

    /// What another process has put; `None` if it cannot be read.
    fn read(&self, value: &Secret) -> Option<Shared> {
        let (head, body) = value.expose().split_once('\n')?;
        let (until, image) = head.split_once(' ')?;
        if until == FAILED {
            let error = Error::relayed(Kind::Failed, body)
                .note(ELSEWHERE, "another pull on this node, at the same time")
                .needed_by(needed_by(&self.question.provider));
            return Some(Shared::Failure(image.to_owned(), error));
        }
        let until: i64 = until.parse().ok()?;
        let response = Response::read(body.as_bytes(), Version::V1).ok()?;
        let rest = u64::try_from(until.saturating_sub(self.now)).unwrap_or_default();
        let kept_for = Some(Duration::from_millis(rest)).filter(|rest| !rest.is_zero());
        for (_, login) in &response.auth {
            redact::remember(&login.password, kept_for.or(Some(Duration::ZERO)));
        }
        let scope = Scope::named(response.key.name())?;
        let answer = Answer::new(image, scope, kept_for, response.auth);
        Some(Shared::Answer(Answer { runs: 0, ..answer }))
    }
}

/// An answer for other processes: until when it is kept and the image that it was asked for, then the answer itself.
fn written(answer: &Answer, until: i64) -> Secret {
    let key = CacheKey::named(answer.scope.name());
    let response = Response { key, duration: None, auth: answer.auth.clone() };
    let body = response.to_json(Version::V1);
    Secret::new(format!("{until} {}\n{}", answer.image, body.expose()))
}

/// A failure for other processes, with the image of the run.
fn failure(image: &str, error: &Error) -> Secret {
    Secret::new(format!("{FAILED} {image}\n{}", redact::redact(&format!("{error:?}"))))
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
