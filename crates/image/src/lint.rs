//! Finds oddities in a valid configuration: patterns that can never match or match more than they
//! seem to, durations that make no sense, fields that a kubelet does not know yet.

use std::{collections::HashSet, fmt};

use keyward_host::kubeconfig::Place;
use keyward_protocol::{duration, image::Version, text};

use super::{
    Config, Name, Pattern, Reading,
    config::{CACHE_KEY_VARIABLE, Protocol, Provider, TokenCache},
};

/// A finding about a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The file, and the line of the pattern or the provider; no line for a finding about the file.
    pub place: Place,
    /// The provider's name; `None` for a finding about the file.
    pub provider: Option<String>,
    /// The field.
    pub field: &'static str,
    /// A description of the oddity.
    pub message: String,
}

/// How much a [`Finding`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Note,
    /// The entry does something other than it seems to.
    Warning,
    /// The entry does not work.
    Error,
}

/// A feature that not every kubelet has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requirement {
    /// The provider that needs it.
    pub provider: String,
    /// The first minor version (1.x) that has it; `None` if none does.
    pub since: Option<u32>,
    /// The field.
    pub field: &'static str,
    /// A description of the feature.
    pub what: &'static str,
}

impl Config {
    /// Finds oddities. `kubelet` is the minor version (1.x) that must support the configuration.
    pub fn lint(&self, from_folder: bool, kubelet: Option<u32>) -> Vec<Finding> {
        let mut findings: Vec<Finding> = Vec::new();
        for provider in &self.providers {
            let mut linter = Linter { provider, findings: &mut findings };
            for (pattern, line) in provider.patterns.iter().zip(&provider.pattern_lines) {
                linter.pattern(pattern, *line);
            }
            linter.other_names();
            linter.durations();
            linter.tokens();
            linter.known_key();
            linter.versions(from_folder, kubelet);
        }
        // What is wrong with a file was found once for each of its providers.
        let mut files = HashSet::new();
        findings.retain(|finding| {
            finding.provider.is_some()
                || files.insert((finding.place.file.clone(), finding.message.clone()))
        });
        findings
    }

    /// The features that the configuration uses and not every kubelet has.
    pub fn requirements(&self, from_folder: bool) -> Vec<Requirement> {
        self.providers.iter().flat_map(|provider| needs_of(provider, from_folder)).collect()
    }

    /// The audiences of the service account tokens that the configuration requests, each once.
    pub fn audiences(&self) -> Vec<&str> {
        let tokens = self.providers.iter().filter_map(|provider| provider.tokens.as_ref());
        let mut audiences: Vec<&str> = tokens.map(|tokens| tokens.audience.as_str()).collect();
        audiences.sort_unstable();
        audiences.dedup();
        audiences
    }
}

fn needs_of(provider: &Provider, from_folder: bool) -> Vec<Requirement> {
    let mut needs = Vec::new();
    let mut need = |since, field, what| {
        needs.push(Requirement { provider: provider.name.clone(), since, field, what });
    };
    let since = |version| match version {
        Version::V1Alpha1 => Some(20),
        Version::V1Beta1 => Some(24),
        Version::V1 => Some(26),
    };
    let Some(form) = provider.form else {
        need(None, "kind", "the form of the original proposal");
        return needs;
    };
    need(
        since(form),
        "apiVersion",
        match form {
            Version::V1Alpha1 => "a file of `kubelet.config.k8s.io/v1alpha1`",
            Version::V1Beta1 => "a file of `kubelet.config.k8s.io/v1beta1`",
            Version::V1 => "a file of `kubelet.config.k8s.io/v1`",
        },
    );
    if let Protocol::Kubelet(version) = provider.protocol {
        need(since(version), "providers[].apiVersion", version.api_version());
    }
    if provider.tokens.is_some() {
        need(Some(33), "providers[].tokenAttributes", "`tokenAttributes`");
        need(Some(34), "providers[].tokenAttributes.cacheType", "`cacheType`");
    }
    if from_folder {
        need(Some(34), "", "a directory of configurations");
    }
    needs
}

struct Linter<'a> {
    provider: &'a Provider,
    findings: &'a mut Vec<Finding>,
}

