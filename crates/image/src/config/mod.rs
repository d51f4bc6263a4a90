//! Configuration of the providers: the kubelet's `CredentialProviderConfig`, and the form of the
//! original proposal.
//!
//! ```text
//! file or directory ──► bytes ──► Node ──► Config
//!                  read      parse    decode, merge, validate
//! ```
//!
//! Decoding is as strict as the kubelet's: an unknown or duplicate field is an error. All problems
//! are reported at once, each with its file, line and field.

mod decode;
mod files;
mod kinds;
mod problem;
mod proposal;
mod validate;

#[cfg(test)]
mod tests;

use std::{fmt, path::Path, sync::Arc};

use keyward_protocol::{Secret, image::Version};

pub(crate) use self::files::list;
pub use self::{
    files::Files,
    problem::{Class, Faults, Problem, Stage},
};
use super::{Index, Pattern, Reading, Scope};
use keyward_host::kubeconfig::Place;

/// An environment variable in a provider's configuration that declares the cache key of its
/// answers, `Registry` or `Global`, so that even the first run is shared by all images it will
/// serve.
pub(crate) const CACHE_KEY_VARIABLE: &str = "KEYWARD_CACHE_KEY_TYPE";

/// Providers, in the order in which they are asked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The providers.
    pub providers: Vec<Arc<Provider>>,
    /// Identifies the configuration, as in the kubelet's metric: `sha256:` and the digest of the
    /// files.
    pub hash: String,
}

/// A program with logins for some images.
pub struct Provider {
    /// The provider's name, which is also its file name.
    pub name: String,
    /// The protocol that the provider speaks.
    pub protocol: Protocol,
    /// The version of `kubelet.config.k8s.io` of its file; none in the original proposal's form.
    pub form: Option<Version>,
    /// The images that it is asked for.
    pub patterns: Vec<Pattern>,
    /// How long to cache an answer without its own duration, in nanoseconds.
    pub default_duration: i64,
    /// The provider's arguments.
    pub args: Vec<String>,
    /// Environment variables to add to ours.
    pub env: Vec<(String, Secret)>,
    /// Whether and how it gets the pod's service account.
    pub tokens: Option<TokenAttributes>,
    /// What its answers are known to be good for, from the variable `KEYWARD_CACHE_KEY_TYPE`: more than
    /// the image they were asked for.
    pub known_key: Option<Scope>,
    /// The provider's position in its file.
    pub place: Place,
    /// The line of each pattern.
    pub(crate) pattern_lines: Vec<u32>,
    reading: Reading,
    index: Index,
}

/// The protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// The kubelet's, in this version.
    Kubelet(Version),
    /// The original proposal's.
    Proposal,
}

/// How a provider gets service account tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenAttributes {
    /// The audience of the tokens.
    pub audience: String,
    /// What distinguishes cached answers.
    pub cache: TokenCache,
    /// Whether pods without a service account are skipped.
    pub require: bool,
    /// Annotations without which a service account is skipped.
    pub required_annotations: Vec<String>,
    /// Annotations that are sent if they exist.
    pub optional_annotations: Vec<String>,
}

/// What distinguishes cached answers for service accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenCache {
    /// The account: all its pods share answers.
    ServiceAccount,
    /// The token itself.
    Token,
}

impl Config {
    /// Reads a file, or the `.json`, `.yaml` and `.yml` files of a directory in the order of their
    /// names, and checks them.
    pub fn load(path: &Path) -> Result<Self, Faults> {
        Self::from_files(&Files::read(path)?)
    }

    /// Decodes and checks what was read.
    pub fn from_files(files: &Files) -> Result<Self, Faults> {
        Self::from_files_by(files, Reading::Kubelet)
    }

    /// Like [`from_files`](Self::from_files), but matches the kubelet's patterns in another way,
    /// such as [`Reading::Segments`]. Patterns in the original proposal's form are matched as always.
    pub fn from_files_by(files: &Files, reading: Reading) -> Result<Self, Faults> {
        let (drafts, problems) = decode::all(files);
        problem::settle(Stage::Read, problems)?;
        problem::settle(Stage::Read, validate::names(&drafts))?;
        let problems = validate::all(&drafts, files);
        problem::settle(Stage::Validate, problems)?;
        let providers = drafts.into_iter().filter_map(|draft| draft.finish(reading));
        Ok(Self { providers: providers.map(Arc::new).collect(), hash: files.hash() })
    }

