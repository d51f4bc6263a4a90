//! What every process of Keyward has in common, whichever protocol it speaks.
//!
//! - [`mod@file`]: reads files that a configuration or another person names, within limits of size and
//!   time.
//! - [`harden`]: keeps memory private, and limits where they belong.
//! - [`runtime`]: finds the directory for sockets and locks.
//! - [`trust`]: tells who but root and us could change a program or a library.
//!
//! Kubernetes and the other crates are unknown here, so that the host, the program and the
//! plugins share one of each.

pub mod file;
pub mod harden;
mod identity;
pub mod runtime;
pub mod trust;

pub use identity::Identity;
