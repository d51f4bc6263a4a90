//! What goes wrong on purpose.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Method, StatusCode};

/// A rule: requests like this meet that fate.
#[derive(Debug, Clone)]
pub struct Fault {
    path: String,
    method: Option<Method>,
    user: Option<String>,
    skip: u64,
    times: Option<u64>,
    deed: Deed,
}

/// What happens to a request that meets a fault.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Deed {
    /// Answers with this status and a Kubernetes `Status` object.
    Answer(StatusCode),
    /// Answers with this status and a `Status` whose message contains the request's `Authorization`
    /// header.
    Repeat(StatusCode),
    /// The answer comes later.
    Delay(Duration),
    /// The client is sent elsewhere.
    Redirect(StatusCode, String),
    /// The connection is cut without an answer.
    Cut,
    /// The answer's head is sent, then the connection is cut.
    CutAfterHead,
    /// The answer comes, and the connection is asked to end (GOAWAY; `Connection: close`).
    GoAway,
}

impl Fault {
    /// Requests whose path begins with `path` meet `deed`.
    pub fn on(path: &str, deed: Deed) -> Self {
        Self { path: path.to_owned(), method: None, user: None, skip: 0, times: None, deed }
    }

    /// Every request meets `deed`.
    pub fn always(deed: Deed) -> Self {
        Self::on("", deed)
    }

    /// Only requests of this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only requests of this user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Lets the first so many requests pass.
    #[must_use]
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// Only so many times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    fn meets(&mut self, method: &Method, path: &str, user: Option<&str>) -> bool {
        let like = path.starts_with(&self.path)
            && self.method.as_ref().is_none_or(|wanted| wanted == method)
            && self.user.as_deref().is_none_or(|wanted| user == Some(wanted));
        if !like || self.times == Some(0) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }
}

/// The faults in force. All of it can change while the server runs.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Mutex<Vec<Fault>>,
    /// Requests a connection carries before it is cut; 0 for no limit.
    cut_after: AtomicU64,
    /// Requests a connection carries before it is asked to end; 0 for no limit.
    go_away_after: AtomicU64,
    skew: AtomicI64,
}

impl Faults {
    /// Puts a fault in force, after those already there.
    pub fn add(&self, fault: Fault) {
        self.rules().push(fault);
    }

    /// Ends all faults, limits and skew.
    pub fn clear(&self) {
        self.rules().clear();
        self.cut_after(None);
        self.go_away_after(None);
        self.skew_date(0);
    }

    /// Cuts each connection when it has answered so many requests.
    pub fn cut_after(&self, requests: Option<u64>) {
        self.cut_after.store(requests.unwrap_or(0), Ordering::Relaxed);
    }

    /// Asks each connection to end when it has answered so many requests.
    pub fn go_away_after(&self, requests: Option<u64>) {
        self.go_away_after.store(requests.unwrap_or(0), Ordering::Relaxed);
    }

    /// Moves the time in the `Date` header by so many seconds.
    pub fn skew_date(&self, seconds: i64) {
        self.skew.store(seconds, Ordering::Relaxed);
    }

    pub(crate) fn skew(&self) -> i64 {
        self.skew.load(Ordering::Relaxed)
    }

    /// What happens to this request, in order.
    pub(crate) fn meet(&self, method: &Method, path: &str, user: Option<&str>) -> Vec<Deed> {
        self.rules()
            .iter_mut()
            .filter_map(|fault| fault.meets(method, path, user).then(|| fault.deed.clone()))
            .collect()
    }

    /// Whether a connection that carried so many requests is to be cut, and whether to be ended.
    pub(crate) fn worn(&self, requests: u64) -> (bool, bool) {
        let over = |limit: &AtomicU64| {
            let limit = limit.load(Ordering::Relaxed);
            limit > 0 && requests >= limit
        };
        (over(&self.cut_after), over(&self.go_away_after))
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Fault>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
