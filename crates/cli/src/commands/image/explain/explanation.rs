//! The data of `keyward image explain`, for text and JSON alike.
//!
//! `docs/cli.md` documents the JSON; fields that do not apply are left out.

use std::path::PathBuf;

use keyward_host::Error;
use keyward_image::{
    Answer, Config, Lookup, Name, Outcome, Protocol, ProviderResult, Reading, Scope,
};
use serde::Serialize;

use crate::{
    commands::image::{answer::Trouble, setup::Setup},
    duration,
    failure::Failure,
    output::inline,
};

/// The explanation of one image.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    /// The image as given.
    pub(super) image: String,
    /// The name that is matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) config_hash: String,
    pub(super) providers: Vec<Provider>,
    /// The logins, best first.
    pub(super) logins: Vec<Login>,
    /// Whether a kubelet with this configuration and nothing else would pull anonymously.
    pub(super) kubelet_pulls_anonymously: bool,
    /// Why our answer differs from the kubelet's, or why there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) because: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Trouble>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Provider {
    pub(super) name: String,
    /// File and line.
    pub(super) place: String,
    pub(super) api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) program: Option<PathBuf>,
    pub(super) patterns: Vec<Pattern>,
    pub(super) outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<AnswerView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<Trouble>,
}

#[derive(Debug, Serialize)]
pub(super) struct Pattern {
    #[serde(rename = "pattern")]
    pub(super) text: String,
    pub(super) matches: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerView {
    pub(super) cache_key_type: &'static str,
    pub(super) cache_key: String,
    /// A Go duration; left out if the answer is not cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kept_for: Option<String>,
    /// The registry patterns of the answer's logins.
    pub(super) registries: Vec<String>,
    pub(super) run: Run,
}

/// The run that produced an answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) exit_code: i32,
    pub(super) took: String,
    pub(super) runs: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) stderr: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Login {
    pub(super) registry: String,
    pub(super) username: String,
    pub(super) provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service_account: Option<String>,
    /// Whether this login is tried first.
    pub(super) wins: bool,
}

impl Explanation {
    /// Explains the result of asking the providers.
    pub(super) fn of(image: &str, config: &Config, found: &Lookup, setup: &Setup) -> Self {
        let login = |(number, found): (usize, &keyward_image::FoundLogin)| {
            let (namespace, service_account) = found.account.clone().unzip();
            Login {
                registry: found.key.clone(),
                username: found.login.username.clone(),
                provider: found.provider.name.clone(),
                namespace,
                service_account,
                wins: number == 0,
            }
        };
        let results = &found.results;
        let would_give = |provider: &str| results.iter().any(|asked| gives(asked, provider));
        Self {
            image: image.to_owned(),
            name: Some(found.image.clone()),
            config_hash: config.hash.clone(),
            providers: results.iter().map(|asked| Provider::of(asked, found, setup)).collect(),
            logins: found.logins.iter().enumerate().map(login).collect(),
            kubelet_pulls_anonymously: !found.logins.iter().any(|l| would_give(&l.provider.name)),
            because: results.iter().filter_map(|asked| difference(asked, &found.image)).collect(),
            error: None,
        }
    }

    /// Explains why a text is not an image.
    pub(super) fn refused(image: &str, config: &Config, error: &Error) -> Self {
        Self {
            image: image.to_owned(),
            config_hash: config.hash.clone(),
            error: Some(Trouble::of(&Failure::from(error.clone()), None)),
            ..Self::default()
        }
    }
}

/// Whether the kubelet would have this provider's logins too: it runs a provider once, and has no
/// last good answer and no other protocol than its own.
fn gives(asked: &ProviderResult, provider: &str) -> bool {
    let once = match &asked.outcome {
        Outcome::Kept(answer, _) | Outcome::Answered(answer) => answer.runs == 1,
        _ => false,
    };
    asked.provider.name == provider && once && asked.provider.protocol != Protocol::Proposal
}

/// What the kubelet would have got from a provider, if that differs.
fn difference(asked: &ProviderResult, image: &str) -> Option<String> {
    let name = inline(&asked.provider.name);
    match &asked.outcome {
        _ if asked.provider.protocol == Protocol::Proposal && asked.pattern.is_some() => {
            Some(format!("`{name}` is configured in a form that no kubelet supports"))
        }
        Outcome::NoMatch if by_text(asked, image) => Some(format!(
            "a kubelet would ask `{name}` too: it compares paths by text, not by segments"
        )),
        Outcome::LastGood(..) => Some(format!(
            "`{name}` failed and its last answer is still valid; the kubelet would have none"
        )),
        Outcome::Answered(answer) | Outcome::Kept(answer, _) if answer.runs > 1 => {
            Some(format!("`{name}` answered in run {}; the kubelet runs it once", answer.runs))
        }
        _ => None,
    }
}

/// Whether only the rule about whole segments excluded the provider.
fn by_text(asked: &ProviderResult, image: &str) -> bool {
    let name = Name::parse(image).filter(|_| asked.provider.reading() == Reading::Segments);
    let means = |name: &Name<'_>| {
        asked.provider.patterns.iter().any(|pattern| pattern.matches(name, Reading::Kubelet))
    };
    name.as_ref().is_some_and(means)
}

impl Provider {
    fn of(asked: &ProviderResult, found: &Lookup, setup: &Setup) -> Self {
        let provider = &asked.provider;
        let parsed = Name::parse(&found.image);
        let pattern = |pattern: &keyward_image::Pattern| {
            let because = match &parsed {
                Some(name) => pattern.mismatch(name, provider.reading()),
                None => Some("the name must have the form `host[:port][/path]`".to_owned()),
            };
            Pattern { text: pattern.text().to_owned(), matches: because.is_none(), because }
        };
        let (outcome, because) = match &asked.outcome {
            Outcome::NoMatch => ("noMatch", None),
            Outcome::Skipped(reason) => ("skipped", Some(reason.clone())),
            Outcome::Kept(..) => ("kept", None),
            Outcome::Answered(_) => ("answered", None),
            Outcome::LastGood(..) => ("lastGood", None),
            _ => ("failed", None),
        };
        let located = asked.pattern.and_then(|_| setup.images().locate(provider).ok());
        Self {
            name: provider.name.clone(),
            place: provider.place.to_string(),
            api_version: match provider.protocol {
                Protocol::Kubelet(version) => version.api_version(),
                Protocol::Proposal => "v1alpha1",
            },
            program: located.map(|program| program.path),
            patterns: provider.patterns.iter().map(pattern).collect(),
            outcome,
            because,
            answer: asked.outcome.answer().map(|answer| AnswerView::of(answer, &found.image)),
            failure: asked.outcome.failure().map(|error| Trouble::of(&error.clone().into(), None)),
        }
    }
}

impl AnswerView {
    fn of(answer: &Answer, image: &str) -> Self {
        let key = match answer.scope {
            Scope::Global => "all images",
            scope => scope.part(image),
        };
        Self {
            cache_key_type: answer.scope.name(),
            cache_key: key.to_owned(),
            kept_for: answer.kept_for.map(duration::show),
            registries: answer.auth.iter().map(|(registry, _)| registry.clone()).collect(),
            run: Run {
                exit_code: 0,
                took: duration::show(answer.took),
                runs: answer.runs,
                stderr: answer.stderr.clone(),
            },
        }
    }
}
