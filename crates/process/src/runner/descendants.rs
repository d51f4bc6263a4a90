//! The processes that a program has started, directly or not, as `/proc` tells.

use std::{collections::HashMap, fs, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Processes by descriptors of theirs, which never mean another process.
#[derive(Default)]
pub(super) struct Descendants(HashMap<Pid, OwnedFd>);

impl Descendants {
    /// Adds those of a process that is not reaped yet. Where `/proc` or a descriptor cannot be had,
    /// they stay unknown.
    pub(super) fn find(&mut self, root: Pid) {
        for (pid, parent) in below(root) {
            if self.0.contains_key(&pid) {
                continue;
            }
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // The number may have become another's before we had hold of the process.
            if parent_of(pid.as_raw_nonzero().get()) == Some(parent) {
                self.0.insert(pid, process);
            }
        }
    }

    /// Signals those that are still there, and wakes them to hear it.
    pub(super) fn signal(&self, signal: Signal) {
        for process in self.0.values() {
            let _ = pidfd_send_signal(process, signal);
            let _ = pidfd_send_signal(process, Signal::CONT);
        }
    }
}

/// The numbers of all processes below this one, now, each with that of its parent.
fn below(root: Pid) -> Vec<(Pid, Pid)> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some((pid, parent)) = Pid::from_raw(pid).zip(parent_of(pid)) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        let more = children.remove(&pid).unwrap_or_default();
        found.extend(more.iter().map(|child| (*child, pid)));
        next.extend(more);
    }
    found
}

fn parent_of(pid: i32) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in parentheses and may contain anything, even parentheses.
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
    Pid::from_raw(parent.parse().ok()?)
}
