//! A provider's answer, in one form for both protocols.

use std::time::Duration;

use jiff::Timestamp;
use keyward_protocol::image::{Login, ProposalResponse, Response, ResponseError, token_expiry};

use super::{
    Config,
    config::{Protocol, Provider},
};

/// A usable answer.
#[derive(Debug)]
pub struct Answer {
    /// The image of the request.
    pub image: String,
    /// The images that the answer is for.
    pub scope: Scope,
    /// How long to cache it; `None` means not at all.
    pub kept_for: Option<Duration>,
    /// Logins by registry pattern.
    pub auth: Vec<(String, Login)>,
    /// How many runs it took; the kubelet asks once.
    pub runs: usize,
    /// How long the last of them took.
    pub took: Duration,
    /// What the provider wrote to stderr although it succeeded, redacted.
    pub stderr: String,
}

/// The images that an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The image of the request.
    Image,
    /// All images of the registry.
    Registry,
    /// All images.
    Global,
}

/// Why an answer cannot be used. No variant contains text of the answer.
#[derive(Debug)]
pub(super) enum Unusable {
    Response(ResponseError),
    /// `cacheKeyType` is not one of the three values.
    Key,
    /// The answer contains the service account's token, but would be cached for the account's other
    /// pods.
    Echo,
}

impl Scope {
    /// All scopes, in lookup order (LK-05).
    pub const ALL: [Self; 3] = [Self::Image, Self::Registry, Self::Global];

    /// The value on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Image => "Image",
            Self::Registry => "Registry",
            Self::Global => "Global",
        }
    }

    /// The scope that this word on the wire names.
    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == word)
    }

    /// The part of an image's name that an answer is cached under (LK-04).
    pub fn part(self, image: &str) -> &str {
        match self {
            Self::Image => image,
            Self::Registry => image.split('/').next().unwrap_or(image),
            Self::Global => "",
        }
    }
}

/// Parses the output of `provider` for `image`.
pub(super) fn read(
    provider: &Provider,
    image: &str,
    stdout: &[u8],
    now: Timestamp,
) -> Result<Answer, Unusable> {
    match provider.protocol {
        Protocol::Kubelet(version) => {
            let response = Response::read(stdout, version).map_err(Unusable::Response)?;
            kubelet(provider, image, response)
        }
        Protocol::Proposal => {
            let response = ProposalResponse::read(stdout).map_err(Unusable::Response)?;
            Ok(proposal(image, response, now))
        }
    }
}

fn kubelet(provider: &Provider, image: &str, response: Response) -> Result<Answer, Unusable> {
    let scope = Scope::named(response.key.name()).ok_or(Unusable::Key)?;
    let nanos = response.duration.unwrap_or(provider.default_duration);
    let kept_for = u64::try_from(nanos).ok().filter(|n| *n > 0).map(Duration::from_nanos);
    Ok(Answer::new(image, scope, kept_for, response.auth))
}

/// Converts an answer of the original proposal: its login is for the image's registry, and is not
/// cached without an expiry.
fn proposal(image: &str, response: ProposalResponse, now: Timestamp) -> Answer {
    let rest = response.expires.map(|at| at.duration_since(now));
    let kept_for = rest.and_then(|rest| Duration::try_from(rest).ok()).filter(|d| !d.is_zero());
    let auth = vec![(Scope::Registry.part(image).to_owned(), response.login)];
    Answer::new(image, Scope::Image, kept_for, auth)
}

impl Answer {
    pub(super) fn new(
        image: &str,
        scope: Scope,
        kept_for: Option<Duration>,
        auth: Vec<(String, Login)>,
    ) -> Self {
        let image = image.to_owned();
        let (took, stderr) = (Duration::ZERO, String::new());
        Self { image, scope, kept_for, auth, runs: 1, took, stderr }
    }

    /// The expiry inside the credentials, in wall-clock milliseconds: the earliest `exp` if all
    /// passwords are JSON Web Tokens.
    pub(super) fn own_expiry(&self) -> Option<i64> {
        let ends: Option<Vec<i64>> =
            self.auth.iter().map(|(_, login)| token_expiry(login.password.expose())).collect();
        ends?.into_iter().min().map(|seconds| seconds.saturating_mul(1000))
    }

    /// Whether the answer contains a service account's token, alone or inside a longer text (D12).
    pub(super) fn echoes(&self, token: &str) -> bool {
        !token.is_empty()
            && self.auth.iter().any(|(_, login)| {
                login.username.contains(token) || login.password.expose().contains(token)
            })
    }
}

impl Config {
    /// The names of the providers, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.providers.iter().map(|provider| provider.name.as_str())
    }
}