impl Linter<'_> {
    fn pattern(&mut self, pattern: &Pattern, line: u32) {
        let shown = text::clean(pattern.text());
        let strict = self.provider.reading() == Reading::Segments;
        for (severity, what) in oddities(pattern) {
            if strict && what == BY_TEXT {
                continue;
            }
            let field = match self.provider.protocol {
                Protocol::Kubelet(_) => "matchImages",
                Protocol::Proposal => "imageMatchers",
            };
            self.add(severity, field, format!("`{shown}` {what}"));
            if let Some(finding) = self.findings.last_mut().filter(|_| line > 0) {
                finding.place.line = line;
            }
        }
    }

    /// Reports registries of Amazon ECR that a provider for it serves under one name and not under another.
    fn other_names(&mut self) {
        if !ECR_PROVIDERS.contains(&self.provider.name.as_str()) {
            return;
        }
        for (name, other) in missing_ecr_names(&self.provider.patterns, self.provider.reading()) {
            let what = format!(
                "matches registries such as `{name}`, but not under their other name: add `{other}`"
            );
            self.add(Severity::Warning, "matchImages", what);
        }
    }

    fn durations(&mut self) {
        let nanos = self.provider.default_duration;
        let field = "defaultCacheDuration";
        match nanos {
            _ if self.provider.protocol == Protocol::Proposal => {}
            0 => {
                let what = "is 0: an answer without a duration is requested \
                            again at every pull";
                self.add(Severity::Note, field, what);
            }
            1..1_000_000_000 => {
                let shown = duration::format(nanos);
                self.add(Severity::Warning, field, format!("is {shown}, less than a second"));
            }
            _ => {}
        }
    }

    fn tokens(&mut self) {
        let Some(tokens) = &self.provider.tokens else { return };
        if tokens.cache == TokenCache::ServiceAccount {
            let what = "is `ServiceAccount`: an answer that contains the token itself is refused";
            self.add(Severity::Note, "tokenAttributes.cacheType", what);
        }
    }

    fn known_key(&mut self) {
        let variable = self.provider.env.iter().rfind(|(name, _)| name == CACHE_KEY_VARIABLE);
        if variable.is_some() && self.provider.known_key.is_none() {
            let what = format!("`{CACHE_KEY_VARIABLE}` must be `Registry` or `Global` to count");
            self.add(Severity::Warning, "env", what);
        }
    }

    fn versions(&mut self, from_folder: bool, kubelet: Option<u32>) {
        let Some(kubelet) = kubelet else { return };
        for need in needs_of(self.provider, from_folder) {
            match need.since {
                None => {
                    let what = format!("{} is not supported by any kubelet", need.what);
                    self.need(need.field, what);
                }
                Some(minor) if kubelet < minor => {
                    let Requirement { what, field, .. } = need;
                    let what =
                        format!("{what} needs kubelet 1.{minor}, which is newer than 1.{kubelet}");
                    self.need(field, what);
                }
                Some(_) => {}
            }
        }
        if self.provider.tokens.is_some() && kubelet == 33 {
            let what = "needs the feature gate `KubeletServiceAccountTokenForCredentialProviders`";
            self.add(Severity::Warning, "tokenAttributes", what);
        }
    }

    /// Adds something that a kubelet lacks: for the provider, or for its whole file.
    fn need(&mut self, field: &'static str, message: String) {
        let message = match field {
            "" => message,
            _ if message.starts_with('`') => message,
            field => format!("`{field}`: {message}"),
        };
        self.add(Severity::Error, field, message);
        let of_file = !field.starts_with("providers[]");
        if let Some(finding) = self.findings.last_mut().filter(|_| of_file) {
            finding.provider = None;
            finding.place.line = 0;
        }
    }

    fn add(&mut self, severity: Severity, field: &'static str, message: impl Into<String>) {
        self.findings.push(Finding {
            severity,
            place: self.provider.place.clone(),
            provider: Some(self.provider.name.clone()),
            field,
            message: message.into(),
        });
    }
}

/// The names of providers for Amazon ECR.
const ECR_PROVIDERS: [&str; 2] = ["ecr-credential-provider", "keyward-ecr"];

/// Names of registries of Amazon ECR, with the other names of the same registries: FIPS and dual-stack.
const ECR_NAMES: [(&str, &[&str]); 4] = [
    (
        "*.dkr.ecr.*.amazonaws.com",
        &["*.dkr.ecr-fips.*.amazonaws.com", "*.dkr-ecr.*.on.aws", "*.dkr-ecr-fips.*.on.aws"],
    ),
    ("*.dkr.ecr.*.amazonaws.com.cn", &["*.dkr-ecr.*.on.amazonwebservices.com.cn"]),
    ("*.dkr.ecr.*.amazonaws.eu", &["*.dkr-ecr.*.on.amazonwebservices.eu"]),
    ("public.ecr.aws", &["ecr-public.aws.com"]),
];

/// Registries of Amazon ECR that patterns match under one name and not under another: a pattern for the matched name,
/// and one for the other.
pub fn missing_ecr_names(
    patterns: &[Pattern],
    reading: Reading,
) -> Vec<(&'static str, &'static str)> {
    let serves = |pattern: &str| {
        let host = pattern.replacen('*', "123456789012", 1).replacen('*', "eu-west-1", 1);
        let image = format!("{host}/image");
        let name = Name::parse(&image);
        name.is_some_and(|name| patterns.iter().any(|pattern| pattern.matches(&name, reading)))
    };
    let known = ECR_NAMES.into_iter().filter(|(name, _)| serves(name));
    let pairs = known.flat_map(|(name, others)| others.iter().map(move |other| (name, *other)));
    pairs.filter(|(_, other)| !serves(other)).collect()
}

/// The finding about a path that is not matched by whole segments.
const BY_TEXT: &str = "is compared as text: it also matches longer names that begin with its path";

