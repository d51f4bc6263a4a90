//! What is odd about a configuration that is valid: patterns that can never match or match more than
//! they seem to, durations that make no sense, fields that a kubelet does not know yet.

use std::{fmt, fmt::Write as _};

use keyward_protocol::{duration, image::Version, text};

use super::{
    Config, Pattern, Reading,
    config::{CACHE_KEY_VARIABLE, Provider, Speech, TokenCache},
};

/// Something worth knowing about a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// Where: file and line of the provider.
    pub place: crate::kubeconfig::Place,
    /// The provider's name.
    pub provider: String,
    /// The field it is about.
    pub field: &'static str,
    /// What is odd.
    pub message: String,
}

/// How much a [`Finding`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weight {
    /// Good to know.
    Note,
    /// The entry does something other than it seems to.
    Warning,
    /// The entry does not work.
    Error,
}

/// Looks for oddities. `kubelet` is the minor version (1.x) that must understand the configuration.
pub fn lint(config: &Config, from_folder: bool, kubelet: Option<u32>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for provider in &config.providers {
        let mut linter = Linter { provider, findings: &mut findings };
        for pattern in &provider.patterns {
            linter.pattern(pattern);
        }
        linter.durations();
        linter.tokens();
        linter.known_key();
        linter.versions(from_folder, kubelet);
    }
    findings
}

/// Something that not every kubelet knows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Need {
    /// The provider that needs it.
    pub provider: String,
    /// The first minor version (1.x) that knows it; `None` for what none does.
    pub since: Option<u32>,
    /// The field it is about.
    pub field: &'static str,
    /// What it is.
    pub what: &'static str,
}

/// Since which Kubernetes version everything in a configuration is known.
pub fn needs(config: &Config, from_folder: bool) -> Vec<Need> {
    config.providers.iter().flat_map(|provider| needs_of(provider, from_folder)).collect()
}

fn needs_of(provider: &Provider, from_folder: bool) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut need = |since, field, what| {
        needs.push(Need { provider: provider.name.clone(), since, field, what });
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
    if let Speech::Kubelet(version) = provider.speech {
        need(since(version), "providers[].apiVersion", version.api_version());
    }
    if provider.tokens.is_some() {
        need(Some(33), "providers[].tokenAttributes", "`tokenAttributes`");
        need(Some(34), "providers[].tokenAttributes.cacheType", "`cacheType`");
    }
    if from_folder {
        need(Some(34), "", "a folder of configurations");
    }
    needs
}

/// The audiences for which a configuration asks for tokens of service accounts, each once.
pub fn audiences(config: &Config) -> Vec<&str> {
    let tokens = config.providers.iter().filter_map(|provider| provider.tokens.as_ref());
    let mut audiences: Vec<&str> = tokens.map(|tokens| tokens.audience.as_str()).collect();
    audiences.sort_unstable();
    audiences.dedup();
    audiences
}

/// The permission that nodes need to request tokens for these audiences, as a manifest to apply.
pub fn permissions<'a>(audiences: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  \
         name: keyward-image-credential-audiences\nrules:\n- apiGroups: [\"\"]\n  \
         verbs: [\"request-serviceaccounts-token-audience\"]\n  resources:\n",
    );
    for audience in audiences {
        let mut quoted = String::new();
        keyward_protocol::json::push_text(&mut quoted, audience);
        _ = writeln!(out, "  - {quoted}");
    }
    out.push_str(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata:\n  \
         name: keyward-image-credential-audiences\nroleRef:\n  \
         apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  \
         name: keyward-image-credential-audiences\nsubjects:\n- \
         apiGroup: rbac.authorization.k8s.io\n  kind: Group\n  name: system:nodes\n",
    );
    out
}

struct Linter<'a> {
    provider: &'a Provider,
    findings: &'a mut Vec<Finding>,
}

