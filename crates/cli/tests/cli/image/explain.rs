use super::{answers, config, one, provider, steady};
use crate::stage::Stage;

fn stage() -> Stage {
    let stage = Stage::new();
    let loud = "echo 'refreshing pass-of-ann' >&2";
    stage.plugin("one", &format!("{loud}\n{}", answers("one", "Registry", "r.io", "ann")));
    stage.plugin("two", &answers("two", "Image", "r.io/team", "bob"));
    stage.plugin("broken", "echo 'no session' >&2; exit 3");
    let entries = [
        provider("one", "r.io, 'r.io:5000', '*.r.io'", ""),
        provider("two", "r.io/team", ""),
        provider("broken", "r.io/team/app", ""),
        provider("other", "s.io", ""),
    ];
    stage.write("providers.yaml", &config(&entries.concat()));
    stage
}

#[test]
fn every_decision_is_told_to_people() {
    let stage = stage();
    let ran = stage.run("image explain --config providers.yaml r.io/team/app:1 r.io/other");
    stage.matches_snapshot("image-explain.txt", &steady(&stage, ran.good()));
    assert!(!ran.stderr.contains("pass-of") && !ran.stdout.contains("pass-of"));
}

#[test]
fn every_decision_is_told_to_programs() {
    let stage = stage();
    let ran = stage.run("image explain --config providers.yaml -o json r.io/team/app:1");
    stage.matches_snapshot("image-explain.json", &steady(&stage, ran.good()));
    assert!(!ran.stdout.contains("pass-of"), "{}", ran.stdout);
}

#[test]
fn it_is_said_that_the_kubelet_would_pull_anonymously() {
    let stage = one();
    let ran = stage.run("image explain --config providers.yaml s.io/app");
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    for words in ["`s` does not fit `r`", "pulled anonymously", "not asked"] {
        assert!(ran.stdout.contains(words), "{words}: {}", ran.stdout);
    }
    // Its second run answers; a kubelet would not have run it again.
    let flaky = answers("one", "Image", "r.io", "ann");
    stage.plugin(
        "one",
        &format!("[ -e \"$STAGE/tried\" ] || {{ >\"$STAGE/tried\"; exit 1; }}\n{flaky}"),
    );
    let ran = stage.run("image explain --config providers.yaml r.io/app");
    let text = ran.good();
    assert!(text.contains("`one` answered in run 2; the kubelet runs it once"), "{text}");
    assert!(text.contains("it would have pulled anonymously"), "{text}");
}

#[test]
fn an_image_that_is_none_is_explained_too() {
    let stage = one();
    let ran = stage.run("image explain --config providers.yaml r.io/App");
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stdout.contains("the repository's name must be in lower case"), "{}", ran.stdout);
}
