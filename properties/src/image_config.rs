//! The configuration of image credential providers.

use std::path::Path;

use keyward_image::{Config, Files, Name, Reading};
use keyward_protocol::Node;

use crate::{budget, mark};

pub(crate) fn check(input: &[u8]) {
    let files = Files::from_bytes(Path::new("providers.yaml"), input.to_vec());
    let read = budget::within(input, || Config::from_files(&files));
    let (reviewed, problems) = budget::within(input, || Config::review(&files, Reading::Kubelet));
    assert_eq!(read.is_ok(), problems.is_empty(), "reading and reviewing differ");
    let lines = input.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
    // Other scripts have line breaks of their own, of two or three bytes.
    let most = lines + input.len() / 2 + 1;
    let shown: Vec<String> =
        problems.iter().map(|problem| format!("{problem} {problem:?}")).collect();
    mark::hidden_if_secret(input, &shown.join("\n"));
    for problem in &problems {
        assert!(problem.place.line as usize <= most, "a problem in a line that is not there");
    }
    let config = match read {
        Ok(config) => config,
        Err(faults) => return mark::hidden_if_secret(input, &format!("{faults} {faults:?}")),
    };
    mark::hidden_if_secret(input, &format!("{config:?}"));
    assert_eq!(config.providers.len(), reviewed.providers.len());
    same_in_json(input, &config);
    for provider in &config.providers {
        let images: Vec<String> =
            provider.patterns.iter().take(8).map(|pattern| image(pattern.text())).collect();
        for name in images.iter().filter_map(|image| Name::parse(image)) {
            let plain = provider.patterns.iter().position(|p| p.matches(&name, provider.reading()));
            assert_eq!(provider.index().first(&name), plain, "the index and the rules differ");
        }
    }
}

/// What YAML says, JSON says too.
fn same_in_json(input: &[u8], config: &Config) {
    let Ok(node) = Node::from_json_or_yaml(input) else { return };
    let files = Files::from_bytes(Path::new("providers.json"), node.to_json().into_bytes());
    let again = Config::from_files(&files).expect("the same in JSON");
    for (one, other) in again.providers.iter().zip(&config.providers) {
        assert_eq!(one.name, other.name);
        assert_eq!(one.args, other.args);
        assert_eq!(one.env, other.env);
        assert_eq!(one.tokens, other.tokens);
        assert_eq!(one.default_duration, other.default_duration);
    }
}

/// A name that the pattern may mean.
fn image(pattern: &str) -> String {
    format!("{}/app", pattern.replace('*', "a"))
}
