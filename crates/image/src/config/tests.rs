#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use super::*;

const GOOD: &str = "apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr
  matchImages: [\"*.dkr.ecr.*.amazonaws.com\"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  env: [{name: KEYWARD_CACHE_KEY_TYPE, value: Registry}]
";

fn load(text: &str) -> Result<Config, Faults> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    fs::write(&path, text).unwrap();
    Config::load(&path)
}

/// Each problem as `line field: message`.
fn problems(text: &str) -> Vec<String> {
    let faults = load(text).unwrap_err();
    let line = |p: &Problem| format!("{} {}: {}", p.place.line, p.field, p.message);
    faults.problems.iter().map(line).collect()
}

#[test]
fn a_provider_says_which_key_its_answers_have() {
    let config = load(GOOD).unwrap();
    assert_eq!(config.providers[0].known_key, Some(Scope::Registry));
    assert_eq!(config.providers[0].default_duration, 12 * 3600 * 1_000_000_000);
}

#[test]
fn a_review_tells_the_problems_of_every_stage_and_none_twice() {
    let text = "apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: a/b
  matchImages: [5, r.io/team]
  defaultCacheDuration: 5x
  apiVersion: v1
  extra: 1
- name: c
  matchImages: ['%', s.io]
  apiVersion: credentialprovider.kubelet.k8s.io/v1
- name: c
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    fs::write(&path, text).unwrap();
    let (config, problems) = Config::review(&Files::read(&path).unwrap(), Reading::Kubelet);
    let found: Vec<_> = problems.iter().map(|p| format!("{} {}", p.place.line, p.field)).collect();
    assert_eq!(
        found,
        [
            "4 providers[0].name",
            "5 providers[0].matchImages[0]",
            "6 providers[0].defaultCacheDuration",
            "7 providers[0].apiVersion",
            "8 providers[0].extra",
            "9 providers[1].defaultCacheDuration",
            "10 providers[1].matchImages",
            "12 providers[2].name",
            "12 providers[2].apiVersion",
            "12 providers[2].matchImages",
            "12 providers[2].defaultCacheDuration",
        ]
    );
    assert!(problems[2].message.contains("`5x`, which is not a duration"), "{}", problems[2]);
    let patterns: Vec<_> =
        config.providers.iter().flat_map(|p| &p.patterns).map(Pattern::text).collect();
    assert_eq!(patterns, ["r.io/team", "s.io"]);
}

#[test]
fn every_problem_is_told_with_line_and_field() {
    let text = "apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: a/b
  matchImages: []
  defaultCacheDuration: -1s
  apiVersion: v1
- name: ok
  matchImages: ['%']
  tokenAttributes: {cacheType: Pod}
";
    let found = problems(text);
    let fields: Vec<_> = found.iter().map(|p| p.split_once(": ").unwrap().0).collect();
    assert_eq!(
        fields,
        [
            "4 providers[0].name",
            "7 providers[0].apiVersion",
            "5 providers[0].matchImages",
            "6 providers[0].defaultCacheDuration",
            "8 providers[1].apiVersion",
            "9 providers[1].matchImages",
            "8 providers[1].defaultCacheDuration",
            "10 providers[1].tokenAttributes.serviceAccountTokenAudience",
            "10 providers[1].tokenAttributes.requireServiceAccount",
            "10 providers[1].tokenAttributes",
            "10 providers[1].tokenAttributes.cacheType",
        ]
    );
}

#[test]
fn unknown_repeated_and_misspelt_fields_are_told_together() {
    let text =
        GOOD.replace("  env:", "  name: other\n  matchimages: []\n  imageMatchers: []\n  env:");
    assert_eq!(
        problems(&text),
        [
            "8 name: is repeated; the first is in line 4",
            "10 providers[0].imageMatchers: is a field of the original proposal; the kubelet's is \
             `matchImages`",
            "9 providers[0].matchimages: is not a field; did you mean `matchImages`?",
        ]
    );
}

#[test]
fn one_name_twice_is_refused_across_files() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.yaml", "b.yml", "ignored.txt"] {
        fs::write(folder.path().join(name), GOOD).unwrap();
    }
    let faults = Config::load(folder.path()).unwrap_err();
    assert_eq!(faults.problems.len(), 1);
    assert_eq!(faults.problems[0].class, Class::DuplicateProvider);
    assert!(faults.to_string().contains("b.yml"), "{faults}");
}

#[test]
fn a_bare_star_is_answered_with_put_it_in_quotes() {
    for line in ["- *.dkr.ecr.*.amazonaws.com", "- *foo.io", "- *"] {
        let text = format!(
            "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n- name: p\n  \
             imageMatchers:\n  {line}\n"
        );
        let found = problems(&text);
        assert!(found[0].starts_with("6 : ") && found[0].contains("quotes"), "{line}: {found:?}");
    }
    let flow = GOOD.replace("\"*.dkr.ecr.*.amazonaws.com\"", "a.io, *.io");
    assert!(problems(&flow)[0].contains("quotes"));
}

#[test]
fn the_proposals_sample_is_read_with_quotes() {
    for (args, name) in [
        ("\n    region: us-west-2", "REGION"),
        ("\n  - {name: region, value: us-west-2}", "REGION"),
        ("\n  - {name: https_proxy, value: us-west-2}", "HTTPS_PROXY"),
    ] {
        let text = format!(
            "kind: credentialprovider\napiVersion: v1alpha1\nproviders:\n-\n  name: ecr-creds\n  \
             imageMatchers:\n  - '*.dkr.ecr.*.amazonaws.com'\n  extraArgs:{args}\n"
        );
        let config = load(&text).unwrap();
        let provider = &config.providers[0];
        assert_eq!(provider.protocol, Protocol::Proposal);
        assert_eq!(provider.args, ["get-credentials"]);
        assert_eq!(provider.env[0].0, name);
        assert_eq!(provider.env[0].1.expose(), "us-west-2");
    }
}

#[test]
fn a_missing_path_and_an_empty_folder_are_told_apart_from_bad_content() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("none")] {
        let faults = Config::load(&path).unwrap_err();
        assert_eq!(faults.problems[0].class, Class::Unreadable);
    }
}

#[test]
fn a_variable_of_a_provider_shows_in_no_debug_output() {
    let text = GOOD.replace("value: Registry", "value: s3cr3t");
    assert!(!format!("{:?}", load(&text).unwrap()).contains("s3cr3t"));
}

#[test]
fn a_file_of_another_form_has_the_class_that_the_reference_gives_it() {
    let class = |text: &str| load(text).unwrap_err().problems[0].class;
    let internal = "apiVersion: kubelet.config.k8s.io/__internal\nkind: CredentialProviderConfig\n";
    assert_eq!(class(&format!("{internal}Providers: text\n")), Class::Decode);
    assert_eq!(class(&format!("{internal}providers: []\n")), Class::StrictDecode);
    for kind in ["ImagePullIntent", "ImagePulledRecord"] {
        let other = format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: {kind}\n");
        assert_eq!(class(&other), Class::Decode);
        assert_eq!(class(&format!("{other}providers: []\n")), Class::StrictDecode);
    }
}
