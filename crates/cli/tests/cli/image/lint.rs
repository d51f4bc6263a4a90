use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{config, one, provider};
use crate::stage::{Run, Stage};

const LINT: &str = "image lint --config providers.yaml --bin-dir bin";

const TOKENS: &str = "  tokenAttributes:
    serviceAccountTokenAudience: reg
    cacheType: Token
    requireServiceAccount: true
";

fn odd() -> Stage {
    let stage = one();
    let path = stage.plugin("locked", "exit 0");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    let entries = [
        provider("one", "r.io/team, 'https://r.io', '*'", ""),
        provider("locked", "s.io", TOKENS),
        provider("missing", "m.io", ""),
    ];
    stage.write("providers.yaml", &config(&entries.concat()));
    stage
}

#[test]
fn what_is_odd_is_told_with_place_and_what_is_missing_as_a_manifest() {
    let stage = odd();
    let ran = stage.run(&format!("{LINT} --kubelet 1.27"));
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    stage.matches_snapshot("image-lint.txt", &ran.stdout);
    let ran = stage.run(&format!("{LINT} --kubelet 1.27 -o json"));
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    stage.matches_snapshot("image-lint.json", &ran.stdout);
}

#[test]
fn a_pattern_is_reported_at_its_own_line_and_a_file_that_is_too_new_once() {
    let stage = one();
    let patterns = "\n  - r.io\n  - https://r.io\n  - r.io/team\n";
    let entry = |name: &str| provider(name, "r.io", "").replace(" [r.io]\n", patterns);
    stage.plugin("two", "exit 0");
    stage.write("providers.yaml", &config(&[entry("one"), entry("two")].concat()));
    let ran = stage.run(&format!("{LINT} --kubelet 1.24 -o json"));
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let lines = |words: &str| -> Vec<_> {
        let about = findings.iter().filter(|f| f["message"].as_str().unwrap().contains(words));
        about
            .map(|f| {
                (f["file"].as_str().unwrap(), f["line"].as_u64(), f["severity"].as_str().unwrap())
            })
            .collect()
    };
    let file = "providers.yaml";
    assert_eq!(
        lines("begins with a scheme"),
        [(file, Some(7), "error"), (file, Some(14), "error")]
    );
    assert_eq!(
        lines("is compared as text"),
        [(file, Some(8), "warning"), (file, Some(15), "warning")]
    );
    // The file is at fault once, and each provider for its own version.
    assert_eq!(
        lines("a file of `kubelet.config.k8s.io/v1` needs kubelet 1.26"),
        [(file, None, "error")]
    );
    assert_eq!(lines("credentialprovider.kubelet.k8s.io/v1 needs").len(), 2, "{findings:#?}");
    assert_eq!(findings.len(), 7, "{findings:#?}");
}

#[test]
fn a_good_configuration_has_nothing_to_be_said_but_who_understands_it() {
    let stage = one();
    let ran = stage.run(LINT);
    let text = ran.good();
    assert!(text.starts_with("no problems found\nkubelets from 1.26 on support"), "{text}");
    let beta = stage.read("providers.yaml").replace("k8s.io/v1\n", "k8s.io/v1beta1\n");
    stage.write("providers.yaml", &beta);
    assert!(stage.run(LINT).good().contains("kubelets from 1.24 on"));
    stage.write("folder.txt", "");
    fs::create_dir(stage.path("folder")).unwrap();
    fs::rename(stage.path("providers.yaml"), stage.path("folder/a.yaml")).unwrap();
    let ran = stage.run("image lint --config folder --bin-dir bin");
    assert!(ran.good().contains("kubelets from 1.34 on"), "{}", ran.stdout);
}

#[test]
fn every_problem_that_a_kubelet_would_refuse_is_listed() {
    let stage = one();
    let bad =
        provider("a/b", "r.io", "").replace("10m", "-1m").replace("k8s.io/v1\n", "k8s.io/v2\n");
    stage.write("providers.yaml", &config(&bad));
    let ran = stage.run(LINT);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    let text = stage.steady(&ran.stdout);
    for words in [
        "error: `providers[0].name` must not contain `/`",
        "error: `providers[0].apiVersion` is `credentialprovider.kubelet.k8s.io/v2`",
        "error: `providers[0].defaultCacheDuration` must not be negative (`providers.yaml`, line 6)",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn problems_of_every_kind_are_told_at_once() {
    let stage = one();
    let entries = [
        provider("one", "r.io", "").replace("10m", "5x"),
        provider("two", "r.io/team, 'https://r.io'", "").replace("10m", "-1m"),
    ];
    stage.write("providers.yaml", &config(&entries.concat()));
    let ran = stage.run(LINT);
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    for words in [
        "`providers[0].defaultCacheDuration` is `5x`, which is not a duration",
        "`providers[1].defaultCacheDuration` must not be negative",
        "warning: two: `r.io/team` is compared as text",
        "error: two: `https://r.io` begins with a scheme and never matches",
        "plugin `two` was not found",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("is missing"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("understand"), "{}", ran.stdout);
    let ran = stage.run(&format!("{LINT} --segments"));
    assert!(!ran.stdout.contains("compared as text"), "{}", ran.stdout);
}

#[test]
fn a_warning_fails_only_where_strictness_is_asked_for() {
    let stage = one();
    stage.write("providers.yaml", &config(&provider("one", "r.io/team", "")));
    assert!(stage.run(LINT).good().contains("warning: one: `r.io/team` is compared as text"));
    assert_eq!(stage.run(&format!("{LINT} --strict")).code, Some(1));
}

#[test]
fn a_folder_of_programs_that_is_not_there_is_an_error() {
    let stage = one();
    let ran = stage.run("image lint --config providers.yaml --bin-dir nowhere");
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(
        ran.stdout.contains("error: `--bin-dir` names a directory that does not exist (`nowhere`)"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_manifest_stands_alone_on_stdout() {
    let stage = odd();
    let ran = stage.command(format!("{LINT} -o manifest").split(' ')).ran();
    assert!(ran.stdout.starts_with("apiVersion: rbac.authorization.k8s.io/v1\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  - \"reg\"\n"), "{}", ran.stdout);
    assert!(ran.stderr.contains("plugin `missing` was not found"), "{}", ran.stderr);
}

#[test]
fn a_pipe_in_a_folder_of_configurations_is_not_waited_for() {
    let stage = one();
    fs::create_dir(stage.path("folder")).unwrap();
    let pipe = stage.path("folder/pipe.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let ran = stage.run("image lint --config folder --bin-dir bin");
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stdout.contains("it is not a regular file (`folder/pipe.yaml`"), "{}", ran.stdout);
}
