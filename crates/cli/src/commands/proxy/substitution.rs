//! Whether a shell waits for our output, as in `eval "$(keyward proxy)"`.

use std::fs;

/// Shells that wait for a program whose output they substitute.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish"];

/// Whether stdout is a pipe that the shell which started us reads. In `keyward proxy | tee log`, another
/// program reads it.
pub(super) fn is_here() -> bool {
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let name = fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    if !SHELLS.contains(&name.trim()) {
        return false;
    }
    let Ok(own) = fs::read_link("/proc/self/fd/1") else { return false };
    if !own.to_string_lossy().starts_with("pipe:") {
        return false;
    }
    let open = fs::read_dir(format!("/proc/{parent}/fd")).into_iter().flatten().flatten();
    open.into_iter().any(|fd| fs::read_link(fd.path()).is_ok_and(|link| link == own))
}
