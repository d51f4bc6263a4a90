//! The environment and the clocks of the plugin's own process.

use std::{env, ffi::OsString, path::PathBuf, time::Instant};

use jiff::Timestamp;

/// The user's runtime directory, as the session manager sets it.
#[expect(clippy::disallowed_methods, reason = "a plugin reads its own environment")]
pub(crate) fn runtime_directory() -> Option<PathBuf> {
    env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The user's home.
#[expect(clippy::disallowed_methods, reason = "a plugin reads its own environment")]
pub(crate) fn home() -> Option<PathBuf> {
    env::var_os("HOME").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The client's request.
#[expect(clippy::disallowed_methods, reason = "a plugin reads its own environment")]
pub(crate) fn request() -> Option<OsString> {
    env::var_os(keyward_protocol::signer::REQUEST_VARIABLE).filter(|text| !text.is_empty())
}

/// The time of day.
#[expect(clippy::disallowed_methods, reason = "a plugin lives by the real clock")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// The start of a measurement.
#[expect(clippy::disallowed_methods, reason = "a plugin lives by the real clock")]
pub(crate) fn start() -> Instant {
    Instant::now()
}
