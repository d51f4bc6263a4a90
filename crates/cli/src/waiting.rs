//! Tells a person at the terminal what the program is waiting for.

use std::{
    io::{self, IsTerminal},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    time::Duration,
};

use keyward_host::{Plan, Source};
use keyward_process::runner;
use keyward_protocol::url;

use crate::{
    duration,
    output::{self, inline},
};

/// A wait this short needs no message.
const SHORT: Duration = Duration::from_secs(2);

/// Announces a wait until dropped.
pub(crate) struct Waiting {
    _end: Option<Sender<()>>,
}

impl Waiting {
    /// For what these words say.
    pub(crate) fn on(words: String) -> Self {
        Self::after_a_while(move || Some(format!("waiting for {words}\n")))
    }

    /// Says something to a person who looks on, if the wait is not short.
    fn after_a_while(words: impl FnOnce() -> Option<String> + Send + 'static) -> Self {
        if !io::stderr().is_terminal() {
            return Self { _end: None };
        }
        let (end, ended) = channel::<()>();
        runner::spawn(move || {
            if ended.recv_timeout(SHORT) == Err(RecvTimeoutError::Timeout)
                && let Some(words) = words()
            {
                output::tell(&words);
            }
        });
        Self { _end: Some(end) }
    }

    /// For the plan's plugin, and where there is one for the server after it. Says nothing where no
    /// person looks on, nor while a plugin asks that person something.
    pub(crate) fn begin(plan: &Plan, source: &Source, server: Option<&str>) -> Self {
        if !io::stderr().is_terminal() || plan.signer().is_some() {
            return Self { _end: None };
        }
        let attended = plan.plugin().is_some_and(|plugin| plugin.preview.attended());
        let plugin = plan.plugin().map(|plugin| {
            let run = plugin.preview.run.as_ref();
            let limit = run.map(|run| format!(", for {} at most", duration::show(run.budget)));
            let (name, user) = (inline(plugin.command()), output::user(plan.target()));
            format!("waiting for the plugin `{name}` of {user}{}\n", limit.unwrap_or_default())
        });
        let server =
            server.map(|server| format!("waiting for server `{}`\n", inline(&url::mask(server))));
        let source = source.clone();
        Self::after_a_while(move || {
            let runs = source.current().is_none();
            if runs && attended && terminal::person_is_asked() {
                return None;
            }
            if runs { plugin.or(server) } else { server }
        })
    }
}

/// Whether a plugin that shares our terminal is waiting for what the person types there: words of
/// ours would stand in the middle of its prompt.
#[cfg(target_os = "linux")]
mod terminal {
    use std::fs;

    use nix::libc::SYS_read;
    use rustix::{
        process::getpgrp,
        termios::{LocalModes, tcgetattr},
    };

    pub(super) fn person_is_asked() -> bool {
        let Ok(terminal) = fs::File::open("/dev/tty") else { return false };
        // Only a password prompt turns it off.
        let echoes =
            tcgetattr(&terminal).is_ok_and(|state| state.local_modes.contains(LocalModes::ECHO));
        let group = getpgrp().as_raw_nonzero().to_string();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut names = processes.filter_map(|entry| entry.file_name().into_string().ok());
        !echoes || names.any(|pid| is_in(&pid, &group) && reads_terminal(&pid))
    }

    /// Whether a process belongs to this process group. An attended plugin belongs to ours.
    fn is_in(pid: &str, group: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name before it is in parentheses and may contain anything, even parentheses.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(2) == Some(group))
    }

    /// Whether a process is blocked reading a terminal.
    fn reads_terminal(pid: &str) -> bool {
        let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
        let mut words = call.split(' ');
        let reads = words.next().is_some_and(|number| number == SYS_read.to_string());
        let number = words.next().and_then(|word| word.strip_prefix("0x"));
        let number = number.and_then(|number| u32::from_str_radix(number, 16).ok());
        let Some(number) = number.filter(|_| reads) else { return false };
        let file = fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap_or_default();
        file.starts_with("/dev/pts") || file.to_string_lossy().starts_with("/dev/tty")
    }
}

#[cfg(not(target_os = "linux"))]
mod terminal {
    /// Assumes that the person may be typing, since this system cannot tell.
    pub(super) fn person_is_asked() -> bool {
        true
    }
}
