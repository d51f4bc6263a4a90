//! Documents made to take all the memory or time there is: each stays within its budget.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use keyward_protocol::Node;

const MB: usize = 1 << 20;

/// A text of about this size that repeats `part`, in which `#` is a running number.
fn repeat(size: usize, head: &str, part: &str, tail: &str) -> String {
    let mut text = String::with_capacity(size + 100);
    text.push_str(head);
    let (before, after) = part.split_once('#').unwrap_or((part, ""));
    for number in 0.. {
        if text.len() >= size {
            break;
        }
        if part.contains('#') {
            write!(text, "{before}{number}{after}").unwrap();
        } else {
            text.push_str(part);
        }
    }
    text + tail
}

/// Bytes at the highest point while this is read, and what is said of it.
fn measure(text: &str, json: bool) -> (u64, Result<(), String>) {
    let mut result = Ok(());
    let measured = allocation_counter::measure(|| {
        let read = if json {
            Node::from_json_or_yaml_strictly(text.as_bytes()).map(drop)
        } else {
            Node::from_yaml(text.as_bytes()).map(drop)
        };
        result = read.map_err(|error| error.to_string());
    });
    (measured.bytes_max, result)
}

#[test]
fn no_document_takes_more_than_twenty_times_its_size_and_eight_megabytes() {
    // Five hundred levels take more stack in a build without optimisation than a test's thread has.
    let wide = std::thread::Builder::new().stack_size(16 * MB).spawn(read_bombs).unwrap();
    wide.join().unwrap();
}

fn read_bombs() {
    let bombs: &[(&str, &str, &str, &str)] = &[
        ("a flow mapping without values", "x: {", "a,", "b}"),
        ("a flow mapping of many keys without values", "x: {", "k#,", "b}"),
        ("a flow list of words", "x: [", "a,", "b]"),
        ("a flow list of nothing", "x: [", "'',", "b]"),
        ("a flow list of numbers", "x: [", "1,", "2]"),
        ("a flow list of lists", "x: [", "[],", "b]"),
        ("a flow list of mappings", "x: [", "{},", "b]"),
        ("a flow list of pairs", "x: [", "a: b,", "b]"),
        ("a flow list of pairs without values", "x: [", "?,", "b]"),
        ("a flow list of what JSON has no number for", "x: [", ".inf,", "b]"),
        ("a flow mapping of what JSON has no number for", "x: {", "k#: .inf,", "b}"),
        ("faults that are taken away again", "x: {", "k#: .inf,", "k1: 1}"),
        ("a block mapping of short keys", "x:\n", " k#:\n", " b: 1\n"),
        ("a block mapping of one key", "", "a: b\n", ""),
        ("a block list of nothing", "x:\n", "-\n", "- 1\n"),
        ("a block list of words", "x:\n", "- a\n", ""),
        ("a block list of mappings", "x:\n", "- a: 1\n", ""),
        ("many anchors", "x: [", "&a# b,", "b]"),
        ("many anchors of one name", "x: [", "&a b,", "b]"),
        ("many aliases", "x: [&a b,", "*a,", "b]"),
        ("many tags", "x: [", "!!str a,", "b]"),
        ("many long tags", "x: [", "!<tag:yaml.org,2002:str> a,", "b]"),
        ("many directives", "", "%TAG !h#! p\n", "--- a\n"),
        ("many merge keys", "a: &a {b: c}\nx: {", "<<: *a,", "b}"),
        ("merged lists", "a: &a {b: c}\nx: {<<: [", "*a,", "*a]}"),
        ("merged mappings", "x:\n", " - <<: {a#: b}\n", ""),
        ("a long comment", "x: 1 #", "c", "\n"),
        ("many comments", "x: 1\n", "#\n", "y: 1\n"),
        ("one long text", "x: \"", "ab ", "\"\n"),
        ("a text of many lines", "x: |\n", " a\n", ""),
        ("a text with many escapes", "x: \"", "\\x41", "\"\n"),
        ("a plain text of many lines", "x: a\n", "\n a\n", "\n"),
        ("lists in lists", "", "[", ""),
        ("mappings in mappings", "", "{a: ", ""),
        ("keys of keys", "", "? ", ""),
        ("dashes", "", "- ", ""),
        ("many documents", "", "--- a\n", ""),
    ];
    let jsons: &[(&str, &str, &str, &str)] = &[
        ("numbers", "{\"x\":[", "1,", "2]}"),
        ("nulls", "{\"x\":[", "null,", "2]}"),
        ("empty lists", "{\"x\":[", "[],", "2]}"),
        ("empty mappings", "{\"x\":[", "{},", "2]}"),
        ("empty texts", "{\"x\":[", "\"\",", "2]}"),
        ("escaped texts", "{\"x\":[", "\"\\n\",", "2]}"),
        ("one key", "{", "\"\":1,", "\"b\":1}"),
        ("escaped keys", "{", "\"\\n\":1,", "\"b\":1}"),
        ("many keys", "{", "\"k#\":1,", "\"b\":1}"),
        ("mappings of one", "{\"x\":[", "{\"a\":1},", "2]}"),
        ("one long text", "{\"x\":\"", "abc ", "\"}"),
        ("one long text of escapes", "{\"x\":\"", "\\u0041", "\"}"),
        ("lists in lists", "{\"x\":", "[", "}"),
    ];
    let mut refused = 0;
    for size in [MB / 2] {
        for (json, bombs) in [(false, bombs), (true, jsons)] {
            for (what, head, part, tail) in bombs {
                let text = repeat(size, head, part, tail);
                let (bytes, result) = measure(&text, json);
                let limit = (text.len() * 20 + 8 * MB) as u64;
                let times = bytes / text.len() as u64;
                assert!(bytes <= limit, "{what}, JSON {json}: {bytes} bytes, {times} times {size}");
                if let Err(error) = result
                    && error.contains("too complex")
                {
                    refused += 1;
                    assert!(error.contains("(line "), "{what}: {error}");
                    assert!(times >= 8, "{what} is refused at {times} times");
                }
            }
        }
    }
    assert!(refused > 5, "{refused} of them had to be refused");
}

/// As `kubectl config` writes them, and in JSON; entries as short as they get.
#[test]
fn a_kubeconfig_of_ten_thousand_contexts_is_read_whatever_its_style() {
    let (mut block, mut flow, mut json) =
        (String::from("contexts:\n"), String::from("contexts:\n# c\n"), String::new());
    for number in 0..10_000 {
        let name = format!("arn:aws:eks:eu-central-1:{number:012}:cluster/c");
        write!(block, "- context:\n    cluster: {name}\n    user: {name}\n  name: {name}\n")
            .unwrap();
        writeln!(flow, "- {{context: {{cluster: c{number}, user: u{number}}}, name: x{number}}}")
            .unwrap();
        write!(
            json,
            r#",{{"context":{{"cluster":"c{number}","user":"u{number}"}},"name":"x{number}"}}"#
        )
        .unwrap();
    }
    let json = format!("{{\"contexts\":[{}]}}", &json[1..]);
    let commented = format!("# by hand\n{block}");
    for text in [block, flow, json, commented] {
        let node = Node::from_json_or_yaml(text.as_bytes());
        let node = node.unwrap_or_else(|error| panic!("{error}: {}", &text[..200]));
        assert_eq!(node.get("contexts").unwrap().list("x").unwrap().unwrap().len(), 10_000);
    }
}

#[test]
fn a_tab_is_called_a_tab() {
    let error = Node::from_yaml(b"a:\n\tb: c\n").unwrap_err().to_string();
    assert!(error.contains("a tab stands") && error.contains("line 2"), "{error}");
}
