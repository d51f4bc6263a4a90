//! A process that keeps credentials for several programs, as an exec plugin's run sees it.

use std::{ffi::OsString, time::Duration};

use keyward_process::{
    runner::{Failure, Output},
    surroundings::Surroundings,
};

use crate::Error;

/// Keeps credentials for several programs, and lets one of them run a plugin for all.
///
/// A broker is asked on the thread that would run the plugin, after the policy has allowed the run. Whatever
/// goes wrong with the broker itself is [`Brokered::Direct`]: the plugin then runs as it would without.
pub trait Broker: Send + Sync {
    /// Asks for what the plugin would print. Blocks, for no longer than the budget of the run.
    ///
    /// `run` runs the plugin here, for everybody who waits for it; it is called once at most, and its
    /// result is returned in [`Brokered::Ran`].
    fn obtain(
        &self,
        question: &BrokerQuestion<'_>,
        run: &mut dyn FnMut() -> Result<Output, Failure>,
    ) -> Brokered;
}

/// Everything that selects the credential, and how long it may take.
#[non_exhaustive]
pub struct BrokerQuestion<'a> {
    /// The plugin's command, as the kubeconfig names it.
    pub command: &'a str,
    /// The plugin's arguments, which may be secret.
    pub args: &'a [String],
    /// The whole environment that the plugin would get, the request included.
    pub environment: &'a [(OsString, OsString)],
    /// Where this program runs.
    pub surroundings: &'a Surroundings,
    /// The kubeconfig has `keyward-exec --` in front of the command.
    pub wrapped: bool,
    /// The plugin may ask a person at the terminal on our stdin.
    pub interactive: bool,
    /// How long the plugin may take.
    pub budget: Duration,
    /// The credential that a server rejected with a 401, if the broker gave it to us.
    pub rejected: Option<BrokerHandle>,
    /// The server had accepted the rejected credential before, or another since the last rejection.
    pub was_accepted: bool,
    /// Is told what a person should know while it takes long.
    pub note: &'a dyn Fn(&str),
}

/// A credential of a broker, for telling the broker that a server rejected it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerHandle {
    /// The broker's process.
    pub process: i32,
    /// The credential's number in that process.
    pub serial: u64,
}

/// What asking a broker has brought.
#[derive(Debug)]
#[non_exhaustive]
pub enum Brokered {
    /// What the plugin would print.
    Answer(Output, BrokerHandle),
    /// The plugin was run here; the handle is of what the broker now keeps.
    Ran(Result<Output, Failure>, Option<BrokerHandle>),
    /// The plugin was run elsewhere and brought nothing, or a person has to log in first.
    Failed(Error),
    /// The broker does not help: run the plugin.
    Direct,
}
