//! `keyward image` with real providers.

mod accounts;
mod credentials;
mod explain;
mod lint;
mod matching;
mod migrate;
mod proposal;
mod stream;

use std::fmt::Write as _;

use serde_json::json;

use crate::stage::Stage;

/// A configuration in the kubelet's form with these providers.
pub(crate) fn config(providers: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n{providers}"
    )
}

/// A provider's entry, with more lines of it.
pub(crate) fn provider(name: &str, patterns: &str, more: &str) -> String {
    format!(
        "- name: {name}\n  matchImages: [{patterns}]\n  defaultCacheDuration: 10m\n  \
         apiVersion: credentialprovider.kubelet.k8s.io/v1\n{more}"
    )
}

/// A script that answers this user for `key`, and notes its runs in `$STAGE/NAME.runs`.
pub(crate) fn answers(name: &str, scope: &str, key: &str, user: &str) -> String {
    let answer = json!({
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": scope,
        "cacheDuration": "5m",
        "auth": { key: { "username": user, "password": format!("pass-of-{user}") } },
    });
    format!(
        "echo run >>\"$STAGE/{name}.runs\"\ncat >\"$STAGE/{name}.told\"\ncat <<'X'\n{answer}\nX"
    )
}

/// How often a provider was run.
pub(crate) fn runs(stage: &Stage, name: &str) -> usize {
    stage.read(&format!("{name}.runs")).lines().count()
}

/// A stage with one provider `one` for `r.io`.
fn one() -> Stage {
    let stage = Stage::new();
    stage.plugin("one", &answers("one", "Image", "r.io", "ann"));
    stage.write("providers.yaml", &config(&provider("one", "r.io", "")));
    stage
}

/// Everything that differs from run to run.
fn steady(stage: &Stage, text: &str) -> String {
    let steady = stage.steady(text);
    let mut out = String::new();
    let mut labelled = false;
    for line in steady.lines() {
        let margin = &line[..line.len() - line.trim_start().len()];
        match line.trim_start() {
            run if run.starts_with("run ") && run.contains(" after ") => {
                _ = writeln!(out, "{margin}run          exit code 0 after [TIME]");
            }
            took if took.starts_with("took ") => _ = writeln!(out, "{margin}took         [TIME]"),
            took if took.starts_with("\"took\":") => {
                _ = writeln!(out, "{margin}\"took\": \"[TIME]\",");
            }
            _ if labelled => _ = writeln!(out, "{margin}\"text\": \"[TIME]\""),
            _ => _ = writeln!(out, "{line}"),
        }
        labelled = line.contains("\"label\": \"took\"");
    }
    out
}
