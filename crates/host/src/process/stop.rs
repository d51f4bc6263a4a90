//! Ending runs from outside.

use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Ends a run from outside, from any thread; cheap to clone. One `Stop` may be given to several
/// runs, and to runs that begin after it was called: they end at once.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    called: AtomicBool,
    bells: Mutex<Vec<Arc<Bell>>>,
}

impl Stop {
    /// Ends the runs this was given to. They take as long as it takes to kill them; this does not
    /// wait for that.
    pub fn call(&self) {
        self.0.called.store(true, Ordering::SeqCst);
        for bell in lock(&self.0.bells).iter() {
            bell.ring();
        }
    }

    /// Whether it was called.
    pub fn called(&self) -> bool {
        self.0.called.load(Ordering::SeqCst)
    }

    /// Waits for this long, or until it is called, which is what it returns. For pauses between
    /// runs: a program that is about to exit does not wait for them.
    pub fn pause(&self, limit: Duration) -> bool {
        let Ok(ear) = self.listen() else { return self.called() };
        ear.wait(limit);
        ear.called()
    }

    /// An ear for one run.
    pub(super) fn listen(&self) -> io::Result<Ear> {
        let bell = Arc::new(Bell::new()?);
        lock(&self.0.bells).push(Arc::clone(&bell));
        let mut runs = lock(&RUNS.list);
        runs.stops.push(Arc::downgrade(&self.0));
        if runs.shut {
            drop(runs);
            self.call();
        }
        Ok(Ear { stop: self.clone(), bell })
    }
}

/// Ends all runs of this process and refuses new ones. For programs that are about to exit, also in
/// the middle of an attended run: afterwards the terminal is as it was and no plugin is left.
///
/// Returns whether all runs have ended within `limit`.
pub fn shut_down(limit: Duration) -> bool {
    let mut runs = lock(&RUNS.list);
    runs.shut = true;
    let stops: Vec<_> = runs.stops.iter().filter_map(Weak::upgrade).collect();
    drop(runs);
    for inner in stops {
        Stop(inner).call();
    }
    let (runs, _) = RUNS
        .ended
        .wait_timeout_while(lock(&RUNS.list), limit, |runs| !runs.stops.is_empty())
        .unwrap_or_else(PoisonError::into_inner);
    runs.stops.is_empty()
}

/// What a run hears its [`Stop`] with.
pub(super) struct Ear {
    stop: Stop,
    bell: Arc<Bell>,
}

impl Ear {
    pub(super) fn called(&self) -> bool {
        self.stop.called()
    }

    #[cfg(unix)]
    fn wait(&self, limit: Duration) {
        use rustix::event::{PollFd, PollFlags, poll};
        let limit = rustix::time::Timespec::try_from(limit).ok();
        // Interrupted, the pause is shorter, which does no harm.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.bell(), PollFlags::IN)], limit.as_ref());
    }

    #[cfg(not(unix))]
    fn wait(&self, limit: Duration) {
        std::thread::park_timeout(limit);
    }

    /// Readable once the stop was called.
    #[cfg(unix)]
    pub(super) fn bell(&self) -> std::os::fd::BorrowedFd<'_> {
        self.bell.ear()
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        lock(&self.stop.0.bells).retain(|bell| !Arc::ptr_eq(bell, &self.bell));
        let mut runs = lock(&RUNS.list);
        let own = Arc::downgrade(&self.stop.0);
        if let Some(at) = runs.stops.iter().position(|stop| stop.ptr_eq(&own)) {
            runs.stops.swap_remove(at);
        }
        if runs.stops.is_empty() {
            RUNS.ended.notify_all();
        }
    }
}

/// All runs under way, for [`shut_down`].
static RUNS: Runs =
    Runs { list: Mutex::new(List { stops: Vec::new(), shut: false }), ended: Condvar::new() };

struct Runs {
    list: Mutex<List>,
    ended: Condvar,
}

struct List {
    stops: Vec<Weak<Inner>>,
    shut: bool,
}

/// Nothing panics while it holds one of these locks, and what they guard is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(target_os = "linux")]
use linux::Bell;
#[cfg(all(unix, not(target_os = "linux")))]
use other::Bell;

#[cfg(not(unix))]
#[derive(Debug)]
struct Bell;

#[cfg(not(unix))]
impl Bell {
    #[expect(clippy::unnecessary_wraps, reason = "the others can fail")]
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    fn ring(&self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        io,
        os::fd::{AsFd, BorrowedFd, OwnedFd},
    };

    use rustix::event::{EventfdFlags, eventfd};

    #[derive(Debug)]
    pub(super) struct Bell(OwnedFd);

    impl Bell {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
        }

        pub(super) fn ring(&self) {
            // It can only fail when it was rung 2^64 times already.
            let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
        }

        pub(super) fn ear(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
mod other {
    use std::{
        io::{self, PipeReader, PipeWriter, Write},
        os::fd::{AsFd, BorrowedFd},
    };

    #[derive(Debug)]
    pub(super) struct Bell(PipeReader, PipeWriter);

    impl Bell {
        pub(super) fn new() -> io::Result<Self> {
            let (ear, rope) = io::pipe()?;
            Ok(Self(ear, rope))
        }

        pub(super) fn ring(&self) {
            let _ = (&self.1).write(&[1]);
        }

        pub(super) fn ear(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}
