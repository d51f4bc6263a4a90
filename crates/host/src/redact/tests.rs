use std::fmt::Write as _;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD},
};

use super::*;

/// A redactor that knows these.
fn knowing(secrets: &[&str]) -> Redactor {
    let mut redactor = Redactor::default();
    for secret in secrets {
        redactor.add(secret);
    }
    redactor
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a text");
        out
    })
}

#[test]
fn known_secrets_are_hidden_the_longer_first() {
    let redactor = knowing(&["token", "token-and-more"]);
    assert_eq!(redactor.apply(b"a token-and-more b token c"), "a [hidden] b [hidden] c");
}

#[test]
fn a_secret_is_hidden_in_every_form_that_programs_give_it() {
    const TOKEN: &str = "k8s-aws-v1.aHR0cHM6?x=\"1\"&s>tail/õ";
    let redactor = knowing(&[TOKEN]);
    let percent = |upper: bool| {
        TOKEN.bytes().fold(String::new(), |mut out, byte| {
            match (byte.is_ascii_alphanumeric(), upper) {
                (true, _) => out.push(char::from(byte)),
                (_, true) => write!(out, "%{byte:02X}").expect("a text"),
                (_, false) => write!(out, "%{byte:02x}").expect("a text"),
            }
            out
        })
    };
    let wrapped =
        STANDARD.encode(TOKEN).as_bytes().chunks(16).fold(String::new(), |out, line| {
            out + std::str::from_utf8(line).expect("ASCII") + "\n"
        });
    for form in [
        TOKEN.to_owned(),
        STANDARD.encode(TOKEN),
        URL_SAFE.encode(TOKEN),
        URL_SAFE_NO_PAD.encode(TOKEN),
        wrapped,
        STANDARD.encode(STANDARD.encode(TOKEN)),
        STANDARD.encode(format!("{{\"auth\":\"{}\"}}", STANDARD.encode(format!("me:{TOKEN}")))),
        hex(TOKEN),
        hex(TOKEN).to_uppercase(),
        percent(true),
        percent(false),
        TOKEN.replace('"', "\\\""),
        TOKEN.replace('"', "\\u0022").replace('&', "\\u0026").replace('>', "\\u003e"),
        format!("{}\n{}", &TOKEN[..14], &TOKEN[14..]),
        format!("{}\u{1b}[1m{}", &TOKEN[..14], &TOKEN[14..]),
    ] {
        for (before, after) in [("", ""), ("failed with ", " today"), ("x=", "\n"), ("(/a/", ")")] {
            let shown = redactor.apply(format!("{before}{form}{after}").as_bytes());
            let rest = shown.trim().trim_end_matches('=');
            let wanted = format!("{before}{HIDDEN}{}", after.trim_end());
            let wanted = wanted.trim_start_matches(' ').to_owned();
            let close = rest.contains(HIDDEN) && rest.len() <= wanted.len() + 24;
            assert!(close, "{form:?} in {before:?}…{after:?} is shown as {shown:?}");
        }
    }
}

#[test]
fn a_secret_inside_of_something_that_was_encoded_as_a_whole_is_hidden() {
    let redactor = knowing(&["hunter2-hunter2"]);
    for name in ["a", "bc", "def"] {
        let shown = redactor.apply(STANDARD.encode(format!("{name}:hunter2-hunter2!")).as_bytes());
        assert!(shown.contains(HIDDEN) && shown.len() < 18, "{shown}");
    }
}

#[test]
fn ordinary_words_stay_as_they_are() {
    let redactor = knowing(&["aGVsbG8gd29ybGQ-and-so-on", "prod", "0123456789abcdef"]);
    let text = "error: no session for profile default in eu-central-1, 100 % sure (C:\\new\\x)\n";
    assert_eq!(redactor.apply(text.as_bytes()), text);
    let apart = "the pr od 01234567 89abcde\n";
    assert_eq!(redactor.apply(apart.as_bytes()), apart);
}

