//! Faults that the server has on purpose.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use http::{Method, StatusCode};

/// A rule: what happens to which requests.
#[derive(Debug, Clone)]
pub struct Fault {
    path: String,
    method: Option<Method>,
    user: Option<String>,
    skip: u64,
    times: Option<u64>,
    deed: Deed,
}

/// What a fault does to a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Deed {
    /// Answers with this status and a Kubernetes `Status` object.
    Answer(StatusCode),
    /// Answers with this status and a `Status` whose message contains the request's `Authorization`
    /// header.
    Repeat(StatusCode),
    /// Answers later.
    Delay(Duration),
    /// Redirects the client.
    Redirect(StatusCode, String),
    /// Cuts the connection without an answer.
    Cut,
    /// Sends the answer's head, then cuts the connection.
    CutAfterHead,
}

impl Fault {
    /// Applies `deed` to requests whose path begins with `path`.
    pub fn on(path: &str, deed: Deed) -> Self {
        Self { path: path.to_owned(), method: None, user: None, skip: 0, times: None, deed }
    }

    /// Applies `deed` to every request.
    pub fn always(deed: Deed) -> Self {
        Self::on("", deed)
    }

    /// Only for requests with this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only for requests of this user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Skips this many requests first.
    #[must_use]
    pub fn after(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }

    /// Applies only this many times.
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

/// The faults in force. They can change while the server runs.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Mutex<Vec<Fault>>,
    /// How many requests a connection carries before it is cut; 0 for no limit.
    cut_after: AtomicU64,
    /// How many requests a connection carries before it is asked to close; 0 for no limit.
    go_away_after: AtomicU64,
    skew: AtomicI64,
}

impl Faults {
    /// Adds a fault after the existing ones.
    pub fn add(&self, fault: Fault) {
        self.rules().push(fault);
    }

    /// Removes all faults, limits and skew.
    pub fn clear(&self) {
        self.rules().clear();
        self.cut_after(None);
        self.go_away_after(None);
        self.skew_date(0);
    }

    /// Cuts each connection after this many requests.
    pub fn cut_after(&self, requests: Option<u64>) {
        self.cut_after.store(requests.unwrap_or(0), Ordering::Relaxed);
    }

    /// Asks each connection to close after this many requests.
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

    /// The faults that apply to this request, in order.
    pub(crate) fn meet(&self, method: &Method, path: &str, user: Option<&str>) -> Vec<Deed> {
        self.rules()
            .iter_mut()
            .filter_map(|fault| fault.meets(method, path, user).then(|| fault.deed.clone()))
            .collect()
    }

    /// Whether to cut a connection after this many requests, and whether to ask it to close.
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
