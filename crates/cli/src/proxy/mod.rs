//! The local proxy: plain clients in, credentials out.
//!
//! ```text
//! client ──TLS, own certificate──► serve ──► gate ──► forward ──► keyward::Client ──► server
//!                                   │                   └──► tunnel (exec, port-forward)
//!                  port, certificate ──► served: one context ──► route ◄── reload
//! ```
//!
//! Each context has an address of its own that `ports` keeps. `reload` gives it another route when the
//! kubeconfig or the policy changes.
//!
//! `pass` makes the throw-away certificates, `kubeconfig` writes them down for clients, `folder` is
//! where that happens. `admin` tells the owner of it.

mod admin;
mod body;
mod command;
mod contexts;
mod folder;
mod forward;
mod gate;
mod kubeconfig;
mod meter;
mod pass;
mod places;
mod ports;
mod refusal;
mod reload;
mod report;
mod route;
mod run;
mod serve;
mod served;
mod show;
mod socket;
mod status;
mod stop;
mod tally;
mod tunnel;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

pub(crate) use self::{gate::Allowed, run::run, show::show};

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// All contexts rather than those named.
    pub(crate) all: bool,
    pub(crate) listen: SocketAddr,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) idle: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) allowed: Allowed,
    /// May listen beyond the loopback, and what clients call us there.
    pub(crate) remote: Option<Vec<String>>,
    pub(crate) refresh_on_403: bool,
    /// Words of a command to run; none to serve until told to stop.
    pub(crate) command: Vec<OsString>,
}
