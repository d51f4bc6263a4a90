//! Programs that hang and must not outlive whoever ran them.

use std::{env, fs, path::Path, process::Command, time::Duration};

use crate::wait;

const SHORT: u32 = 3;

/// How long a program may take to start. None comes near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often each way to die is tried: `KEYWARD_ROUNDS`, or 3.
#[expect(clippy::disallowed_methods, reason = "the variable is for tests")]
pub fn rounds() -> u32 {
    env::var("KEYWARD_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(SHORT)
}

/// Copies a command with all signals at their defaults: whoever started the tests in the background
/// may have had SIGINT ignored.
#[expect(clippy::disallowed_methods, reason = "a program for a test")]
pub fn with_default_signals(command: &Command) -> Command {
    let mut env = Command::new("/usr/bin/env");
    env.arg("--default-signal").arg(command.get_program()).args(command.get_args());
    env.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        env.current_dir(folder);
    }
    env
}

/// A shell script that hangs, with a child that hangs, and ignores whom it can. It notes the numbers
/// of both in the file.
pub fn hangs(file: &Path) -> String {
    format!(
        "trap '' INT TERM HUP; sleep 600 & child=$!; {}; wait; sleep 600",
        note(file, "$$ $child")
    )
}

/// A shell script like that of [`hangs`], with a child in its own session, which no signal to the
/// group reaches.
pub fn hangs_in_sessions(file: &Path) -> String {
    format!(
        "trap '' INT TERM HUP; setsid sleep 600 & child=$!; \
         while read -r _ _ _ _ _ sid _ < /proc/$child/stat && [ $sid != $child ]; do :; done; \
         {}; wait; sleep 600",
        note(file, "$$ $child")
    )
}

/// A shell script that waits for a child and ends when it is told to, which the child does not hear.
pub fn hangs_with_a_deaf_child(file: &Path) -> String {
    format!("trap '' TERM; sleep 600 & child=$!; trap - TERM; {}; wait", note(file, "$$ $child"))
}

/// A shell script that ends, and leaves a child behind as a login leaves a browser.
pub fn leaves_behind(file: &Path) -> String {
    format!("sleep 600 > /dev/null 2>&1 & child=$!; {}", note(file, "$$ $child"))
}

/// Never seen half written.
fn note(file: &Path, numbers: &str) -> String {
    let file = file.display();
    format!("echo {numbers} > '{file}.new'; mv '{file}.new' '{file}'")
}

/// Waits for the numbers that such a script notes.
///
/// # Panics
///
/// If they never come.
pub fn pids(file: &Path) -> Vec<i32> {
    let failure = || "the program did not start".to_owned();
    let text = wait::until(PATIENCE, failure, || fs::read_to_string(file).ok());
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Waits until [`is_guarded`] holds. A program may be heard of before that on a machine that is busy.
///
/// # Panics
///
/// If it never does.
pub fn wait_until_guarded(pid: i32) {
    let failure = || "the program is not guarded".to_owned();
    wait::until(PATIENCE, failure, || is_guarded(pid).then_some(()));
}

/// Whether a process has told the kernel what to kill when it dies: whether it has a descriptor with
/// `O_ASYNC`.
pub fn is_guarded(pid: i32) -> bool {
    const ASYNC: u32 = 0o20_000;
    let guards = |info: String| {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & ASYNC != 0)
    };
    let open = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_to_string(entry.path()).ok()).any(guards)
}

/// Fails if one of them lives for longer than a second; in the short form, where the machine may be
/// busy with other tests, for longer than twenty.
///
/// # Panics
///
/// If one does.
pub fn assert_gone(pids: &[i32], case: &str) {
    let limit = Duration::from_secs(if rounds() > SHORT { 1 } else { 20 });
    let failure = || format!("{case}: {pids:?} still there after {limit:?}");
    wait::until(limit, failure, || pids.iter().all(|pid| !lives(*pid)).then_some(()));
}

/// Whether a process is there, and not only waiting to be reaped.
pub fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
