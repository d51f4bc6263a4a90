#![allow(clippy::unwrap_used)]

use super::*;

fn printed(text: &str) -> String {
    Url::parse(text).unwrap().text()
}

#[test]
fn a_password_is_known_in_both_its_forms() {
    let forms = |address| {
        passwords(address).iter().map(|form| form.expose().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(forms("http://ann:a%40b:c@h:1/x@y"), ["a%40b:c", "a@b:c"]);
    assert_eq!(forms("http://ann:%zz@h"), ["%zz"]);
    assert_eq!(forms("http://ann:hunter2/x@h"), ["hunter2/x"]);
    for none in ["http://ann@h", "http://h/a:b@c", "h:1", ""] {
        assert_eq!(forms(none), [""; 0], "{none}");
    }
}

#[test]
fn scheme_is_lowered_and_path_kept() {
    assert_eq!(printed("HTTPS://Proxy:12345/a%2fb"), "https://Proxy:12345/a%2fb");
    assert_eq!(printed("http://h/a b"), "http://h/a%20b");
    assert_eq!(printed("http://h?x#a%20b\u{e9}"), "http://h?x#a%20b%C3%A9");
}

#[test]
fn a_relative_reference_is_a_url_too() {
    assert_eq!(printed("proxy"), "proxy");
    assert_eq!(printed(""), "");
    assert_eq!(printed("//h/x"), "//h/x");
    assert_eq!(printed("a?"), "a?");
    assert_eq!(printed("file:/x"), "file:/x");
    assert_eq!(printed("file:///x"), "file:///x");
    assert_eq!(printed("localhost:3128"), "localhost:3128");
}

#[test]
fn user_and_password_are_unescaped_and_hidden() {
    let url = Url::parse("socks5://me:p%40ss@h:1").unwrap();
    assert_eq!(url.user().unwrap().name, "me");
    assert_eq!(url.user().unwrap().password, Some(Secret::new("p@ss")));
    assert_eq!(url.text(), "socks5://me:p%40ss@h:1");
    assert_eq!(format!("{url:?}"), "socks5://me:xxxxx@h:1");
}

#[test]
fn a_password_is_masked_even_in_what_is_no_url() {
    for text in [
        "http://u:hunter2@p:1",
        "u:hunter2@p",
        "http://u:hunter2@p:x/",
        "https://u:1/hunter2@p:1/x",
        "https://u:x/hunter2@p:1/x",
        "https://u:1?hunter2@p",
        "https://u:1#hunter2@p",
        "https://u@x:1/hunter2@p",
        "https://hunter2@p",
        "//u:1/hunter2@p",
    ] {
        let shown = mask(text);
        assert!(!shown.contains("hunter2") && shown.contains('p'), "{text}: {shown}");
    }
    for text in ["https://h:1/p", "https://h/a@b", "https://h/?a=b@c", "h:1", "", "@"] {
        let shown = mask(text);
        assert!(shown == text || text == "@", "{text}: {shown}");
    }
    assert_eq!(mask("https://u:1/hunter2@p:1/x"), "https://xxxxx@p:1/x");
}

#[test]
fn a_request_has_no_fragment_and_no_relative_path() {
    let mut url = Url::parse_request("https://h/p#f?x=1").unwrap();
    url.clear_query();
    assert_eq!(url.text(), "https://h/p%23f");
    for text in ["", "h", "a/b"] {
        assert!(Url::parse_request(text).is_err(), "{text:?}");
    }
    assert_eq!(Url::parse_request("//h/p").unwrap().host(), None);
}

#[test]
fn host_and_port_come_apart() {
    let url = Url::parse("https://[fe80::1%25en0]:6443").unwrap();
    assert_eq!((url.host(), url.port()), (Some("fe80::1%en0"), Some(6443)));
    let url = Url::parse("https://example.com").unwrap();
    assert_eq!((url.host(), url.port(), url.has_port()), (Some("example.com"), None, false));
    for (text, named) in
        [("https://h:", false), ("https://h:99999", true), ("https://[::1]", false)]
    {
        let url = Url::parse(text).unwrap();
        assert_eq!((url.port(), url.has_port()), (None, named), "{text}");
    }
}

#[test]
fn faults_are_named_without_the_text() {
    for text in [
        "invalid- url\n",
        ":x",
        "http://h:port",
        "http://a:1:2",
        "http://[1.2.3.4]",
        "http://[::1",
        "http://h%41",
        "http://us er@h",
        "http://h/%zz",
        "1a:b/c",
        "http://a b",
    ] {
        let error = Url::parse(text).expect_err(text);
        assert!(error.to_string().starts_with("not a URL: "), "{error}");
    }
}
