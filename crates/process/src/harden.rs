//! Keeps what a process holds to itself, and gives it room for open files.
//!
//! A process that holds tokens and PINs calls [`keep_memory_private`] first of all, and a server
//! [`raise_descriptors`]. Whoever starts a program calls [`restore`] for it, because limits are
//! inherited and are meant for us alone.
//!
//! ```
//! use keyward_process::harden;
//!
//! harden::keep_memory_private();
//! harden::raise_descriptors();
//! let mut child = std::process::Command::new("true").spawn()?;
//! harden::restore(child.id());
//! # child.wait()?;
//! # Ok::<(), std::io::Error>(())
//! ```

use std::{fmt, sync::Mutex};

use crate::lock;

/// The fewest open files that a command and the programs it starts can do with.
const FEWEST: u64 = 32;

/// Lets nobody look into this process but root: no debugger, no `/proc/PID/mem` or `environ`, no core
/// file. A system that cannot do it is no reason to stop.
///
/// On Linux a process that is not dumpable writes no core file, wherever those go; elsewhere the soft
/// limit of its size does the same.
pub fn keep_memory_private() {
    #[cfg(unix)]
    unix::keep_memory_private();
}

/// Lets other processes of this user look at this one again, for as long as nothing secret is in it.
/// The agent has to see the namespaces of a client before it serves it.
pub fn allow_inspection() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable);
}

/// Lets other processes of this user look at this one until it is dropped, if they could not.
///
/// Several may exist at once: the last one to be dropped makes the memory private again.
#[derive(Debug)]
#[must_use = "the memory is private again when this is dropped"]
pub struct Inspection(());

/// How many [`Inspection`]s exist, and whether the memory was private before.
static INSPECTIONS: Mutex<(usize, bool)> = Mutex::new((0, false));

impl Inspection {
    /// Begins it. Does nothing in a process that never kept its memory private.
    pub fn begin() -> Self {
        let mut inspections = lock(&INSPECTIONS);
        if inspections.0 == 0 {
            inspections.1 = is_private();
            if inspections.1 {
                allow_inspection();
            }
        }
        inspections.0 += 1;
        Self(())
    }
}

impl Drop for Inspection {
    fn drop(&mut self) {
        let mut inspections = lock(&INSPECTIONS);
        inspections.0 = inspections.0.saturating_sub(1);
        if *inspections == (0, true) {
            keep_memory_private();
        }
    }
}

#[cfg(target_os = "linux")]
fn is_private() -> bool {
    use rustix::process::{DumpableBehavior, dumpable_behavior};
    dumpable_behavior().is_ok_and(|found| found != DumpableBehavior::Dumpable)
}

#[cfg(not(target_os = "linux"))]
fn is_private() -> bool {
    false
}

/// Lets this process open as many files as the system allows it, at most a million.
pub fn raise_descriptors() {
    #[cfg(unix)]
    unix::raise_descriptors();
}

/// Checks that enough files can be open at once, after raising the limit where that is too low.
pub fn require_descriptors() -> Result<(), TooFewDescriptors> {
    #[cfg(unix)]
    unix::require_descriptors()?;
    Ok(())
}

/// Gives a program that was just started the limits that we were started with.
pub fn restore(child: u32) {
    #[cfg(unix)]
    unix::restore(child);
    #[cfg(not(unix))]
    let _ = child;
}

/// Fewer files can be open at once than are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFewDescriptors {
    /// How many can be.
    pub limit: u64,
}

impl fmt::Display for TooFewDescriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "only {} files may be open at once, and {FEWEST} are needed", self.limit)
    }
}

impl std::error::Error for TooFewDescriptors {}

#[cfg(unix)]
mod unix {
    use std::sync::OnceLock;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::{FEWEST, TooFewDescriptors};

    /// Far more than a proxy needs, and not so many that anybody counts through them in vain.
    const MOST: u64 = 1 << 20;

    /// Limits as they were before we changed them.
    static CORE: OnceLock<Rlimit> = OnceLock::new();
    static FILES: OnceLock<Rlimit> = OnceLock::new();

    pub(super) fn keep_memory_private() {
        #[cfg(target_os = "linux")]
        let _ =
            rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
        let before = *CORE.get_or_init(|| getrlimit(Resource::Core));
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: before.maximum });
    }

    pub(super) fn raise_descriptors() {
        let before = *FILES.get_or_init(|| getrlimit(Resource::Nofile));
        let most = before.maximum.unwrap_or(MOST).min(MOST);
        if before.current.is_some_and(|current| current < most) {
            let raised = Rlimit { current: Some(most), maximum: before.maximum };
            let _ = setrlimit(Resource::Nofile, raised);
        }
    }

    pub(super) fn require_descriptors() -> Result<(), TooFewDescriptors> {
        let enough = || match getrlimit(Resource::Nofile).current {
            Some(limit) if limit < FEWEST => Err(TooFewDescriptors { limit }),
            _ => Ok(()),
        };
        if enough().is_err() {
            raise_descriptors();
        }
        enough()
    }

    #[cfg(target_os = "linux")]
    pub(super) fn restore(child: u32) {
        use rustix::process::{Pid, prlimit};
        let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) else { return };
        for (resource, before) in [(Resource::Core, &CORE), (Resource::Nofile, &FILES)] {
            if let Some(before) = before.get() {
                // It may be over already, or another user's by a setuid bit.
                let _ = prlimit(Some(pid), resource, *before);
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn restore(_child: u32) {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_private_again_after_the_last_of_several_looks() {
        allow_inspection();
        drop(Inspection::begin());
        assert!(!is_private(), "it never was");
        keep_memory_private();
        let (first, second) = (Inspection::begin(), Inspection::begin());
        assert!(!is_private());
        drop(first);
        assert!(!is_private());
        drop(second);
        assert!(is_private());
    }
}
