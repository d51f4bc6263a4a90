//! Tells a person who looks on whom the program waits for.

use std::{
    io::{self, IsTerminal},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    time::Duration,
};

use keyward_host::{Plan, Source, process};

use crate::{
    duration,
    output::{self, inline},
};

/// Waiting for this long needs no words.
const SHORT: Duration = Duration::from_secs(3);

/// Somebody is waited for, until this is dropped.
pub(crate) struct Waiting {
    _end: Option<Sender<()>>,
}

impl Waiting {
    /// For the plan's plugin, and where there is one for the server after it. Says nothing where no
    /// person looks on, nor while a plugin talks to that person itself.
    pub(crate) fn begin(plan: &Plan, source: &Source, server: Option<&str>) -> Self {
        let attended = plan.plugin().is_some_and(keyward_host::plan::Plugin::attended);
        if !io::stderr().is_terminal() || attended || plan.signer().is_some() {
            return Self { _end: None };
        }
        let plugin = plan.plugin().map(|plugin| {
            let limit =
                plugin.budget().map(|budget| format!(", for {} at most", duration::show(budget)));
            let (name, user) = (inline(plugin.command()), output::user(plan.target()));
            format!("waiting for the plugin `{name}` of {user}{}\n", limit.unwrap_or_default())
        });
        let server = server.map(|server| format!("waiting for server `{}`\n", inline(server)));
        let source = source.clone();
        let (end, ended) = channel::<()>();
        process::spawn(move || {
            if ended.recv_timeout(SHORT) == Err(RecvTimeoutError::Timeout) {
                let runs = source.current().is_none();
                if let Some(words) = if runs { plugin.or(server) } else { server } {
                    output::tell(&words);
                }
            }
        });
        Self { _end: Some(end) }
    }
}
