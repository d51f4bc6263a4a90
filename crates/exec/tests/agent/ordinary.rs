//! Runs a test as an ordinary user.

use std::{
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use crate::stage::exec;

pub(crate) const NOBODY: u32 = 65534;

/// Whether this process is an ordinary user's. Where it is root's, from whom nothing can be kept, it
/// runs the test once more as `nobody`, and fails as that run does.
pub(crate) fn is_ordinary_user(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    // Whoever runs it then cannot build anything.
    exec();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(keyward_testing::plugin::AS_BUILT, "1")
        .env("TMPDIR", "/tmp")
        .gid(NOBODY)
        .uid(NOBODY)
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .expect("another user must be able to run this test");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{error}");
    false
}
