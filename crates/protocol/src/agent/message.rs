//! What is said: one type for each frame.

use std::fmt;

use zeroize::Zeroize;

use super::{VERSIONS, field::text};
use crate::Secret;

/// A frame. Who sends it, and when, is in `docs/protocols/agent.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is documented at its type")]
pub enum Message {
    Hello(Hello),
    Ask(Ask),
    Done(Done),
    Rejected(Rejected),
    Admin(Admin),
    Secret(SecretRequest),
    Proxy(ProxyRequest),
    /// A newer agent wants the listening socket of the older one.
    TakeOver,
    Answer(Answer),
    Failure(Failure),
    /// A line for the person at the client, such as whose login is waited for.
    Note(String),
    Lease(Lease),
    /// The agent does not serve this client; it should run its plugin itself. Says why.
    Direct(String),
    Served(Served),
}

/// First frame of each end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The lowest version of the protocol that this end speaks.
    pub lowest: u16,
    /// The highest one.
    pub highest: u16,
    /// Version of the program, for people.
    pub version: String,
}

impl Hello {
    /// The greeting of a program that is built with this crate.
    pub fn ours(version: &str) -> Self {
        Self { lowest: VERSIONS.0, highest: VERSIONS.1, version: version.into() }
    }

    /// The highest version that both ends speak.
    pub fn common(&self) -> Option<u16> {
        let highest = self.highest.min(VERSIONS.1);
        (highest >= self.lowest.max(VERSIONS.0)).then_some(highest)
    }
}

/// Asks for the credential that a plugin would print, with everything that selects it.
///
/// A client sees one environment, not which of its variables the kubeconfig set.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Ask {
    /// The plugin's command, as the kubeconfig has it.
    pub command: Vec<u8>,
    /// The plugin's arguments.
    pub args: Vec<Vec<u8>>,
    /// The environment of the client, in order, each name once. Wiped when dropped.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// The working directory.
    pub directory: Vec<u8>,
    /// The terminal that a plugin could talk to a person on, such as `/dev/pts/3`; empty for none.
    pub terminal: Vec<u8>,
    /// The person wants to log in now, whatever the agent has.
    pub login: bool,
    /// The client itself uses the credential and says when a server rejects it. Otherwise the client is
    /// the process that started whoever asks, and one that asks again is taken for one that was rejected.
    pub own: bool,
    /// The credential that a server rejected, which is why the client asks.
    pub rejected: Option<Rejected>,
}

impl Drop for Ask {
    fn drop(&mut self) {
        for (_, value) in &mut self.environment {
            value.zeroize();
        }
    }
}

impl Ask {
    /// The value of a variable.
    pub fn variable(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.environment.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_slice())
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("command", &text(&self.command))
            .field("args", &self.args.len())
            .field("environment", &self.environment.len())
            .field("terminal", &text(&self.terminal))
            .field("login", &self.login)
            .field("own", &self.own)
            .field("rejected", &self.rejected)
            .finish_non_exhaustive()
    }
}

/// What a plugin printed, as the agent would have printed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One `ExecCredential`, in the version that was asked for.
    pub stdout: Secret,
    /// Tells the credentials of one agent apart, for [`Rejected`].
    pub serial: u64,
}

/// Why there is no credential.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failure {
    /// Exit code for the client.
    pub code: u8,
    /// The message, without secrets.
    pub text: String,
    /// After how many milliseconds asking again may help; zero if nobody knows.
    pub retry: u64,
}

/// The client is to run the plugin, and nobody else does meanwhile. It lasts as long as the
/// connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The lease, to be repeated in [`Done`].
    pub id: u64,
    /// The program that the command leads to and that the policy allows.
    pub program: Vec<u8>,
    /// For how many milliseconds it may run.
    pub budget: u64,
    /// A person is to be asked: the plugin gets the terminal.
    pub attended: bool,
}

/// How a run under a [`Lease`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The lease.
    pub id: u64,
    /// Exit code; a signal is 128 and its number, as in shells. `None`: the plugin did not start or
    /// did not end in time.
    pub code: Option<i32>,
    /// All that it printed.
    pub stdout: Secret,
    /// The last lines of its stderr, where they were not shown.
    pub stderr: Secret,
}

/// A server answered 401 to a credential of this agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected {
    /// The serial of the credential's [`Answer`].
    pub serial: u64,
    /// The server had accepted it before.
    pub was_accepted: bool,
}

/// A command of the person who owns the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admin {
    /// What the agent keeps, as JSON.
    Status,
    /// Forget everything and end.
    Stop,
    /// Forget everything, and refuse until [`Admin::Unlock`].
    Lock,
    /// Serve again.
    Unlock,
    /// Forget the credentials of this context or user, or with `None` all, and let no background
    /// request log in again.
    Forget(Option<String>),
    /// The agent's metrics, in Prometheus' text format.
    Metrics,
}

/// Keeps secrets by name, for providers that share a token between processes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretRequest {
    /// The secret of this name.
    Get(String),
    /// Keeps a secret until a wall-clock time in milliseconds since 1970; zero: twelve hours. Ends a
    /// lease that this connection holds.
    Put(String, Secret, i64),
    /// The secret, or the right and duty to bring it; waits while another connection has that.
    Lease(String),
    /// Removes it.
    Forget(String),
    /// The names that somebody holds a lease for, one in a line.
    Pending,
}

/// About a proxy that runs as a service of the agent. `service` is its name, which is also the name of
/// its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyRequest {
    /// A client wants the client certificate of a context. Starts the proxy if it is not running.
    Certificate {
        /// The proxy.
        service: String,
        /// The context, by its name in the proxy's kubeconfig.
        context: String,
    },
    /// Starts the proxy unless it is running; answered when it serves.
    Start(String),
    /// Stops the proxy; answered when it no longer listens. From the agent to a proxy: stop.
    Stop(String),
    /// Some of the contexts of the next [`ProxyRequest::Serving`], for proxies with more contexts than fit
    /// into one frame.
    Part {
        /// The proxy.
        service: String,
        /// Some of the contexts.
        contexts: Vec<ProxyContext>,
    },
    /// A proxy serves these contexts; sent again whenever they change.
    Serving {
        /// The proxy.
        service: String,
        /// The contexts, or the last of them after parts.
        contexts: Vec<ProxyContext>,
    },
    /// A proxy cannot serve, and why.
    Failed {
        /// The proxy.
        service: String,
        /// Why.
        why: String,
    },
    /// A proxy has been idle for so long that it would end. The agent answers with
    /// [`ProxyRequest::Stop`] unless a client was just sent there.
    Idle(String),
    /// The program of a proxy was replaced: it ends, and the agent starts the new one.
    Replaced(String),
    /// A proxy no longer listens, and stays only for the streams that are open. The agent tells it to
    /// stop when it would tell the proxy that listens.
    Draining(String),
}

/// What clients need for a context of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyContext {
    /// The name in the proxy's kubeconfig.
    pub name: String,
    /// The client certificate, in PEM.
    pub certificate: String,
    /// The certificate's key, in PEM.
    pub key: Secret,
    /// Why no client can be served; empty if clients can be.
    pub fault: String,
}

/// The answer to [`Admin`] and [`SecretRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Served {
    /// Done; what was asked for, if anything.
    Done(Secret),
    /// No secret has this name.
    Absent,
    /// The connection holds the lease and has to put the secret.
    Leased,
    /// Not done, and why.
    Not(String),
}
