//! The `oidc` auth-provider, with an identity provider that answers from a list.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use keyward_host::{Error, Kind, NoopObserver, OidcExchange, Source};
use keyward_protocol::Secret;
use support::Stage;
use zeroize::Zeroizing;

/// Answers from a list and remembers what it was asked.
#[derive(Default)]
struct Provider {
    answers: Mutex<VecDeque<(u16, String)>>,
    asked: Mutex<Vec<String>>,
}

impl OidcExchange for Provider {
    fn exchange(
        &self,
        url: &str,
        _authorities: Option<&[u8]>,
        form: Option<&Secret>,
        basic: Option<&Secret>,
    ) -> Result<(u16, Zeroizing<Vec<u8>>), String> {
        let form = form.map_or("", |form| form.expose());
        let basic = basic.map_or("", |basic| basic.expose());
        self.asked.lock().unwrap().push(format!("{url} {form} {basic}"));
        let (status, body) = self.answers.lock().unwrap().pop_front().ok_or("nobody is at home")?;
        Ok((status, body.into_bytes().into()))
    }
}

impl Provider {
    fn will_answer(&self, status: u16, body: &str) {
        self.answers.lock().unwrap().push_back((status, body.to_owned()));
    }

    fn will_refresh(&self, answer: &str) {
        self.will_answer(200, r#"{"token_endpoint":"https://idp/token"}"#);
        self.will_answer(200, answer);
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// A token that ends so many seconds after the stage's beginning.
fn jwt(seconds: i64) -> String {
    let start: jiff::Timestamp = support::NOW.parse().unwrap();
    let claims = format!(r#"{{"sub":"ann","exp":{}}}"#, start.as_second() + seconds);
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

fn open(
    stage: &mut Stage,
    provider: &Arc<Provider>,
    id_token: &str,
    more: &str,
) -> Result<Source, Error> {
    stage.settings.exchange = Some(Arc::clone(provider) as _);
    stage.user = format!(
        "    auth-provider:\n      name: oidc\n      config:\n        idp-issuer-url: https://idp/\n        client-id: kube\n        client-secret: \"shh &\"\n        id-token: {id_token}\n{more}"
    );
    let plan = stage.draft(stage.plain_target()).finish()?;
    Ok(stage.sources(Arc::new(NoopObserver)).open(&plan))
}

const REFRESH: &str = "        refresh-token: refresh-1\n";

fn token(source: &Source) -> String {
    source.credential_blocking().unwrap().token().unwrap().expose().to_owned()
}

#[test]
fn a_valid_id_token_is_used_until_ten_seconds_before_its_end() {
    let (mut stage, provider) = (Stage::new(), Arc::new(Provider::default()));
    let source = open(&mut stage, &provider, &jwt(60), "").unwrap();
    assert_eq!(token(&source), jwt(60));
    assert!(provider.asked().is_empty());
    stage.clock.advance(Duration::from_secs(51));
    let error = source.credential_blocking().unwrap_err();
    assert!(error.to_string().contains("no refresh-token"), "{error:#}");
}

#[test]
fn an_expired_id_token_is_refreshed_in_memory() {
    let (mut stage, provider) = (Stage::new(), Arc::new(Provider::default()));
    let source = open(&mut stage, &provider, &jwt(-5), REFRESH).unwrap();
    let config = std::fs::read(stage.path("config")).unwrap();
    let answer = format!(r#"{{"id_token":"{}","refresh_token":"refresh-2"}}"#, jwt(100));
    provider.will_refresh(&answer);
    assert_eq!(token(&source), jwt(100));
    assert_eq!(
        provider.asked(),
        [
            "https://idp/.well-known/openid-configuration  ",
            "https://idp/token grant_type=refresh_token&refresh_token=refresh-1 kube:shh+%26",
        ]
    );

    stage.clock.advance(Duration::from_secs(95));
    provider.will_refresh(&format!(r#"{{"id_token":"{}"}}"#, jwt(300)));
    assert_eq!(token(&source), jwt(300));
    assert!(provider.asked()[1].contains("refresh-2"), "the newest refresh token is used");
    assert_eq!(std::fs::read(stage.path("config")).unwrap(), config, "never rewritten");
}

#[test]
fn a_provider_that_wants_the_client_in_the_form_gets_it_there() {
    let (mut stage, provider) = (Stage::new(), Arc::new(Provider::default()));
    let source = open(&mut stage, &provider, &jwt(-5), REFRESH).unwrap();
    provider.will_answer(200, r#"{"token_endpoint":"https://idp/token"}"#);
    provider.will_answer(401, r#"{"error":"invalid_client"}"#);
    provider.will_answer(200, &format!(r#"{{"id_token":"{}"}}"#, jwt(100)));
    assert_eq!(token(&source), jwt(100));
    assert_eq!(
        provider.asked()[2],
        "https://idp/token grant_type=refresh_token&refresh_token=refresh-1&client_id=kube&client_secret=shh+%26 "
    );
}

#[test]
fn failures_say_what_and_tell_no_secret() {
    for (answers, words) in [
        (vec![], "cannot be reached"),
        (vec![(404, "")], "does not describe itself"),
        (vec![(200, "{}")], "no `token_endpoint`"),
        (vec![(200, "<html>refresh-1")], "is not JSON"),
        (
            vec![
                (200, r#"{"token_endpoint":"https://idp/token"}"#),
                (400, "refresh-1"),
                (400, r#"{"error":"invalid_grant","error_description":"refresh-1"}"#),
            ],
            "refused to refresh",
        ),
        (
            vec![
                (200, r#"{"token_endpoint":"https://idp/token"}"#),
                (200, r#"{"access_token":"x"}"#),
            ],
            "without an `id_token`",
        ),
    ] {
        let (mut stage, provider) = (Stage::new(), Arc::new(Provider::default()));
        let source = open(&mut stage, &provider, &jwt(-5), REFRESH).unwrap();
        for (status, body) in answers {
            provider.will_answer(status, body);
        }
        let error = source.credential_blocking().unwrap_err();
        assert_eq!(error.kind(), Kind::Failed, "{error:#}");
        let shown = format!("{error:#} {error:?}");
        assert!(shown.contains(words), "{shown}");
        assert!(!shown.contains("refresh-1") && !shown.contains("shh"), "{shown}");
    }
}

#[test]
fn what_every_use_needs_is_asked_for_at_once() {
    let mut stage = Stage::new();
    stage.user =
        "    auth-provider:\n      name: oidc\n      config:\n        client-id: kube\n".into();
    let error = stage.draft(stage.plain_target()).finish().unwrap_err();
    assert_eq!(error.to_string(), "the `oidc` auth-provider needs `idp-issuer-url`");
}

#[test]
fn a_refresh_token_is_not_sent_over_an_open_line() {
    let (mut stage, provider) = (Stage::new(), Arc::new(Provider::default()));
    let source = open(&mut stage, &provider, &jwt(-5), REFRESH).unwrap();
    provider.will_answer(200, r#"{"token_endpoint":"http://idp/token"}"#);
    let error = source.credential_blocking().unwrap_err();
    assert!(error.to_string().contains("without TLS"), "{error:#}");
    assert_eq!(provider.asked().len(), 1, "nothing is sent there");
}
