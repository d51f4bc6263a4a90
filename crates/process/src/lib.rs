//! What every process of Keyward has in common, whichever protocol it speaks.
//!
//! - [`runner`]: starts programs, the only place that does.
//! - [`clock`] and [`surroundings`]: time, environment, working directory and terminal, which tests
//!   replace with their own.
//! - `browser`, on Unix: opens a page for a person.
//! - [`mod@file`]: reads files that a configuration or another person names, within limits of size and
//!   time.
//! - [`harden`]: keeps memory private, and limits where they belong.
//! - [`proxy`]: which proxy the environment names for a server.
//! - [`runtime`]: finds the directory for sockets and locks.
//! - `signals`, on Unix: which signals ask a process to end.
//! - `sockets`, on Linux: who is at the other end of a connection on this machine, and how fast it may send.
//! - [`trust`]: tells who but root and us could change a program or a library.
//!
//! Kubernetes is unknown here, so that the host, the program and the plugins share one of each.

#[cfg(unix)]
pub mod browser;
pub mod clock;
pub mod file;
mod file_id;
pub mod harden;
mod lock_file;
pub mod proxy;
pub mod runner;
pub mod runtime;
#[cfg(unix)]
pub mod signals;
#[cfg(target_os = "linux")]
pub mod sockets;
pub mod surroundings;
pub mod trust;

pub use file_id::FileId;
pub use lock_file::LockFile;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose content is whole at any time, so even after a panic under the lock.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
