use serde_json::{Value, json};

use crate::stage::{Run, Stage};

fn ask(args: &[&str]) -> (Option<i32>, String) {
    let words = ["image", "match"].into_iter().chain(args.iter().copied());
    let ran = Stage::new().command(words).ran();
    assert_eq!(ran.stdout, "", "the answer is the exit code");
    (ran.code, ran.stderr)
}

#[test]
fn the_exit_code_says_whether_a_pattern_means_an_image() {
    for args in [
        ["*.dkr.ecr.*.amazonaws.com", "1.dkr.ecr.eu-west-1.amazonaws.com/app:2"],
        ["docker.io/library", "nginx:1.27"],
        ["r.io:5000", "r.io:5000/x"],
        ["r.io/team", "r.io/teammates"],
    ] {
        assert_eq!(ask(&args), (Some(0), String::new()), "{args:?}");
    }
    for (args, reason) in [
        (vec!["r.io", "s.io/x"], "`r.io` does not match `s.io/x`: `s` does not match `r`"),
        (vec!["r.io", "r.io:5000/x"], "the image has port 5000 and the pattern none"),
        (vec!["*.io", "a.b.io/x"], "the pattern's host has 2 labels and the image's 3"),
        (vec!["--segments", "r.io/team", "r.io/teammates"], "`/team` ends inside a segment"),
        (vec!["r.io/%zz", "r.io/x"], "error: `r.io/%zz` is not a pattern"),
        (vec!["r.io", "r.io/X"], "the repository's name must be in lower case"),
    ] {
        let (code, said) = ask(&args);
        assert_eq!(code, Some(1), "{args:?}");
        assert!(said.contains(reason), "{args:?}: {said}");
    }
}

#[test]
fn a_program_is_told_in_json() {
    for (image, code, more) in [
        ("r.io/a:1", Some(0), json!({ "matches": true })),
        ("s.io/a:1", Some(1), json!({ "matches": false, "because": "`s` does not match `r`" })),
    ] {
        let ran = Stage::new().command(["image", "match", "-o", "json", "r.io", image]).ran();
        assert_eq!((ran.code, ran.stderr.as_str()), (code, ""));
        let mut expected = json!({ "pattern": "r.io", "image": image, "name": &image[..6] });
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), expected);
    }
}

#[test]
fn what_a_pattern_is_instead_of_a_registry_is_said() {
    for (pattern, reason) in [
        ("https://r.io", "the pattern begins with a scheme and never matches"),
        ("a?b.io", "the pattern has a part that is ignored"),
    ] {
        let (code, said) = ask(&[pattern, "r.io/a"]);
        assert_eq!(code, Some(1), "{pattern}");
        assert!(said.contains(reason), "{pattern}: {said}");
    }
}

#[test]
fn a_port_counts_only_where_the_pattern_has_one_in_the_proposals_form() {
    assert_eq!(ask(&["--proposal", "r.io", "r.io:5000/x"]).0, Some(0));
    assert_eq!(ask(&["--proposal", "r.io:1", "r.io:5000/x"]).0, Some(1));
}

#[test]
fn a_name_may_be_taken_as_it_is() {
    assert_eq!(ask(&["r.io/X", "r.io/X"]).0, Some(1));
    assert_eq!(ask(&["--literal", "r.io/X", "r.io/X"]).0, Some(0));
}
