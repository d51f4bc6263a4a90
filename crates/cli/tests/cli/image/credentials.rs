use std::os::unix::fs::PermissionsExt as _;

use super::{answers, config, one, provider, runs, steady};
use crate::stage::{Run, Stage};

const ASK: &str = "image credentials --config providers.yaml";

#[test]
fn logins_are_printed_in_the_order_in_which_they_are_tried() {
    let stage = Stage::new();
    let mut entries = String::new();
    for (name, key, user) in
        [("first", "r.io", "ann"), ("second", "r.io", "bob"), ("third", "r.io/team", "eve")]
    {
        stage.plugin(name, &answers(name, "Image", key, user));
        entries += &provider(name, "r.io", "");
    }
    stage.plugin("broken", "echo 'no session' >&2; exit 3");
    entries += &provider("broken", "r.io", "");
    stage.write("providers.yaml", &config(&entries));
    let ran = stage.run(&format!("{ASK} r.io/team/app:1"));
    stage.matches_snapshot("image-credentials.json", &steady(&stage, ran.good()));
    assert!(ran.stderr.contains("a provider failed"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("pass-of"), "{}", ran.stderr);
}

#[test]
fn the_docker_form_has_the_best_login_of_each_registry() {
    let stage = Stage::new();
    stage.plugin("one", &answers("one", "Image", "r.io", "ann"));
    stage.plugin("two", &answers("two", "Image", "r.io/team", "bob"));
    stage.plugin("hub", &answers("hub", "Image", "docker.io", "eve"));
    let entries = [
        provider("one", "r.io", ""),
        provider("two", "r.io/team", ""),
        provider("hub", "docker.io", ""),
    ];
    stage.write("providers.yaml", &config(&entries.concat()));
    let ran = stage.run(&format!("{ASK} -o docker r.io/app r.io/team/app nginx"));
    stage.matches_snapshot("image-docker.json", ran.good());
}

#[test]
fn the_basic_form_is_a_line_of_name_and_password_for_each_image() {
    let stage = one();
    let ran = stage.run(&format!("{ASK} -o basic r.io/a r.io/b"));
    assert_eq!(ran.good(), "ann:pass-of-ann\nann:pass-of-ann\n");
}

#[test]
fn a_name_that_would_be_read_as_another_is_not_printed() {
    let stage = one();
    stage.plugin("one", &answers("one", "Image", "r.io", "ann:x"));
    for form in ["basic", "docker"] {
        let ran = stage.run(&format!("{ASK} -o {form} r.io/a"));
        assert!(ran.bad(1).contains("cannot contain"), "{form}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{form}");
    }
    let ran = stage.run(&format!("{ASK} r.io/a")).json();
    assert!(ran.to_string().contains("ann:x"), "{ran}");
}

#[test]
fn an_empty_login_is_shown_and_given_to_nobody() {
    let stage = one();
    let empty = answers("one", "Image", "r.io", "").replace("pass-of-", "");
    stage.plugin("one", &empty);
    for form in ["basic", "docker"] {
        let ran = stage.run(&format!("{ASK} -o {form} r.io/a"));
        assert_eq!(ran.code, Some(1), "{form}");
        assert!(ran.stderr.contains("has no user name or no password"), "{form}: {}", ran.stderr);
        assert!(!ran.stdout.contains("r.io") && !ran.stdout.contains(":\n"), "{}", ran.stdout);
    }
    let answer = stage.run(&format!("{ASK} r.io/a")).json();
    assert_eq!(answer["images"][0]["logins"][0]["username"], "");
    stage.plugin("two", &answers("two", "Image", "r.io", "bob"));
    let entries = [provider("one", "r.io", ""), provider("two", "r.io", "")];
    stage.write("providers.yaml", &config(&entries.concat()));
    let ran = stage.run(&format!("{ASK} -o basic r.io/a"));
    assert_eq!(ran.good(), "bob:pass-of-bob\n", "the next one is taken");
}

#[test]
fn an_image_without_a_login_is_an_error_that_says_why() {
    let stage = one();
    stage.plugin("empty", &answers("empty", "Image", "other.io", "x"));
    stage.plugin("broken", "echo 'no session' >&2; exit 3");
    let entries = [
        provider("one", "r.io", ""),
        provider("empty", "e.io", ""),
        provider("broken", "b.io", ""),
        provider("missing", "m.io", ""),
    ];
    stage.write("providers.yaml", &config(&entries.concat()));
    for (image, words) in [
        ("s.io/app", "no provider has a pattern that matches it"),
        ("e.io/app", "its answer has no login for this image"),
        ("b.io/app", "plugin `broken` failed with exit code 3"),
        ("m.io/app", "plugin `missing` was not found"),
        ("M.io/App", "the repository's name must be in lower case"),
    ] {
        let ran = stage.run(&format!("{ASK} -o basic {image}"));
        assert!(ran.bad(1).contains(words), "{image}: {}", ran.stderr);
    }
    let ran = stage.run(&format!("{ASK} b.io/app"));
    assert_eq!(ran.code, Some(1), "the document is printed all the same");
    assert!(ran.stderr.contains("  the plugin said:\n    no session\n"), "{}", ran.stderr);
}

#[test]
fn flags_or_variables_say_where_providers_are() {
    let stage = one();
    std::fs::create_dir(stage.path("providers")).unwrap();
    std::fs::rename(stage.path("bin/one"), stage.path("providers/one")).unwrap();
    let ask = |args: &[&str]| {
        let words = ["image", "credentials", "-o", "basic"].into_iter();
        stage.command(words.chain(args.iter().copied()).chain(["r.io/a"]))
    };
    let bad = ask(&[]).ran();
    assert!(bad.bad(2).contains("hint: `--config` or `KEYWARD_IMAGE_CONFIG` names the file"));
    let bad = ask(&["--config", "providers.yaml"]).ran();
    assert!(bad.bad(1).contains("plugin `one` was not found"), "{}", bad.stderr);
    let good = ask(&["--config", "providers.yaml", "--bin-dir", "providers"]).ran();
    assert_eq!(good.good(), "ann:pass-of-ann\n");
    let good = ask(&[])
        .env("KEYWARD_IMAGE_CONFIG", "providers.yaml")
        .env("KEYWARD_IMAGE_BIN_DIR", stage.path("providers"))
        .ran();
    assert_eq!(good.good(), "ann:pass-of-ann\n");
    assert_eq!(runs(&stage, "one"), 2);
}

#[test]
fn every_problem_of_a_configuration_is_told_with_file_line_and_field() {
    let stage = one();
    let bad = config(&provider("one", "r.io", "  wrong: 1\n").replace("10m", "10d"));
    stage.write("providers.yaml", &bad);
    let ran = stage.run(&format!("{ASK} r.io/a"));
    let said = stage.steady(ran.bad(1));
    assert!(said.contains("has 2 problems"), "{said}");
    assert!(said.contains("`providers[0].defaultCacheDuration`"), "{said}");
    assert!(said.contains("`providers[0].wrong`") && said.contains("line 8"), "{said}");
}

#[test]
fn a_provider_that_hangs_is_ended_at_its_time_limit() {
    let stage = one();
    stage.plugin("one", "sleep 600");
    let ran = stage.run(&format!("{ASK} --plugin-timeout 300ms r.io/a"));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("plugin `one` did not answer within 300ms"), "{}", ran.stderr);
}

#[test]
fn a_program_that_may_not_be_executed_is_named() {
    let stage = one();
    let program = stage.path("bin/one");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = stage.command(format!("{ASK} --bin-dir bin r.io/a").split(' ')).ran();
    assert_eq!(ran.code, Some(1));
    assert!(stage.steady(&ran.stderr).contains("bin/one"), "{}", ran.stderr);
}
