//! Many images in one process: `credentials -`.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{answers, config, one, provider, runs};
use crate::stage::{Run, Stage};

const ASK: [&str; 5] = ["image", "credentials", "--config", "providers.yaml", "-"];

/// A provider for all of `*.io` that holds its first answer back until `$STAGE/go` is there.
fn registries(more: &str) -> Stage {
    let stage = Stage::new();
    let wait = "until [ -e \"$STAGE/go\" ]; do sleep 0.05; done";
    stage.plugin("one", &format!("{wait}\n{}", answers("one", "Registry", "*.io", "ann")));
    stage.write("providers.yaml", &config(&provider("one", "'*.io'", more)));
    stage
}

fn lines(text: &str) -> BTreeMap<String, Value> {
    let parse = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        (value["image"].as_str().unwrap().to_owned(), value)
    };
    text.lines().map(parse).collect()
}

#[test]
fn fifty_images_of_one_registry_are_one_run_once_it_answered_registry() {
    let stage = registries("");
    let mut child =
        stage.command(ASK).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    stage.write("go", "");
    writeln!(stdin, "other.io/first").unwrap();
    let first = stdout.next().unwrap().unwrap();
    assert!(first.contains("\"username\":\"ann\""), "{first}");
    fs::remove_file(stage.path("go")).unwrap();
    for number in 0..50 {
        writeln!(stdin, "r.io/image-{number}").unwrap();
    }
    stage.write("go", "");
    for _ in 0..50 {
        let line = stdout.next().unwrap().unwrap();
        assert!(line.contains("\"username\":\"ann\""), "{line}");
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(runs(&stage, "one"), 2, "one to learn from, one for fifty images");
}

#[test]
fn a_thousand_images_over_ten_registries_are_ten_runs() {
    let stage = registries("  env: [{name: KEYWARD_CACHE_KEY_TYPE, value: Registry}]\n");
    stage.write("go", "");
    let images: Vec<String> = (0..1000).map(|n| format!("r{}.io/image-{n}\n", n % 10)).collect();
    let images = images.concat();
    let ran = stage.command(ASK).ran_with(&images);
    let answers = lines(ran.good());
    assert_eq!(answers.len(), 1000);
    for (image, answer) in &answers {
        assert_eq!(answer["logins"][0]["username"], "ann", "{image}");
    }
    assert_eq!(runs(&stage, "one"), 10);
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_line_that_is_no_image_has_an_answer_too_and_stops_nobody() {
    let stage = one();
    let ran = stage.command(ASK).ran_with("r.io/a\n\n  Not An Image\ns.io/b\n");
    let answers = lines(ran.good());
    assert_eq!(answers.len(), 3, "{answers:#?}");
    assert_eq!(answers["r.io/a"]["logins"][0]["password"], "pass-of-ann");
    let error = answers["Not An Image"]["error"]["message"].as_str().unwrap();
    assert!(error.contains("cannot be pulled"), "{error}");
    assert_eq!(answers["s.io/b"]["logins"], Value::Array(Vec::new()));
}

#[test]
fn a_slow_provider_does_not_hold_up_the_images_of_others() {
    let stage = Stage::new();
    let wait = "until [ -e \"$STAGE/go\" ]; do sleep 0.05; done";
    stage.plugin("slow", &format!("{wait}\n{}", answers("slow", "Image", "s.io", "sam")));
    stage.plugin("fast", &answers("fast", "Image", "f.io", "fay"));
    let entries = [provider("slow", "s.io", ""), provider("fast", "f.io", "")];
    stage.write("providers.yaml", &config(&entries.concat()));
    let mut child =
        stage.command(ASK).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    write!(stdin, "s.io/a\nf.io/b\n").unwrap();
    assert!(stdout.next().unwrap().unwrap().contains("fay"), "the later one comes first");
    stage.write("go", "");
    assert!(stdout.next().unwrap().unwrap().contains("sam"));
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_changed_configuration_is_picked_up_by_the_running_program() {
    let stage = one();
    stage.plugin("two", &answers("two", "Image", "s.io", "bob"));
    let mut child =
        stage.command(ASK).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ask = |image: &str| {
        writeln!(stdin, "{image}").unwrap();
        stdout.next().unwrap().unwrap()
    };
    assert!(ask("r.io/a").contains("ann"));
    assert!(!ask("s.io/a").contains("bob"));
    // The files are looked at once in a second, so more than one must have passed; then the first
    // answer is by what stands there.
    let a_while_later = || thread::sleep(Duration::from_millis(1500));
    stage.write("providers.yaml", &config(&provider("two", "s.io", "")));
    a_while_later();
    assert!(ask("s.io/a").contains("bob"), "written in place");
    assert!(!ask("r.io/a").contains("ann"), "switched off");
    fs::remove_file(stage.path("providers.yaml")).unwrap();
    a_while_later();
    assert!(!ask("s.io/a").contains("bob"), "removed");
    stage.write("providers.yaml", &config(&provider("one", "r.io", "")));
    a_while_later();
    assert!(ask("r.io/a").contains("ann"), "and back on");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_dash_stands_alone() {
    let stage = one();
    for words in ["- r.io/a", "-o basic -"] {
        let ran = stage.run(&format!("image credentials --config providers.yaml {words}"));
        assert!(ran.bad(2).contains("`-` must be the only image"), "{}", ran.stderr);
    }
}