impl Linter<'_> {
    fn pattern(&mut self, pattern: &Pattern) {
        let shown = text::clean(pattern.text());
        let strict = self.provider.reading() == Reading::Strict;
        for (weight, what) in oddities(pattern) {
            if strict && what == BY_TEXT {
                continue;
            }
            let field = match self.provider.speech {
                Speech::Kubelet(_) => "matchImages",
                Speech::Proposal => "imageMatchers",
            };
            self.add(weight, field, format!("`{shown}` {what}"));
        }
    }

    fn durations(&mut self) {
        let nanos = self.provider.default_duration;
        let field = "defaultCacheDuration";
        match nanos {
            _ if self.provider.speech == Speech::Proposal => {}
            0 => {
                let what = "is 0: an answer that does not say how long it is good is asked for \
                            again at every pull";
                self.add(Weight::Note, field, what);
            }
            1..1_000_000_000 => {
                let shown = duration::format(nanos);
                self.add(Weight::Warning, field, format!("is {shown}, less than a second"));
            }
            _ => {}
        }
    }

    fn tokens(&mut self) {
        let Some(tokens) = &self.provider.tokens else { return };
        if tokens.cache == TokenCache::ServiceAccount {
            let what = "is `ServiceAccount`: an answer that contains the token itself is refused";
            self.add(Weight::Note, "tokenAttributes.cacheType", what);
        }
    }

    fn known_key(&mut self) {
        let variable = self.provider.env.iter().rfind(|(name, _)| name == CACHE_KEY_VARIABLE);
        if variable.is_some() && self.provider.known_key.is_none() {
            let what = format!("`{CACHE_KEY_VARIABLE}` must be `Registry` or `Global` to count");
            self.add(Weight::Warning, "env", what);
        }
    }

    fn versions(&mut self, from_folder: bool, kubelet: Option<u32>) {
        let Some(kubelet) = kubelet else { return };
        for need in needs_of(self.provider, from_folder) {
            match need.since {
                None => {
                    let what = format!("{} is known to no kubelet", need.what);
                    self.add(Weight::Error, need.field, what);
                }
                Some(minor) if kubelet < minor => {
                    let Need { what, field, .. } = need;
                    let what =
                        format!("{what} is known since 1.{minor}, not to a kubelet 1.{kubelet}");
                    self.add(Weight::Error, field, what);
                }
                Some(_) => {}
            }
        }
        if self.provider.tokens.is_some() && kubelet == 33 {
            let what = "needs the feature gate `KubeletServiceAccountTokenForCredentialProviders`";
            self.add(Weight::Warning, "tokenAttributes", what);
        }
    }

    fn add(&mut self, weight: Weight, field: &'static str, message: impl Into<String>) {
        self.findings.push(Finding {
            weight,
            place: self.provider.place.clone(),
            provider: self.provider.name.clone(),
            field,
            message: message.into(),
        });
    }
}

/// What whole segments are not.
const BY_TEXT: &str = "is compared by text: it also matches what its path merely begins";

/// Why a pattern's host is not what it seems to be, in words that follow its text.
pub(super) fn misread(pattern: &Pattern) -> Option<(Weight, &'static str)> {
    use Weight::{Error, Warning};
    let whole = pattern.text();
    let host = whole.split('/').next().unwrap_or(whole);
    if whole.contains("://") {
        return Some((Error, "begins with a scheme and never matches: write the registry alone"));
    }
    if host.is_empty() {
        return Some((Error, "has no registry and never matches"));
    }
    if host.starts_with('[') && !host.contains("]:") {
        let what = "is an IPv6 address without a port and never matches: say the port";
        return Some((Error, what));
    }
    let ignored = whole.contains(['?', '#']) || host.contains('@');
    ignored.then_some((Warning, "has a part that is ignored: a user, a query or a fragment"))
}

/// What is odd about a pattern, in words that follow its text.
fn oddities(pattern: &Pattern) -> Vec<(Weight, &'static str)> {
    use Weight::{Error, Note, Warning};
    let whole = pattern.text();
    let (host, path) = whole.split_at(whole.find('/').unwrap_or(whole.len()));
    let mut odd: Vec<_> = misread(pattern).into_iter().collect();
    if whole.contains("://") {
        return odd;
    }
    if path.contains('*') {
        // A warning, because a kubelet accepts it, and a node must not fail for what a kubelet runs.
        odd.push((Warning, "has a `*` in its path, where it means itself, and never matches"));
    }
    if path.contains([':', '@']) {
        odd.push((Error, "has a tag or digest and never matches: both are removed before"));
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
            "does not mean the official image, which is called `docker.io/library/…`",
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

impl fmt::Display for Weight {
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
    use super::*;

    fn weight(pattern: &str) -> Option<Weight> {
        oddities(&Pattern::parse(pattern).expect("a pattern")).iter().map(|(w, _)| *w).max()
    }

    #[test]
    fn patterns_that_never_match_are_errors_and_ordinary_ones_nothing() {
        for pattern in ["https://a.io", "a.io/x:1", "a.io/X", "index.docker.io", "[::1]", "/x"] {
            assert_eq!(weight(pattern), Some(Weight::Error), "{pattern}");
        }
        for pattern in ["a.io", "*.a.io", "a.io:5000", "docker.io"] {
            assert_eq!(weight(pattern), None, "{pattern}");
        }
        assert_eq!(weight("a.io/foo"), Some(Weight::Warning));
        assert_eq!(weight("registry.io/*"), Some(Weight::Warning));
        assert_eq!(weight("docker.io/nginx"), Some(Weight::Warning));
        assert_eq!(weight("a.io/foo/"), Some(Weight::Note));
    }
}