/// Why a pattern's host is not what it seems to be, worded to follow its text.
pub(super) fn misread(pattern: &Pattern) -> Option<(Severity, &'static str)> {
    use Severity::{Error, Warning};
    let whole = pattern.text();
    let host = whole.split('/').next().unwrap_or(whole);
    if whole.contains("://") {
        return Some((Error, "begins with a scheme and never matches: write only the registry"));
    }
    if host.is_empty() {
        return Some((Error, "has no registry and never matches"));
    }
    if host.starts_with('[') && !host.contains("]:") {
        let what = "is an IPv6 address without a port and never matches: add the port";
        return Some((Error, what));
    }
    let ignored = whole.contains(['?', '#']) || host.contains('@');
    ignored.then_some((Warning, "has a part that is ignored: a user, a query or a fragment"))
}

/// What is odd about a pattern, worded to follow its text.
fn oddities(pattern: &Pattern) -> Vec<(Severity, &'static str)> {
    use Severity::{Error, Note, Warning};
    let whole = pattern.text();
    let (host, path) = whole.split_at(whole.find('/').unwrap_or(whole.len()));
    let mut odd: Vec<_> = misread(pattern).into_iter().collect();
    if whole.contains("://") {
        return odd;
    }
    if path.contains('*') {
        // A warning, because a kubelet accepts it, and a node must not fail for what a kubelet
        // runs.
        odd.push((Warning, "has a `*` in its path, where it is literal, and never matches"));
    }
    if path.contains([':', '@']) {
        odd.push((
            Error,
            "has a tag or digest and never matches: both are removed from the image first",
        ));
    }
    if path.bytes().any(|b| b.is_ascii_uppercase()) {
        odd.push((Error, "has capitals in its path and never matches: repositories have none"));
    }
    if host == "index.docker.io" {
        odd.push((Error, "never matches: images of Docker Hub are called `docker.io/…`"));
    }
    if host == "docker.io" && path.trim_start_matches('/').split('/').count() == 1 && path.len() > 1
    {
        odd.push((
            Warning,
            "does not match the official image, which is called `docker.io/library/…`",
        ));
    }
    if host == "*" {
        odd.push((Warning, "matches registries without a dot only, such as `localhost`"));
    }
    let deep = path.len() > 1 && !path.ends_with('/');
    if deep && !path.contains('*') {
        odd.push((Warning, BY_TEXT));
    }
    if path.len() > 1 && path.ends_with('/') {
        odd.push((Note, "does not match the repository of exactly this path"));
    }
    odd
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Files;

    #[test]
    fn pitfall_16_a_registry_of_ecr_that_lacks_one_of_its_names_is_a_warning() {
        let findings = |name: &str, patterns: &[&str]| {
            let patterns = patterns.join("\"\n  - \"");
            let text = format!(
                "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: {name}\n  \
                 apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 12h\n  matchImages:\n  - \"{patterns}\"\n"
            );
            let files = Files::from_bytes(Path::new("config"), text.into_bytes());
            let (config, problems) = Config::review(&files, Reading::default());
            assert!(problems.is_empty(), "{problems:?}");
            let found = config.lint(false, None).into_iter();
            let message = |finding: Finding| {
                assert_eq!(finding.severity, Severity::Warning);
                finding.message
            };
            found.map(message).collect::<Vec<_>>()
        };
        // What the documentation of the replaced provider says.
        let old = ["*.dkr.ecr.*.amazonaws.com", "*.dkr.ecr.*.amazonaws.com.cn", "public.ecr.aws"];
        for name in ECR_PROVIDERS {
            let missing = findings(name, &old);
            for pattern in
                ["*.dkr-ecr.*.on.aws", "ecr-public.aws.com", "*.dkr.ecr-fips.*.amazonaws.com"]
            {
                assert!(
                    missing.iter().any(|text| text.ends_with(&format!("add `{pattern}`"))),
                    "{missing:?}"
                );
            }
            assert_eq!(missing.len(), 5, "{missing:?}");
            // A wider pattern is as good.
            let wide = ["*.dkr.*.*.amazonaws.com", "*.*.*.on.aws"];
            assert!(findings(name, &wide).is_empty());
            assert!(findings(name, &["*.dkr.ecr.*.c2s.ic.gov"]).is_empty());
        }
        assert!(findings("other", &old).is_empty());
    }

    fn severity(pattern: &str) -> Option<Severity> {
        oddities(&Pattern::parse(pattern).expect("a pattern")).iter().map(|(w, _)| *w).max()
    }

    #[test]
    fn patterns_that_never_match_are_errors_and_ordinary_ones_nothing() {
        for pattern in ["https://a.io", "a.io/x:1", "a.io/X", "index.docker.io", "[::1]", "/x"] {
            assert_eq!(severity(pattern), Some(Severity::Error), "{pattern}");
        }
        for pattern in ["a.io", "*.a.io", "a.io:5000", "docker.io"] {
            assert_eq!(severity(pattern), None, "{pattern}");
        }
        assert_eq!(severity("a.io/foo"), Some(Severity::Warning));
        assert_eq!(severity("registry.io/*"), Some(Severity::Warning));
        assert_eq!(severity("docker.io/nginx"), Some(Severity::Warning));
        assert_eq!(severity("a.io/foo/"), Some(Severity::Note));
    }
}
