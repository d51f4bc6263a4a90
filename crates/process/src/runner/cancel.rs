//! Cancels runs from outside.

use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::lock;

/// Cancels a run from any thread; cheap to clone. One `Cancel` may be given to several
/// runs, and to runs that begin after it was called: they end at once.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cancelled: AtomicBool,
    wakeups: Mutex<Vec<Arc<Wakeup>>>,
}

impl Cancel {
    /// Ends the runs this was given to. They take as long as it takes to kill them; this does not
    /// wait for that.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        for wakeup in lock(&self.0.wakeups).iter() {
            wakeup.wake();
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// Waits for this long, or until it is called, which is what it returns. For pauses between
    /// runs: a program that is about to exit does not wait for them.
    pub fn pause(&self, limit: Duration) -> bool {
        let Ok(listener) = self.listen() else { return self.is_cancelled() };
        listener.wait(limit);
        listener.is_cancelled()
    }

    /// What one run waits on to hear of it.
    pub(super) fn listen(&self) -> io::Result<Listener> {
        let wakeup = Arc::new(Wakeup::new()?);
        lock(&self.0.wakeups).push(Arc::clone(&wakeup));
        let mut runs = lock(&RUNS);
        runs.cancels.push(Arc::downgrade(&self.0));
        if runs.shut {
            drop(runs);
            self.cancel();
        }
        Ok(Listener { cancel: self.clone(), wakeup })
    }
}

/// Ends all runs of this process and refuses new ones. For programs that are about to exit, also in
/// the middle of an attended run: afterwards the terminal is as it was and no plugin is left.
///
/// Returns whether all runs have ended within `limit`.
pub fn shut_down(limit: Duration) -> bool {
    let mut runs = lock(&RUNS);
    runs.shut = true;
    let cancels: Vec<_> = runs.cancels.iter().filter_map(Weak::upgrade).collect();
    drop(runs);
    for inner in cancels {
        Cancel(inner).cancel();
    }
    let (runs, _) = ENDED
        .wait_timeout_while(lock(&RUNS), limit, |runs| !runs.cancels.is_empty())
        .unwrap_or_else(PoisonError::into_inner);
    runs.cancels.is_empty()
}

/// What a run waits on to hear of its [`Cancel`].
pub(super) struct Listener {
    cancel: Cancel,
    wakeup: Arc<Wakeup>,
}

impl Listener {
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Waits for this long, or until it was cancelled.
    #[cfg(unix)]
    pub(super) fn wait(&self, limit: Duration) {
        use rustix::event::{PollFd, PollFlags, poll};
        let limit = rustix::time::Timespec::try_from(limit).ok();
        // Interrupted, the pause is shorter, which does no harm.
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.wakeup(), PollFlags::IN)], limit.as_ref());
    }

    #[cfg(not(unix))]
    fn wait(&self, limit: Duration) {
        std::thread::park_timeout(limit);
    }

    /// Readable once it was cancelled.
    #[cfg(unix)]
    pub(super) fn wakeup(&self) -> std::os::fd::BorrowedFd<'_> {
        self.wakeup.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        lock(&self.cancel.0.wakeups).retain(|wakeup| !Arc::ptr_eq(wakeup, &self.wakeup));
        let mut runs = lock(&RUNS);
        let own = Arc::downgrade(&self.cancel.0);
        if let Some(at) = runs.cancels.iter().position(|cancel| cancel.ptr_eq(&own)) {
            runs.cancels.swap_remove(at);
        }
        if runs.cancels.is_empty() {
            ENDED.notify_all();
        }
    }
}

/// All runs under way, for [`shut_down`].
static RUNS: Mutex<Runs> = Mutex::new(Runs { cancels: Vec::new(), shut: false });
/// Notified when the last of them has ended.
static ENDED: Condvar = Condvar::new();

struct Runs {
    cancels: Vec<Weak<Inner>>,
    shut: bool,
}

#[cfg(target_os = "linux")]
use linux::Wakeup;
#[cfg(all(unix, not(target_os = "linux")))]
use other::Wakeup;

#[cfg(not(unix))]
#[derive(Debug)]
struct Wakeup;

#[cfg(not(unix))]
impl Wakeup {
    #[expect(clippy::unnecessary_wraps, reason = "the others can fail")]
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    fn wake(&self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        io,
        os::fd::{AsFd, BorrowedFd, OwnedFd},
    };

    use rustix::event::{EventfdFlags, eventfd};

    #[derive(Debug)]
    pub(super) struct Wakeup(OwnedFd);

    impl Wakeup {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
        }

        pub(super) fn wake(&self) {
            // It can only fail when it was woken 2^64 times already.
            let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
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
    pub(super) struct Wakeup(PipeReader, PipeWriter);

    impl Wakeup {
        pub(super) fn new() -> io::Result<Self> {
            let (reader, writer) = io::pipe()?;
            Ok(Self(reader, writer))
        }

        pub(super) fn wake(&self) {
            let _ = (&self.1).write(&[1]);
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}
