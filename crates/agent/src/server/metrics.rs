//! The agent's metrics: counts and states, without the name of anything that it keeps.

use std::sync::Arc;

use keyward_protocol::prometheus::{Family, Text};

use super::{Server, status::STATES};

const BUILD: Family = Family::gauge("keyward_build_info", "the version of Keyward");
const REQUESTS: Family =
    Family::counter("keyward_agent_requests_total", "requests for credentials, by their outcome");
const CREDENTIALS: Family =
    Family::gauge("keyward_agent_credentials", "identities that the agent knows, by state");
const SECRETS: Family =
    Family::gauge("keyward_agent_secrets", "named secrets that the agent keeps for providers");
const CONNECTIONS: Family =
    Family::gauge("keyward_agent_connections_open", "clients that are connected");
const LOCKED: Family = Family::gauge("keyward_agent_locked", "whether the agent is locked");

/// How a request for a credential ended.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// The credential was cached.
    Cached,
    /// A plugin ran, and the client got its credential.
    Run,
    /// There is no credential.
    Failure,
    /// A person has to log in.
    LoginNeeded,
    /// The agent is locked.
    Locked,
    /// The agent does not serve the client, which runs the plugin itself.
    Direct,
}

/// The labels of outcomes, in their order.
const OUTCOMES: [&str; 6] = ["cached", "run", "failure", "login_needed", "locked", "direct"];

#[derive(Default)]
pub(super) struct Metrics {
    /// The host's events.
    pub(super) host: Arc<keyward_host::Metrics>,
    requests: [u64; OUTCOMES.len()],
}

impl Metrics {
    pub(super) fn count(&mut self, outcome: Outcome, requests: usize) {
        self.requests[outcome as usize] += u64::try_from(requests).unwrap_or(u64::MAX);
    }
}

impl Server {
    /// Metrics in Prometheus' text format.
    pub(super) fn metrics(&self) -> String {
        let mut text = Text::default();
        text.family(BUILD).sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.metrics.host.write(&mut text, self.settings.clock.now());
        let mut requests = text.family(REQUESTS);
        for (outcome, count) in OUTCOMES.iter().zip(self.metrics.requests) {
            requests.sample(&[("outcome", outcome)], count);
        }
        let mut credentials = text.family(CREDENTIALS);
        for state in STATES {
            let count = self.slots.values().filter(|slot| self.state(slot) == state).count();
            credentials.sample(&[("state", &state.replace(' ', "_"))], count);
        }
        text.family(SECRETS).sample(&[], self.secrets.count());
        // The scraper itself does not count.
        text.family(CONNECTIONS).sample(&[], self.connections.len().saturating_sub(1));
        text.family(LOCKED).sample(&[], u8::from(self.locked));
        text.into_string()
    }
}