#[test]
fn a_key_is_hidden_by_lines_by_other_lines_and_without_its_frame() {
    let bytes: Vec<u8> = (0..200_u8).map(|byte| byte.wrapping_mul(37) ^ 0x5a).collect();
    let body = STANDARD.encode(&bytes);
    let wrap = |width: usize| {
        let lines = body.as_bytes().chunks(width).map(|l| std::str::from_utf8(l).expect("ASCII"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", wrap(64));
    let redactor = knowing(&[&pem]);
    let in_hex = bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02X}").expect("a text");
        out
    });
    let line = body[64..128].to_owned();
    for shown in [wrap(64), wrap(76), wrap(4096), in_hex, line, STANDARD.encode(&pem)] {
        let hidden = redactor.apply(shown.as_bytes());
        let left = hidden.replace(HIDDEN, "");
        // The ends of what was encoded with the frame around it may be left, and the frame itself.
        assert!(left.len() < shown.len() / 4 && hidden.contains(HIDDEN), "{shown}\n{hidden}");
    }
    assert_eq!(redactor.apply(b"-----BEGIN CERTIFICATE-----"), "-----BEGIN CERTIFICATE-----");
}

#[test]
fn what_looks_like_a_secret_is_hidden() {
    let shown = |text: &str| Redactor::default().apply(text.as_bytes());
    assert_eq!(shown("got eyJhbGciOi.eyJzdWIi.c2ln!"), "got eyJhbGciOi.eyJzdWIi.c2ln!");
    assert_eq!(shown("got eyJhbGciOi.eyJzdWIi.c2ln, ok"), "got [hidden], ok");
    assert_eq!(shown("id_token=eyJhbGciOi.eyJzdWIi.c2ln"), "id_token=[hidden]");
    assert_eq!(shown("Authorization: Bearer abcdef\nnext"), "Authorization: Bearer [hidden]\nnext");
    assert_eq!(
        shown("x\n-----BEGIN EC PRIVATE KEY-----\nMIIabc\n-----END EC PRIVATE KEY-----\ny"),
        "x\n[hidden]\ny"
    );
    assert_eq!(shown("cannot reach https://u:hunter2@h:1/x"), "cannot reach https://u:xxxxx@h:1/x");
}

#[test]
fn the_end_of_a_key_is_hidden_even_if_its_beginning_is_gone() {
    assert_eq!(
        Redactor::default().apply(b"MIIabc\nMIIdef\n-----END EC PRIVATE KEY-----\nno session\n"),
        "[hidden]\nno session\n"
    );
}

#[test]
fn the_rest_of_a_cut_line_is_dropped() {
    assert_eq!(without_first_line(b"ret key\nnext\nlast"), b"next\nlast");
    assert_eq!(without_first_line(b"ret and more"), b"and more");
    assert_eq!(without_first_line(b"ret"), b"");
}

#[test]
fn a_secret_with_a_control_character_is_hidden() {
    assert_eq!(knowing(&["pass\u{1b}word"]).apply(b"it is pass\x1bword"), "it is [hidden]");
}

#[test]
fn words_of_the_answer_are_hidden() {
    let mut redactor = Redactor::default();
    redactor.add_answer(
        br#"{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"opaque-token-1"}}"#,
    );
    assert_eq!(
        redactor.apply(b"client.authentication.k8s.io/v1 says opaque-token-1"),
        "client.authentication.k8s.io/v1 says [hidden]"
    );
}

#[test]
fn secret_arguments_are_hidden_however_they_are_given() {
    for (args, secret) in [
        (vec!["--client-secret=abcd"], "abcd"),
        (vec!["--token", "efgh"], "efgh"),
        (vec!["-p", "hunter2"], "hunter2"),
        (vec!["-phunter2"], "hunter2"),
        (vec!["--pass", "hunter2"], "hunter2"),
        (vec!["--pwd=hunter2"], "hunter2"),
        (vec!["-u", "ann:hunter2"], "hunter2"),
        (vec!["https://ann:hunter2@h/x"], "hunter2"),
        (vec!["--url=https://ann:hunter2@h/x"], "hunter2"),
        (vec!["-H", "Authorization: Bearer hunter2"], "hunter2"),
    ] {
        let mut redactor = Redactor::default();
        redactor.add_args(&args.iter().map(ToString::to_string).collect::<Vec<_>>());
        let shown = redactor.apply(format!("it is {secret} in prod").as_bytes());
        assert_eq!(shown, "it is [hidden] in prod", "{args:?}");
    }
    let mut redactor = Redactor::default();
    redactor.add_args(&["eks".into(), "-profile".into(), "prod".into(), "--region".into()]);
    assert_eq!(redactor.apply(b"rofile prod"), "rofile prod");
}

