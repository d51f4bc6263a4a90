//! A token that the server takes no longer is renewed on the way; the client sees none of it.

use std::fmt::Write as _;

use keyward_testing::{
    script::Script,
    server::{Server, User},
};

use crate::{
    stage::{Proxy, Stage},
    upstream::Upstream,
    wire::Card,
};

/// More than is kept of a body for a second sending.
const LONG: usize = 300 * 1024;

/// A server that reads all of a request before it refuses it, and takes the token `one`, which the
/// proxy has used already.
fn began() -> (Upstream, Script, Stage, Proxy) {
    let script = Script::new();
    script.answer(Some("one"), None);
    let upstream = Upstream::of(&script.user());
    upstream.accept("one");
    let stage = Stage::new();
    stage.write("config", &upstream.kubeconfig);
    let proxy = stage.proxy(&[]);
    let card = Card::read(&proxy.kubeconfig, 0);
    assert!(card.get("/", "").starts_with("HTTP/1.1 200 "));
    upstream.take();
    (upstream, script, stage, proxy)
}

fn post(proxy: &Proxy, body: &[u8]) -> String {
    let card = Card::read(&proxy.kubeconfig, 0);
    let mut text = format!(
        "POST /things HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        card.address
    );
    for piece in body.chunks(10_000) {
        let _ = write!(text, "{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece));
    }
    text.push_str("0\r\n\r\n");
    card.say(&text).unwrap()
}

#[test]
fn contexts_of_one_user_share_its_credential() {
    let script = Script::new();
    script.answer(Some("one"), None);
    let upstream = Upstream::of(&script.user());
    let mut config: serde_json::Value = serde_json::from_str(&upstream.kubeconfig).unwrap();
    let mut second = config["contexts"][0].clone();
    second["name"] = "second".into();
    config["contexts"].as_array_mut().unwrap().push(second);
    let stage = Stage::new();
    stage.write("config", &config.to_string());
    let proxy = stage.proxy(&["--all-contexts"]);
    for place in [0, 1, 0, 1] {
        let answer = Card::read(&proxy.kubeconfig, place).get("/", "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!((script.runs(), upstream.take().len()), (1, 4));
}

#[test]
fn a_revoked_token_is_renewed_and_kubectl_sees_nothing_of_it() {
    let script = Script::new();
    script.answer(Some("one"), None);
    let server = Server::setup().start().unwrap();
    server.users().token("one", User::new("anna"));
    let stage = Stage::of(server, &script.user());
    let proxy = stage.proxy(&[]);
    assert_eq!(
        proxy.prints(&["get", "--raw", "/version"]),
        proxy.prints(&["get", "--raw", "/version"])
    );
    assert_eq!(script.runs(), 1);
    script.answer(Some("two"), None);
    stage.server.users().replace_tokens([("two", User::new("anna"))]);
    proxy.prints(&["get", "--raw", "/version"]);
    assert_eq!(script.runs(), 2);
    assert_eq!(stage.server.counts().status(401), 1);
    let record = stage.server.recorder().last().unwrap();
    assert_eq!(record.header("authorization"), Some("Bearer two"));
}

#[test]
fn a_short_body_is_sent_again_with_the_new_token() {
    let (upstream, script, _stage, proxy) = began();
    script.answer(Some("two"), None);
    upstream.accept("two");
    let body = vec![b'x'; 100_000];
    let answer = post(&proxy, &body);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let arrived = upstream.take();
    let tokens: Vec<&str> = arrived.iter().flat_map(|m| m.values("authorization")).collect();
    assert_eq!(tokens, ["Bearer one", "Bearer two"]);
    assert!(arrived.iter().all(|message| message.body == body), "all of it, both times");
}

#[test]
fn a_body_too_long_to_keep_gets_the_refusal_and_the_next_request_the_new_token() {
    let (upstream, script, _stage, proxy) = began();
    script.answer(Some("two"), None);
    upstream.accept("two");
    let body = vec![b'x'; LONG];
    let answer = post(&proxy, &body);
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    let arrived = upstream.take();
    assert_eq!(arrived.len(), 1);
    assert!(arrived[0].body == body);
    let answer = post(&proxy, &body);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(script.runs(), 2);
}

#[test]
fn a_refusal_that_a_new_token_does_not_heal_goes_to_the_client() {
    let (upstream, script, _stage, proxy) = began();
    script.answer(Some("two"), None);
    upstream.accept("three");
    let answer = post(&proxy, b"short");
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.ends_with("ok\n"), "{answer}");
    assert_eq!(upstream.take().len(), 2, "once more, and not again");
}
