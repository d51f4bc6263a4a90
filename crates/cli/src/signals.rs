//! Handles Ctrl-C and other signals while a plugin runs: restores the terminal, stops the plugins, then exits.

#[cfg(unix)]
pub(crate) use unix::{before_leaving, leave_if_interrupted, watch};

#[cfg(unix)]
mod unix {
    use std::{
        sync::{
            Mutex, PoisonError,
            atomic::{AtomicBool, Ordering},
        },
        thread,
        time::Duration,
    };

    use keyward_process::{runner, signals::heard};
    use nix::sys::signal::{SigSet, raise};

    /// How long plugins may take to die. They are killed, so only the system can be slow.
    const LIMIT: Duration = Duration::from_secs(5);

    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    static LAST_ACTS: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());

    /// From now on a signal that asks us to end lets the host end its plugins and restore the
    /// terminal before it has its way. To be called before the first other thread starts.
    pub(crate) fn watch() {
        let signals = heard();
        // Blocked here, and so in every thread that comes from here: they wait for the one below.
        // Plugins start with nothing blocked.
        if signals.thread_block().is_ok() {
            thread::spawn(move || end(&signals));
        }
    }

    /// Registers an action for the end by a signal: nothing is dropped then. The last one to be
    /// registered is the first to be done, as with values that are dropped.
    pub(crate) fn before_leaving(act: impl FnOnce() + Send + 'static) {
        LAST_ACTS.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(act));
    }

    fn end(signals: &SigSet) {
        let Ok(signal) = signals.wait() else { return };
        INTERRUPTED.store(true, Ordering::SeqCst);
        runner::shut_down(LIMIT);
        for act in LAST_ACTS.lock().unwrap_or_else(PoisonError::into_inner).drain(..).rev() {
            act();
        }
        // No core file of a process that has held secrets.
        #[cfg(target_os = "linux")]
        let _ =
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
        // The shell sees which signal it was, as without our handler.
        let _ = raise(signal);
        let _ = signals.thread_unblock();
        // The signal was ignored, which some systems do not reveal; the plugins are stopped anyway.
        std::process::exit(128 + signal as i32);
    }

    /// Exits without a report after a signal: its sender knows why. Returns if there was none.
    pub(crate) fn leave_if_interrupted() {
        while INTERRUPTED.load(Ordering::SeqCst) {
            thread::park();
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn watch() {}

#[cfg(not(unix))]
pub(crate) fn leave_if_interrupted() {}
