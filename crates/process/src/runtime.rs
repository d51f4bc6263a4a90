//! Where this user's sockets and locks are.

#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The directory for what processes of this user share while they run. The caller makes it, with mode
/// 0700.
///
/// `keyward` in `runtime` (`$XDG_RUNTIME_DIR`) or in `/run/user/UID`, where su, cron and sudo leave the
/// variable unset; else `keyward-UID` in `temporary`. Anybody can make that one first, to keep us out:
/// then it is `.keyward/run` in `home`.
///
/// ```
/// use keyward_process::runtime;
///
/// let home = tempfile::tempdir()?;
/// let directory = runtime::directory(None, "/tmp".as_ref(), Some(home.path()));
/// println!("sockets are in `{}`", directory.display());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn directory(runtime: Option<&Path>, temporary: &Path, home: Option<&Path>) -> PathBuf {
    let user = user();
    let standard = PathBuf::from(format!("/run/user/{user}"));
    let runtime = runtime.filter(|path| path.is_absolute() && path.is_dir());
    if let Some(base) = runtime.or(Some(standard.as_path()).filter(|p| is_ours(p))) {
        return base.join("keyward");
    }
    let shared = temporary.join(format!("keyward-{user}"));
    let squatted = std::fs::symlink_metadata(&shared).is_ok() && !is_ours(&shared);
    match home.filter(|home| squatted && home.is_absolute()) {
        Some(home) => home.join(".keyward").join("run"),
        None => shared,
    }
}

/// Whether only this user can put something into a directory.
pub fn is_ours(path: &Path) -> bool {
    #[cfg(unix)]
    return std::fs::symlink_metadata(path)
        .is_ok_and(|found| found.is_dir() && found.uid() == user() && found.mode() & 0o022 == 0);
    #[cfg(not(unix))]
    return path.is_dir();
}

#[cfg(unix)]
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn user() -> u32 {
    0
}

#[cfg(all(test, unix))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_directory_that_somebody_made_first_is_passed_by() {
        let temporary = tempfile::tempdir().unwrap();
        let home = Path::new("/home/me");
        let find = || directory(None, temporary.path(), Some(home));
        if is_ours(Path::new(&format!("/run/user/{}", user()))) {
            return assert!(find().starts_with("/run/user"));
        }
        let shared = temporary.path().join(format!("keyward-{}", user()));
        assert_eq!(find(), shared);
        fs::create_dir(&shared).unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(find(), home.join(".keyward/run"));
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(find(), shared);
        let runtime = directory(Some(temporary.path()), temporary.path(), None);
        assert_eq!(runtime, temporary.path().join("keyward"));
    }
}
