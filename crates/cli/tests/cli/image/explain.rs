use super::{answers, config, one, provider, steady};
use crate::stage::{Run as _, Stage};

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
    for words in ["`s` does not match `r`", "pulled anonymously", "not asked"] {
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
fn a_path_may_be_asked_to_end_with_a_segment() {
    let stage = stage();
    let explain = "image explain --config providers.yaml r.io/teammates";
    assert!(stage.run(explain).good().contains("wins           `bob` of `two`"));
    let text = stage.run(&format!("{explain} --segments"));
    for words in [
        "`r.io/team`: `/team` ends inside a segment of the image's path",
        "wins           `ann` of `one`",
        "a kubelet would ask `two` too",
    ] {
        assert!(text.good().contains(words), "{words}: {}", text.stdout);
    }
    for (more, value) in [(" --segments", ""), ("", "true")] {
        let words =
            format!("image credentials --config providers.yaml{more} -o basic r.io/teammates");
        let ran = stage.command(words.split(' ')).env("KEYWARD_IMAGE_SEGMENTS", value).ran();
        assert_eq!(ran.good(), "ann:pass-of-ann\n", "{more}");
    }
    let ran = stage.command(explain.split(' ')).env("KEYWARD_IMAGE_SEGMENTS", "maybe").ran();
    assert!(ran.bad(2).contains("must be `true` or `false`"), "{}", ran.stderr);
}

#[test]
fn an_image_that_is_none_is_explained_too() {
    let stage = one();
    let ran = stage.run("image explain --config providers.yaml r.io/App");
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(ran.stdout.contains("the repository's name must be in lower case"), "{}", ran.stdout);
}
