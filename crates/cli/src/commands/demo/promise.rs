use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// The promises that the demo checks, one line each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Promise {
    Plan,
    Door,
    First,
    Crowd,
    Expiry,
    Revoked,
    Watch,
    Identity,
    Deadline,
    Budget,
    Backoff,
    Recovery,
    Images,
    Switch,
    Signer,
    Softhsm,
    Agent,
}

/// The name in JSON, for text too.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Promise {
    /// The promise, as a sentence.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Plan => "planning runs nothing and connects to nobody",
            Self::Door => "the server rejects requests without a credential",
            Self::First => {
                "the first request runs the plugin once and is authenticated as its user"
            }
            Self::Crowd => "a thousand requests at once share one plugin run",
            Self::Expiry => "tokens are replaced before they expire and no caller notices",
            Self::Revoked => "a revoked token is replaced before the caller sees a 401",
            Self::Watch => "a new certificate does not cut an open watch",
            Self::Identity => "connections after a rotation use only the new certificate",
            Self::Deadline => "a plugin that hangs does not block its caller",
            Self::Budget => {
                "a plugin that hangs is killed at its time limit and leaves nothing behind"
            }
            Self::Backoff => "a plugin that fails is not run again for every request",
            Self::Recovery => "it runs again after one step of backoff",
            Self::Images => "fifty images of a registry at once share one provider run",
            Self::Switch => {
                "editing the configuration switches providers off and on; a broken file changes nothing"
            }
            Self::Signer => "a key in another process signs once for twenty requests",
            Self::Softhsm => "a key generated in a token, which cannot be exported, signs",
            Self::Agent => {
                "ten processes, one after another, share one plugin run through the agent"
            }
        }
    }
}
