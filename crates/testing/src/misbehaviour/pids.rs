//! What became of processes and descriptors, read from `/proc`.

use std::{fs, path::Path, time::Duration};

use rustix::process::{Pid, Signal, kill_process};

use crate::wait;

/// How long a killed process may take to vanish before the test fails. None comes near it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The number of descriptors this process has open.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Descriptors that whoever started this process lets every program inherit, by number.
pub(super) fn inherited() -> Vec<String> {
    const CLOSED_ON_EXEC: u32 = 0o200_0000;
    let Ok(open) = fs::read_dir("/proc/self/fdinfo") else {
        return Vec::new();
    };
    let stays = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let info = fs::read_to_string(entry.path()).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        (flags & CLOSED_ON_EXEC == 0).then(|| entry.file_name().to_string_lossy().into_owned())
    };
    open.filter_map(stays).collect()
}

/// The children of this process, zombies included.
pub fn children() -> Vec<u32> {
    let own = std::process::id();
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == own))
        .collect()
}

/// Waits until no process noted in the file is alive.
pub(super) fn wait_until_gone(file: &Path, name: &str) {
    let failure = || format!("{name}: {:?} are left", alive(file));
    wait::until(PATIENCE, failure, || alive(file).is_empty().then_some(()));
}

/// Waits until a process has noted itself, and returns those that are alive.
pub(super) fn wait_for_one(file: &Path) -> Vec<u32> {
    let failure = || "no process is alive".to_owned();
    wait::until(PATIENCE, failure, || Some(alive(file)).filter(|alive| !alive.is_empty()))
}

/// Ends the process that was left behind; it has to be alive.
pub(super) fn end_survivor(file: &Path, name: &str) {
    // It notes its process id as its first act, which can be after its parent has ended.
    for pid in wait_for_one(file) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
    }
    wait_until_gone(file, name);
}

fn alive(file: &Path) -> Vec<u32> {
    let pids = fs::read_to_string(file).unwrap_or_default();
    let pids = pids.lines().filter_map(|line| line.parse().ok());
    pids.filter(|pid| is_plugin(*pid)).collect()
}

/// Not a zombie that somebody else has to reap, and not another process with the number of an
/// earlier one.
fn is_plugin(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
        && fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("keyward-test-plugin"))
}

struct Stat {
    state: char,
    parent: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, can contain anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat { state: fields.next()?.chars().next()?, parent: fields.next()?.parse().ok()? })
}
