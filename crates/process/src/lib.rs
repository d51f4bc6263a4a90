//! What every process of Keyward has in common, whichever protocol it speaks.
//!
//! - [`file`]: reads files that a configuration or another person names, within limits of size and
//!   time.
//!
//! It knows nothing of Kubernetes and of no other crate here, so that the host, the program and the
//! plugins share one of each.

pub mod file;
