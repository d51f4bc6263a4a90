//! A plugin that misbehaves as told: the first argument says how. Used by the workspace's tests
//! through `keyward_testing::plugin`.
//!
//! Each of its processes writes its process id to the file named by `KEYWARD_TEST_PIDS`, so that a
//! test can tell what became of them.

mod mode;
mod parts;

use std::process::ExitCode;

fn main() -> ExitCode {
    parts::note_pid();
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    mode::run(&mode, &rest)
}