    /// All problems, not only those of the first stage, and as much of the providers as can be
    /// decoded. For inspection only: a configuration with a problem must not be used.
    pub fn review(files: &Files, reading: Reading) -> (Self, Vec<Problem>) {
        let (mut drafts, mut problems) = decode::all(files);
        let decoding = problems.len();
        let mut rest = validate::names(&drafts);
        if decoding == 0 || !drafts.is_empty() {
            rest.extend(validate::all(&drafts, files));
        }
        for problem in rest {
            // A field that could not be decoded looks like a missing one.
            if !problems[..decoding].iter().any(|earlier| earlier.explains(&problem)) {
                problems.push(problem);
            }
        }
        let order = |p: &Problem| {
            let file = p.place.file.as_deref();
            (files.iter().position(|(path, _)| Some(&**path) == file), p.place.line)
        };
        problems.sort_by_key(order);
        if !problems.is_empty() {
            drafts.iter_mut().for_each(Draft::mend);
        }
        let providers = drafts.into_iter().filter_map(|draft| draft.finish(reading));
        (Self { providers: providers.map(Arc::new).collect(), hash: files.hash() }, problems)
    }
}

impl Provider {
    /// The patterns, compiled.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// How the patterns are matched.
    pub fn reading(&self) -> Reading {
        self.reading
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A provider as written, not validated yet.
#[derive(Default)]
struct Draft {
    /// The version of `kubelet.config.k8s.io` of its file; none in the original proposal's form.
    form: Option<Version>,
    /// `providers[0]`, in its file.
    field: String,
    name: Said<String>,
    api_version: Said<String>,
    patterns: Said<Vec<Said<String>>>,
    duration: Option<Said<i64>>,
    args: Vec<String>,
    env: Vec<(String, Secret)>,
    tokens: Option<Said<DraftTokens>>,
    place: Place,
}

/// A value and its line.
#[derive(Clone, Default)]
struct Said<T> {
    value: T,
    line: u32,
}

#[derive(Clone, Default)]
struct DraftTokens {
    audience: Said<String>,
    cache: Said<String>,
    require: Option<bool>,
    required: Said<Vec<Said<String>>>,
    optional: Said<Vec<Said<String>>>,
}

impl Draft {
    /// Replaces invalid values by harmless ones, and drops invalid patterns.
    fn mend(&mut self) {
        if Version::parse(&self.api_version.value).is_none() {
            // The version that every kubelet supports.
            Version::V1Alpha1.api_version().clone_into(&mut self.api_version.value);
        }
        let usable = |text: &str| !text.is_empty() && Pattern::parse(text).is_ok();
        self.patterns.value.retain(|pattern| usable(&pattern.value));
        self.duration.get_or_insert(Said { value: 60_000_000_000, line: 0 });
    }

    /// The validated provider.
    fn finish(self, reading: Reading) -> Option<Provider> {
        let protocol = match self.form {
            None => Protocol::Proposal,
            Some(_) => Protocol::Kubelet(Version::parse(&self.api_version.value)?),
        };
        let parsed = self.patterns.value.iter().map(|p| Pattern::parse(&p.value));
        let patterns = parsed.collect::<Result<Vec<_>, _>>().ok()?;
        let known = self.env.iter().rfind(|(name, _)| name == CACHE_KEY_VARIABLE);
        let reading = match protocol {
            Protocol::Kubelet(_) => reading,
            Protocol::Proposal => Reading::Proposal,
        };
        Some(Provider {
            pattern_lines: self.patterns.value.iter().map(|pattern| pattern.line).collect(),
            index: Index::new(&patterns, reading),
            reading,
            name: self.name.value,
            protocol,
            form: self.form,
            patterns,
            default_duration: self.duration.map_or(0, |duration| duration.value),
            args: self.args,
            known_key: known
                .and_then(|(_, value)| Scope::named(value.expose()))
                .filter(|scope| *scope != Scope::Image),
            env: self.env,
            tokens: self.tokens.and_then(|tokens| tokens.value.finish()),
            place: self.place,
        })
    }
}

impl DraftTokens {
    fn finish(self) -> Option<TokenAttributes> {
        let texts = |said: Said<Vec<Said<String>>>| said.value.into_iter().map(|s| s.value);
        Some(TokenAttributes {
            audience: self.audience.value,
            cache: match self.cache.value.as_str() {
                "ServiceAccount" => TokenCache::ServiceAccount,
                "Token" => TokenCache::Token,
                _ => return None,
            },
            require: self.require?,
            required_annotations: texts(self.required).collect(),
            optional_annotations: texts(self.optional).collect(),
        })
    }
}
