//! Real parts for the workspace's own tests.

#[cfg(target_os = "linux")]
pub mod pty;
