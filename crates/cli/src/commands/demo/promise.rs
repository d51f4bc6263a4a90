use clap::ValueEnum;

/// The promises that the demo checks, one line each.
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
        self.parts().0
    }

    /// The promise, as a sentence.
    pub(super) fn words(self) -> &'static str {
        self.parts().1
    }

    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Plan => ("plan", "planning runs nothing and connects to nobody"),
            Self::Door => ("door", "the server rejects requests without a credential"),
            Self::First => {
                ("first", "the first request runs the plugin once and is authenticated as its user")
            }
            Self::Crowd => ("crowd", "a thousand requests at once share one plugin run"),
            Self::Expiry => {
                ("expiry", "tokens are replaced before they expire and no caller notices")
            }
            Self::Revoked => {
                ("revoked", "a revoked token is replaced before the caller sees a 401")
            }
            Self::Watch => ("watch", "a new certificate does not cut an open watch"),
            Self::Identity => {
                ("identity", "connections after a rotation use only the new certificate")
            }
            Self::Deadline => ("deadline", "a plugin that hangs does not block its caller"),
            Self::Budget => (
                "budget",
                "a plugin that hangs is killed at its time limit and leaves nothing behind",
            ),
            Self::Backoff => ("backoff", "a plugin that fails is not run again for every request"),
            Self::Recovery => ("recovery", "it runs again after one step of backoff"),
            Self::Images => ("images", "fifty images of a registry at once share one provider run"),
            Self::Switch => (
                "switch",
                "editing the configuration switches providers off and on; a broken file changes nothing",
            ),
            Self::Signer => ("signer", "a key in another process signs once for twenty requests"),
            Self::Softhsm => {
                ("softhsm", "a key generated in a token, which cannot be exported, signs")
            }
            Self::Agent => (
                "agent",
                "ten processes, one after another, share one plugin run through the agent",
            ),
        }
    }
}
