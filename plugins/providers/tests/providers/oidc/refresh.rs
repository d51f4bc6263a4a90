//! Refresh tokens in the agent.

use serde_json::json;

use super::{judge::Judge, stage::Stage};

#[test]
fn pitfall_25_refresh_tokens_rotate_and_each_is_used_once() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let args =
        [&issuer, "--oidc-client-id=public", "--listen-address=127.0.0.1:0", &stage.browser()];
    stage.run(&args).token();
    assert_eq!(judge.events(), ["page", "grant authorization_code"]);
    for _ in 0..3 {
        // A provider that rotates ends the session when a refresh token comes twice.
        let next = stage.run(&[&args[..], &["--force-refresh"]].concat());
        next.token();
        assert_eq!(judge.events(), ["grant refresh_token"]);
    }
    let kept = stage.run(&args);
    kept.token();
    assert!(judge.events().is_empty());
    let access = stage.run(&[&args[..], &["--oidc-use-access-token"]].concat());
    assert_eq!(access.claims()["aud"], "cluster");
    assert_eq!(judge.events(), ["grant refresh_token"]);
}

#[test]
fn twenty_processes_at_once_refresh_once() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let args = [
        &issuer,
        "--oidc-client-id=public",
        "--listen-address=127.0.0.1:0",
        &stage.browser(),
        "--oidc-use-access-token",
    ];
    stage.run(&args).token();
    judge.events();
    // The other kind of token of the same login: nothing of it is kept yet.
    let processes: Vec<_> = (0..20).map(|_| stage.start(&args[..4])).collect();
    let tokens: Vec<_> =
        processes.into_iter().map(|child| super::stage::Outcome::of(child).token()).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    assert_eq!(judge.events(), ["grant refresh_token"]);
}

#[test]
fn a_session_that_was_revoked_needs_a_new_login() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let args =
        [&issuer, "--oidc-client-id=public", "--listen-address=127.0.0.1:0", &stage.browser()];
    stage.run(&args).token();
    judge.revoke();
    judge.events();
    let next = stage.run(&[&args[..], &["--force-refresh"]].concat());
    next.token();
    let events = judge.events();
    assert!(events[0].starts_with("refused refresh_token invalid_grant"), "{events:?}");
    assert_eq!(events.last().unwrap(), "grant authorization_code");
}

#[test]
fn clean_makes_the_agent_forget_the_login() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let args =
        [&issuer, "--oidc-client-id=public", "--listen-address=127.0.0.1:0", &stage.browser()];
    stage.run(&args).token();
    judge.events();
    let clean = stage.run(&[&["clean"], &args[..2]].concat());
    assert_eq!(
        (clean.code, clean.stdout.as_str()),
        (Some(0), "no token of this login is kept any more\n")
    );
    stage.run(&args).token();
    assert_eq!(judge.events().last().unwrap(), "grant authorization_code");
    let unclear = stage.run(&["clean"]);
    assert!(unclear.refusal(2).contains("`keyward logout --all`"), "{unclear:?}");
}

#[test]
fn a_refresh_token_that_turns_up_another_person_is_not_used() {
    use super::liar::{Liar, Lies};
    let liar = Liar::start(Lies { refreshed: json!({ "sub": "eve" }), ..Lies::default() });
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let args =
        [&issuer, "--oidc-client-id=tester", "--listen-address=127.0.0.1:0", &stage.browser()];
    stage.run(&args).token();
    let other = stage.run(&[&args[..], &["--force-refresh"]].concat());
    assert!(other.refusal(1).contains("after a refresh it is for another person"), "{other:?}");
}
