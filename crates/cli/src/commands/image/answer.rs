//! The output format of `keyward image credentials`. `docs/cli.md` documents the JSON; fields that
//! do not apply are left out.

use std::fmt::Write as _;

use keyward_image::{FoundLogin, Lookup};
use keyward_protocol::image::Login;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::failure::{Description, Failure};

/// What a command prints of all images of its command line.
#[derive(Serialize)]
pub(super) struct OfImages<T> {
    pub(super) images: T,
}

/// The answer for one image.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    /// The image as given.
    image: &'a str,
    /// The name that was matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// The logins, best first.
    logins: Vec<LoginView<'a>>,
    /// Providers that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Trouble>,
    /// Why no provider was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Trouble>,
}

/// A login and where it comes from.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LoginView<'a> {
    registry: &'a str,
    username: &'a str,
    password: &'a str,
    provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<&'a str>,
}

/// An error, in the parts that every message of the program has.
#[derive(Debug, Serialize)]
pub(super) struct Trouble {
    /// The provider, if the error concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    #[serde(flatten)]
    pub(super) failure: Description,
    /// What the provider wrote to stderr, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<String>,
}

impl<'a> Answer<'a> {
    /// The answer after providers were asked.
    pub(super) fn found(image: &'a str, found: &'a Lookup) -> Self {
        let failed = |asked: &'a keyward_image::ProviderResult| {
            let error = asked.outcome.failure()?;
            Some(Trouble::of(&error.clone().into(), Some(&asked.provider.name)))
        };
        Self {
            image,
            name: Some(&found.image),
            logins: found.logins.iter().map(LoginView::new).collect(),
            failures: found.results.iter().filter_map(failed).collect(),
            error: None,
        }
    }

    /// The answer for a text that is no image.
    pub(super) fn failed(image: &'a str, failure: &Failure) -> Self {
        let error = Some(Trouble::of(failure, None));
        Self { image, name: None, logins: Vec::new(), failures: Vec::new(), error }
    }
}

impl<'a> LoginView<'a> {
    fn new(found: &'a FoundLogin) -> Self {
        let account = found.account.as_ref();
        let (namespace, service_account) =
            account.map(|(namespace, name)| (namespace.as_str(), name.as_str())).unzip();
        Self {
            registry: &found.key,
            username: &found.login.username,
            password: found.login.password.expose(),
            provider: &found.provider.name,
            namespace,
            service_account,
        }
    }
}

impl Trouble {
    /// An error of a provider, or of the whole request.
    pub(super) fn of(failure: &Failure, provider: Option<&str>) -> Self {
        Self {
            provider: provider.map(str::to_owned),
            failure: failure.describe(),
            stderr: failure.said().map(str::to_owned),
        }
    }
}

/// `name:password`, as in HTTP basic authentication and docker's `auth`, followed by `end`.
pub(super) fn basic(login: &Login, end: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::new());
    let size = login.username.len() + login.password.expose().len() + 1 + end.len();
    // Allocated at once, so that growing leaves no copy behind.
    text.reserve_exact(size);
    _ = write!(text, "{}:{}{end}", login.username, login.password.expose());
    text
}
