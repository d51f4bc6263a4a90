#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;

use super::*;

fn yaml(text: &str) -> String {
    match Node::from_yaml(text.as_bytes()) {
        Ok(node) => node.to_json(),
        Err(error) => format!("error: {error}"),
    }
}

fn json(text: &str) -> String {
    match Node::from_json(text.as_bytes()) {
        Ok(node) => node.to_json(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn plain_scalars_are_what_yaml_1_1_says() {
    for (text, expected) in [
        ("yes", "true"),
        ("Off", "false"),
        ("y", "true"),
        ("~", "null"),
        ("", "null"),
        ("nUll", "\"nUll\""),
        ("010", "8"),
        ("0o17", "15"),
        ("0x1F", "31"),
        ("-0b11", "-3"),
        ("0b-11", "-3"),
        ("1_000", "1000"),
        ("08", "8"),
        ("+12", "12"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "18446744073709552000"),
        ("-9223372036854775809", "-9223372036854776000"),
        ("1e3", "1000"),
        ("1e400", "\"1e400\""),
        (".5", "0.5"),
        (".1_0", "0.1"),
        (".5_", "\".5_\""),
        ("1.2.3", "\"1.2.3\""),
        ("12:30:45", "\"12:30:45\""),
        ("2001-01-01", "\"2001-01-01\""),
        ("'yes'", "\"yes\""),
        ("!!str yes", "\"yes\""),
        ("!!int '7'", "7"),
        ("!!float 7", "7"),
        ("!mine 7", "\"7\""),
        ("!!binary aGk=", "\"hi\""),
        ("<<", r#""\u003c\u003c""#),
    ] {
        assert_eq!(yaml(text), expected, "{text}");
    }
}

#[test]
fn a_wrong_tag_is_an_error() {
    for text in ["!!int x", "!!bool 1", "!!null x", "!!float x", "!!binary '?'", "!!timestamp x"] {
        assert!(yaml(text).starts_with("error: tagged"), "{text}");
    }
}

#[test]
fn keys_become_texts_sorted() {
    assert_eq!(
        yaml("b: 1\n7: 2\nyes: 3\n1.5: 4\n1000000.0: 5"),
        r#"{"1.5":4,"1e+06":5,"7":2,"b":1,"true":3}"#
    );
}

#[test]
fn the_last_duplicate_wins_even_over_what_json_cannot_have() {
    assert_eq!(yaml("a: 1\na: {b: .nan}\na: 2"), r#"{"a":2}"#);
    assert!(yaml("a: {~: 1}").starts_with("error: this cannot be a key"));
    assert!(yaml("a: .inf").starts_with("error: this number"));
}

#[test]
fn merge_keys_act_where_they_stand() {
    let base = "x: &x {a: 1, b: 2}\nw: &w {a: 3}\n";
    assert_eq!(
        yaml(&format!("{base}z: {{a: 0, <<: *x}}")),
        r#"{"w":{"a":3},"x":{"a":1,"b":2},"z":{"a":1,"b":2}}"#
    );
    assert_eq!(
        yaml(&format!("{base}z: {{<<: [*w, *x], b: 9}}")),
        r#"{"w":{"a":3},"x":{"a":1,"b":2},"z":{"a":3,"b":9}}"#
    );
    assert!(yaml("a: {<<: 1}").starts_with("error: `<<` needs"));
}

#[test]
fn an_alias_must_have_an_anchor_that_does_not_contain_it() {
    assert!(yaml("a: *x").starts_with("error: an alias has no anchor"));
    assert!(yaml("&a [*a]").starts_with("error: an anchor contains its own alias"));
    assert!(yaml("&a {b: *a}").starts_with("error: an anchor contains its own alias"));
}

#[test]
fn aliases_of_aliases_do_not_explode() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..10 {
        let alias = format!("*a{}", level - 1);
        let ten = [alias.as_str(); 10].join(",");
        let _ = writeln!(text, "a{level}: &a{level} [{ten}]");
    }
    assert!(yaml(&text).starts_with("error: aliases make the document too large"));
}

#[test]
fn only_the_first_document_counts() {
    assert_eq!(yaml("a: 1\n---\n{ no"), r#"{"a":1}"#);
    assert_eq!(yaml("\u{feff}a: 1\r\n"), r#"{"a":1}"#);
    assert_eq!(yaml("# nothing\n"), "null");
}

#[test]
fn an_early_end_is_an_end_and_never_a_panic() {
    assert_eq!(yaml("a: |\n  x\n  y"), r#"{"a":"x\ny"}"#);
    assert_eq!(yaml("a: >-\n  x\n  y"), r#"{"a":"x y"}"#);
    assert_eq!(yaml("a: |+\n  x\n\n"), r#"{"a":"x\n\n"}"#);
    for text in
        ["a: \"", "a: \"\\", "a: \"\\x4", "a: '", "a: &", "!<", "%", "%TAG !", "{", "[a", "? "]
    {
        let whole = yaml(text);
        assert!(whole.starts_with("error") || whole.starts_with('{'), "{text}: {whole}");
    }
}

#[test]
fn flow_is_read_with_the_reference_s_own_habits() {
    assert_eq!(yaml("{a: 1.5f:}"), r#"{"a":"1.5f:"}"#);
    assert_eq!(yaml("[a: b, ? c, {d}]"), r#"[{"a":"b"},{"c":null},{"d":null}]"#);
    assert_eq!(yaml("{a:b, \"c\":d}"), r#"{"a:b":null,"c":"d"}"#);
    // Nobody waits to see whether an empty mapping is a key; so the document ends with it.
    assert_eq!(yaml("{}: b, c: d"), "{}");
    assert!(yaml("{a: f? }").starts_with("error"));
}

#[test]
fn a_bad_byte_after_the_document_is_noticed_only_if_it_is_near() {
    let near = "a: 1\n---\nb: \u{1}";
    assert!(yaml(near).starts_with("error: a control character"));
    let far = format!("a: 1\n---\n#{}\u{1}", "x".repeat(600));
    assert_eq!(yaml(&far), r#"{"a":1}"#);
}

#[test]
fn utf_16_is_read_by_its_byte_order_mark() {
    let bytes = |order: fn(u16) -> [u8; 2]| {
        "\u{feff}a: é😀".encode_utf16().flat_map(order).collect::<Vec<u8>>()
    };
    for text in [bytes(u16::to_le_bytes), bytes(u16::to_be_bytes)] {
        assert_eq!(Node::from_yaml(&text).unwrap().to_json(), r#"{"a":"é😀"}"#);
    }
}

#[test]
fn a_second_byte_order_mark_takes_a_character_from_every_line_as_in_the_reference() {
    assert_eq!(yaml("\u{feff}ab: 1\ncd: 2\n"), r#"{"ab":1,"cd":2}"#);
    assert!(yaml("\u{feff}\u{feff}n:\nki").starts_with("error"));
    let twice = "\u{feff}\u{feff}ab: 1\ncd: \"x\n y\"\nef: 3 # more\n";
    assert_eq!(yaml(twice), r#"{"ab":1,"d":"x y","f":3}"#);
    assert_eq!(yaml("\u{feff}\u{feff}"), "null");
    let wide: Vec<u8> = twice.encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(Node::from_yaml(&wide).unwrap().to_json(), r#"{"ab":1,"d":"x y","f":3}"#);
    // Elsewhere it is a character like others, unless the reference's buffer happens to start there.
    assert_eq!(yaml("a: 1\n\u{feff}b: 2\n"), "{\"a\":1,\"\u{feff}b\":2}");
    let comment = |width| format!("#{}\u{feff}\nab: 1\ncd: 2 # more\n", "x".repeat(width));
    assert_eq!(yaml(&comment(512)), r#"{"ab":1,"cd":2}"#);
    assert_eq!(yaml(&comment(511)), r#"{"b":1,"d":2}"#);
}

#[test]
fn a_syntax_error_tells_the_place() {
    assert!(yaml("a:\n\tb: 1").contains("line 2, column 1"));
    assert!(
        yaml("a: 1\nb: \u{1}")
            .contains("control character stands in the document (line 2, column 4)")
    );
    let error = Node::from_yaml(b"a: 1\n\nb: \xff").unwrap_err();
    assert_eq!((error.line, error.column), (3, 4));
    assert_eq!(
        json("{\"a\": 1,\n \"é\": x}"),
        "error: a value was expected here (line 2, column 7)"
    );
}

#[test]
fn json_keeps_order_duplicates_and_spelling_of_numbers() {
    assert_eq!(
        json("{\"b\": 1.0, \"a\": [1e2, -0, {}], \"b\": null} \n"),
        r#"{"b":1.0,"a":[1e2,-0,{}],"b":null}"#
    );
    let node = Node::from_json(br#"{"b": 1, "b": true}"#).unwrap();
    assert_eq!(node.get("b").unwrap().bool("b"), Ok(Some(true)));
}

#[test]
fn json_texts_keep_their_spelling() {
    let text = r#"{"\u00e9\/":"a\/<\u003C\n"}"#;
    assert_eq!(json(text), r#"{"\u00e9\/":"a\/\u003c\u003C\n"}"#);
}

#[test]
fn json_texts_are_read_as_go_does() {
    let text = |bytes: &[u8]| Node::from_json(bytes).unwrap().text("").unwrap().unwrap().to_owned();
    assert_eq!(text(br#""\ud83d\ude00\u00e9\/\n""#), "😀é/\n");
    assert_eq!(text(br#""\ud800x\udc00\ud800\u0041""#), "\u{fffd}x\u{fffd}\u{fffd}A");
    assert_eq!(text(b"\"\xe2\x82x\xff\""), "\u{fffd}\u{fffd}x\u{fffd}");
}

#[test]
fn json_is_strict() {
    for text in [
        "",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "01",
        "1.",
        "1e",
        "-",
        "tru",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "{} x",
        "{\"a\" 1}",
        "\u{feff}{}",
        "\"a",
        "[1 2]",
        "+1",
        ".5",
    ] {
        assert!(json(text).starts_with("error"), "{text}");
    }
}

#[test]
fn what_nests_too_deeply_is_refused_and_what_nearly_does_is_not() {
    let nest = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for read in [json, yaml] {
        assert_eq!(read(&nest(MAX_DEPTH - 1)), nest(MAX_DEPTH - 1));
        assert!(read(&nest(MAX_DEPTH + 1)).starts_with("error: nested too deeply"));
        assert!(read(&"[".repeat(300_000)).starts_with("error: nested too deeply"));
    }
    let mut chain = "a0: &a0 [x]\n".to_owned();
    for level in 1..=MAX_DEPTH {
        let _ = writeln!(chain, "a{level}: &a{level} [*a{}]", level - 1);
    }
    let error = yaml(&chain);
    assert!(error.starts_with("error: nested") || error.starts_with("error: aliases"), "{error}");
}

#[test]
fn a_brace_after_unicode_blanks_means_json() {
    assert!(looks_like_json("\u{a0}\u{2003} {".as_bytes()));
    assert!(!looks_like_json(b"\xef\xbb\xbf{"));
    assert!(!looks_like_json(b" \xff{"));
    assert!(!looks_like_json(b""));
}

#[test]
fn a_view_of_the_wrong_type_names_field_and_place_but_not_the_value() {
    let node = Node::from_yaml(b"user:\n  token: 12345").unwrap();
    let token = node.get("user").unwrap().get("token").unwrap();
    let error = token.text("users[0].user.token").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`users[0].user.token` must be a text, not a number (quotes are missing) (line 2, column 10)"
    );
}

#[test]
fn an_end_that_comes_too_early_is_inside_of_the_text() {
    for (text, place) in [
        ("[", (1, 2)),
        ("a: [1,", (1, 7)),
        ("a: {\r\n  b", (2, 4)),
        ("a: [\n", (2, 1)),
        ("\u{2028}[", (2, 2)),
    ] {
        let error = Node::from_yaml(text.as_bytes()).unwrap_err();
        assert_eq!((error.line, error.column), place, "{text:?}: {error}");
    }
}

#[test]
fn repeated_keys_are_told_with_both_lines() {
    let repeats = |text: &str| {
        let (_, repeats) = Node::from_json_or_yaml_strictly(text.as_bytes()).unwrap();
        repeats.into_iter().map(|r| (r.key, r.first, r.line)).collect::<Vec<_>>()
    };
    assert_eq!(repeats("a: 1\nb:\n  c: 1\n  c: 2\na: 3"), [("c".into(), 3, 4), ("a".into(), 1, 5)]);
    assert_eq!(repeats("{\"a\":1,\n\"b\":[{\"c\":1,\"c\":2}]}"), [("c".into(), 2, 2)]);
    assert_eq!(repeats("x: &x {k: 1}\ny:\n  <<: *x\n  k: 2"), [("k".into(), 1, 4)]);
    assert_eq!(repeats("a: 1\nb: 1"), []);
}

/// The bytes of the node at `path`.
fn written<'a>(document: &'a str, path: &[&str]) -> &'a str {
    let layout = Layout::of(document.as_bytes()).unwrap().unwrap();
    let place = path.iter().fold(layout.root(), |place, key| {
        let place = layout.follow(place);
        match key.parse::<usize>() {
            Ok(index) => layout.items(place).unwrap()[index],
            Err(_) => layout.entry(place, key).unwrap().1,
        }
    });
    &document[layout.span(place)]
}

#[test]
fn a_layout_knows_the_bytes_of_every_style() {
    let document = "\u{feff}# é\na: plain text   # comment\r\nb: 'single ''q'\nc: &x !!str \"dou\\\"ble\"\n\
        d:\n- one\n-   two  \ne: [1, {k: v}, 'x']  # end\nf: >-\n  folded\n  text\n\ng: *x\nh:\ni: two\n  lines\n";
    for (path, expected) in [
        (&["a"][..], "plain text"),
        (&["b"], "'single ''q'"),
        (&["c"], "\"dou\\\"ble\""),
        (&["d"], "- one\n-   two"),
        (&["d", "1"], "two"),
        (&["e"], "[1, {k: v}, 'x']"),
        (&["e", "1", "k"], "v"),
        (&["e", "2"], "'x'"),
        (&["f"], ">-\n  folded\n  text"),
        (&["g"], ""),
        (&["h"], ""),
        (&["i"], "two\n  lines"),
    ] {
        assert_eq!(written(document, path), expected, "{path:?}");
    }
}

#[test]
fn a_layout_knows_the_bytes_of_json() {
    let document =
        "\n{\"é\": [\"a\\\"b\", 1.5,null ,true], \"k\" :{\"x\":\"\\\\\"}, \"k\": \"last\"}";
    for (path, expected) in [
        (&["é", "0"][..], "\"a\\\"b\""),
        (&["é", "1"], "1.5"),
        (&["é", "2"], "null"),
        (&["é", "3"], "true"),
        (&["k"], "\"last\""),
    ] {
        assert_eq!(written(document, path), expected, "{path:?}");
    }
}

#[test]
fn a_layout_knows_where_a_key_stands_and_the_last_of_two() {
    let document = "a: 1\n\"b\":\n  c: 2\n  ? d\n  : 3\nb: {c: 4}\n";
    let layout = Layout::of(document.as_bytes()).unwrap().unwrap();
    let (key, value) = layout.entry(layout.root(), "b").unwrap();
    assert_eq!(&document[layout.span(key)], "b");
    assert_eq!(&document[layout.span(value)], "{c: 4}");
    assert_eq!(layout.line(key), 6);
}
