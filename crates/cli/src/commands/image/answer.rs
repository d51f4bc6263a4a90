//! The shape of what `keyward image credentials` prints. The JSON is documented in `docs/cli.md`; a
//! field that does not apply is left out.

use std::fmt::Write as _;

use keyward_image::{FoundLogin, Lookup};
use keyward_protocol::image::Login;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// The answers for all images of a command line.
#[derive(Serialize)]
pub(super) struct Answers<'a> {
    pub(super) images: Vec<Answer<'a>>,
}

/// What came of asking for one image.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer<'a> {
    /// As it was asked for.
    image: &'a str,
    /// As it was matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// Best first.
    logins: Vec<LoginView<'a>>,
    /// Providers that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Trouble>,
    /// Why nobody was asked.
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

/// What went wrong, in the parts of every message of the program.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trouble {
    /// Of which provider, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
    pub(super) message: String,
    pub(super) notes: Vec<Note>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// What the provider wrote, masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<String>,
}

/// A labelled fact.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Note {
    pub(super) label: String,
    pub(super) text: String,
}

impl<'a> Answer<'a> {
    /// Providers were asked.
    pub(super) fn found(image: &'a str, found: &'a Lookup) -> Self {
        let failed = |asked: &'a keyward_image::ProviderResult| {
            let error = asked.outcome.failure()?;
            Some(Trouble::of(error.clone(), Some(&asked.provider.name)))
        };
        Self {
            image,
            name: Some(&found.image),
            logins: found.logins.iter().map(LoginView::new).collect(),
            failures: found.results.iter().filter_map(failed).collect(),
            error: None,
        }
    }

    /// There was nothing to ask for.
    pub(super) fn failed(image: &'a str, error: impl Into<Failure>) -> Self {
        let error = Some(Trouble::of(error, None));
        Self { image, name: None, logins: Vec::new(), failures: Vec::new(), error }
    }
}

impl<'a> LoginView<'a> {
    fn new(found: &'a FoundLogin) -> Self {
        let account = found.account.as_ref();
        Self {
            registry: &found.key,
            username: &found.login.username,
            password: found.login.password.expose(),
            provider: &found.provider.name,
            namespace: account.map(|(namespace, _)| namespace.as_str()),
            service_account: account.map(|(_, name)| name.as_str()),
        }
    }
}

impl Trouble {
    /// An error of a provider, or of the whole question.
    pub(super) fn of(error: impl Into<Failure>, provider: Option<&str>) -> Self {
        let failure = error.into();
        let note = |(label, text): (&str, &str)| Note { label: label.into(), text: text.into() };
        Self {
            provider: provider.map(str::to_owned),
            message: failure.message().to_owned(),
            notes: failure.notes().map(note).collect(),
            hint: failure.advice().map(str::to_owned),
            stderr: failure.said().map(str::to_owned),
        }
    }
}

/// `name:password`, as HTTP's basic authentication and docker's `auth` have it, and what follows it.
pub(super) fn basic(login: &Login, end: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::new());
    let size = login.username.len() + login.password.expose().len() + 1 + end.len();
    // In one piece, so that no copy is left behind by growing.
    text.reserve_exact(size);
    _ = write!(text, "{}:{}{end}", login.username, login.password.expose());
    text
}