#[test]
fn inherited_variables_are_hidden_by_their_names_and_passwords_of_urls_always() {
    for (name, value, told) in [
        ("GITHUB_PAT", "ghp_0123456789", "ghp_0123456789"),
        ("MYCRED", "hunter2!", "hunter2!"),
        ("NPM_AUTH", "bnBtOnNlY3JldA", "bnBtOnNlY3JldA"),
        ("DATABASE_URL", "postgres://ann:hunter2@db/x", "hunter2"),
        ("SESSION_TOKEN", "abcd", "abcd"),
        ("DB_PWD", "hunter22", "hunter22"),
    ] {
        let mut redactor = Redactor::default();
        redactor.add_inherited(name, value);
        for told in [told.to_owned(), STANDARD.encode(told), hex(told)] {
            let shown = redactor.apply(format!("< {told} >").as_bytes());
            assert_eq!(shown.trim_end_matches(" >").trim_end_matches('='), "< [hidden]", "{name}");
        }
    }
    let mut redactor = Redactor::default();
    redactor.add_inherited("SSH_AUTH_SOCK", "/run/user/1000/agent");
    redactor.add_inherited("AUTH_MODE", "oidc");
    redactor.add_inherited("PATH", "/usr/bin:/bin");
    assert_eq!(
        redactor.apply(b"/run/user/1000/agent oidc /usr/bin:/bin"),
        "/run/user/1000/agent oidc /usr/bin:/bin"
    );
}

#[test]
fn control_characters_are_named() {
    assert_eq!(Redactor::default().apply(b"\x1b[31mred\n"), "U+001B[31mred\n");
}

#[test]
fn what_the_process_knows_is_hidden_everywhere() {
    assert_eq!(redact("it is s3cr3t-of-the-process"), "it is s3cr3t-of-the-process");
    remember(&Secret::new("s3cr3t-of-the-process"), Some(Duration::ZERO));
    assert_eq!(redact("it is s3cr3t-of-the-process"), "it is [hidden]");
    assert_eq!(Redactor::default().apply(b"it is s3cr3t-of-the-process"), "it is [hidden]");
    remember_value(&Secret::new("region1"));
    assert_eq!(redact("in region1"), "in region1");
}

#[test]
fn a_text_of_three_letters_is_left_alone() {
    assert_eq!(knowing(&["abc"]).apply(b"abc"), "abc");
}

#[test]
fn secrets_are_forgotten_after_their_time_and_the_number_is_bounded() {
    let second = Duration::from_secs(1);
    let mut known = Known::default();
    known.add(&Secret::new("short-lived"), Some(second), Duration::ZERO);
    known.add(&Secret::new("for-good"), None, Duration::ZERO);
    known.add(&Secret::new("another"), None, 2 * second);
    assert_eq!(known.len(), 2);
    assert_eq!(views::hide("short-lived for-good", &[&known]), "short-lived [hidden]");
    // Known again for longer.
    known.add(&Secret::new("renewed"), Some(3 * second), 2 * second);
    known.add(&Secret::new("renewed"), Some(9 * second), 2 * second);
    known.add(&Secret::new("one more"), None, 5 * second);
    assert_eq!(views::hide("renewed", &[&known]), HIDDEN);
    for number in 0..25_000 {
        known.add(&Secret::new(format!("secret-{number}-")), Some(100 * second), 5 * second);
    }
    assert!(known.len() <= 20_000, "{}", known.len());
    assert_eq!(views::hide("for-good secret-24999-", &[&known]), "[hidden] [hidden]");
    let large = "x".repeat(17 << 20);
    known.add(&Secret::new(format!("1{large}")), None, 5 * second);
    known.add(&Secret::new(format!("2{large}")), None, 5 * second);
    assert_eq!(known.at(format!("1{large}").as_bytes(), 0), None);
    assert_eq!(known.at(format!("2{large}").as_bytes(), 0), Some(large.len() + 1));
}
