use clap::ValueEnum;

/// What the demo shows, each with a line of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
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

impl Promise {
    /// The promise's name, in one word.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Door => "door",
            Self::First => "first",
            Self::Crowd => "crowd",
            Self::Expiry => "expiry",
            Self::Revoked => "revoked",
            Self::Watch => "watch",
            Self::Identity => "identity",
            Self::Deadline => "deadline",
            Self::Budget => "budget",
            Self::Backoff => "backoff",
            Self::Recovery => "recovery",
            Self::Images => "images",
            Self::Switch => "switch",
            Self::Signer => "signer",
            Self::Softhsm => "softhsm",
            Self::Agent => "agent",
        }
    }

    /// What is promised.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Plan => "planning runs nothing and connects to nobody",
            Self::Door => "the server lets nobody in without a credential",
            Self::First => "the first request runs the plugin once and comes in as its user",
            Self::Crowd => "a thousand requests at once share one plugin run",
            Self::Expiry => "tokens are replaced at their end and no caller notices",
            Self::Revoked => "a revoked token is replaced before the caller sees a 401",
            Self::Watch => "a new certificate does not cut an open watch",
            Self::Identity => "connections after a rotation show the new certificate only",
            Self::Deadline => "a plugin that hangs does not hold its caller",
            Self::Budget => "a plugin that hangs is ended at its time limit and nothing is left",
            Self::Backoff => "a plugin that fails is not run again for every request",
            Self::Recovery => "it is asked again after one step of back-off",
            Self::Images => "fifty images of a registry at once share one run of their provider",
            Self::Switch => {
                "providers go off and on with their file, and a broken one changes nothing"
            }
            Self::Signer => "a key that stays in another process signs, once for twenty requests",
            Self::Softhsm => "a key that was made inside a token and cannot leave it signs",
            Self::Agent => {
                "ten processes, one after another, share one plugin run through the agent"
            }
        }
    }
}
