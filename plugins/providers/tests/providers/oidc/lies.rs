//! Providers that answer wrongly, one lie at a time.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    liar::{Liar, Lies, Sign, now},
    stage::{Outcome, Stage},
};

fn login(lies: Lies) -> Outcome {
    let liar = Liar::start(lies);
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let browser = stage.browser();
    stage.run(&[
        &issuer,
        "--oidc-client-id=tester",
        "--listen-address=127.0.0.1:0",
        &browser,
        "--authentication-timeout-sec=2",
    ])
}

fn claims(claims: Value) -> Lies {
    Lies { claims, ..Lies::default() }
}

fn back(back: Value) -> Lies {
    Lies { back, ..Lies::default() }
}

#[test]
fn the_truth_is_accepted() {
    assert_eq!(login(Lies::default()).claims()["sub"], "ann");
}

#[test]
fn a_wrong_token_is_refused_and_never_printed() {
    let second = now().as_second();
    for (lies, why) in [
        (claims(json!({ "iss": "http://127.0.0.1:1" })), "Invalid issuer: expected"),
        (claims(json!({ "aud": "another" })), "Invalid audiences: must contain `tester`"),
        (claims(json!({ "aud": null })), "Invalid audiences: must contain `tester`"),
        (claims(json!({ "nonce": "replayed" })), "Invalid nonce: nonce mismatch"),
        (claims(json!({ "nonce": null })), "Invalid nonce: missing nonce claim"),
        (claims(json!({ "exp": second - 1 })), "it has expired"),
        (claims(json!({ "iat": second + 300 })), "it was issued in the future"),
        (claims(json!({ "nbf": second + 300 })), "it is valid from"),
        (Lies { sign: Sign::OtherKey, ..Lies::default() }, "its signature: Crypto error"),
        (Lies { sign: Sign::None, ..Lies::default() }, "its signature: "),
        (
            Lies { sign: Sign::Hmac, ..Lies::default() },
            "its signature: Disallowed signature algorithm",
        ),
        (Lies { keyless: 2, ..Lies::default() }, "its signature: No matching key found"),
        (Lies { answer: json!({ "id_token": null }), ..Lies::default() }, "gave no ID token"),
        (
            Lies { answer: json!({ "id_token": "e30" }), ..Lies::default() },
            "an ID token that is no JWT",
        ),
    ] {
        let shown = format!("{lies:?}");
        let outcome = login(lies);
        let stderr = outcome.refusal(1);
        assert!(stderr.contains(why), "{shown}: {stderr}");
        assert!(!stderr.contains("eyJ"), "{shown}: {stderr}");
    }
}

#[test]
fn a_wrong_return_of_the_browser_is_refused() {
    for (lies, why) in [
        // Another login's: this one goes on, and nobody comes.
        (back(json!({ "state": "forged" })), "came back from another login"),
        (back(json!({ "state": null })), "came back from another login"),
        (back(json!({ "iss": "http://127.0.0.1:1" })), "another issuer than"),
        (back(json!({ "code": null, "error": "server_error" })), "refused the login: server_error"),
        (
            Lies {
                metadata: json!({ "authorization_response_iss_parameter_supported": true }),
                back: json!({ "iss": null }),
                ..Lies::default()
            },
            "without `iss`, which",
        ),
    ] {
        let shown = format!("{lies:?}");
        let outcome = login(lies);
        let stderr = outcome.refusal(1);
        assert!(stderr.contains(why), "{shown}: {stderr}");
    }
    let denied = login(back(json!({ "code": null, "error": "access_denied" })));
    assert!(denied.refusal(4).contains("refused the login: access_denied"), "{denied:?}");
}

#[test]
fn a_provider_that_describes_itself_wrongly_is_refused() {
    for (metadata, why) in [
        (json!({ "issuer": "http://127.0.0.1:1" }), "is no OpenID issuer: "),
        (
            json!({ "token_endpoint": "http://idp.example/token" }),
            "the token endpoint must begin with `https://`",
        ),
        (
            json!({ "authorization_endpoint": "ftp://idp.example/" }),
            "the authorization endpoint must begin with",
        ),
        (
            json!({ "jwks_uri": "https://127.0.0.1:1/jwks" }),
            "cannot use `https://127.0.0.1:1/jwks`",
        ),
        (json!({ "token_endpoint": null }), "names no token endpoint"),
        (json!({ "jwks_uri": null }), "its answer cannot be read"),
    ] {
        let outcome = login(Lies { metadata: metadata.clone(), ..Lies::default() });
        assert!(outcome.code == Some(1) || outcome.code == Some(2), "{outcome:?}");
        assert!(
            outcome.stdout.is_empty() && outcome.stderr.contains(why),
            "{metadata}: {}",
            outcome.stderr
        );
    }
    let stage = Stage::new();
    let plain = stage.run(&["--oidc-issuer-url=http://idp.example", "--oidc-client-id=tester"]);
    assert!(
        plain.refusal(2).contains("`--oidc-issuer-url` must begin with `https://`"),
        "{plain:?}"
    );
}

fn device(device: Value, more: &[&str]) -> (Liar, Outcome) {
    let liar = Liar::start(Lies { device, ..Lies::default() });
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let browser = stage.browser();
    let args = [&issuer, "--oidc-client-id=tester", "--grant-type=device-code", &browser];
    let outcome = stage.run(&[&args[..], more].concat());
    (liar, outcome)
}

#[test]
fn a_browser_opens_only_pages_with_tls_or_of_this_machine() {
    for complete in [
        "file:///etc/passwd",
        "smb://evil.example/share",
        "--config=/tmp/evil",
        "http://evil.example/?user_code=ABCD",
        "https:///page",
        "",
    ] {
        // Only the page without the code confirms it.
        let (_, outcome) = device(json!({ "verification_uri_complete": complete }), &[]);
        assert_eq!(outcome.claims()["sub"], "ann", "{complete}");
        assert!(complete.is_empty() || !outcome.stderr.contains(complete), "{}", outcome.stderr);
    }
    for page in ["file:///etc/passwd", "http://evil.example/"] {
        let (liar, outcome) = device(json!({ "verification_uri": page }), &[]);
        let why = outcome.refusal(2);
        assert!(why.contains("the page of the device flow must begin with `https://`"), "{why}");
        assert!(!liar.requests().iter().any(|asked| asked.contains("/token")), "{why}");
    }
}

#[test]
fn a_provider_cannot_make_a_login_sleep_beyond_its_limit() {
    let answer = json!({ "interval": 3_600 });
    let more = ["--skip-open-browser", "--authentication-timeout-sec=1"];
    let (_, outcome) = device(answer, &more);
    let why = outcome.refusal(1);
    assert!(why.contains("nobody confirmed the code") && why.contains("within 1 s"), "{why}");
}

#[test]
fn an_access_token_that_ended_before_all_time_is_no_panic() {
    let claims = json!({ "exp": jiff::Timestamp::MIN.as_second() });
    let token = format!("e30.{}.", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let liar = Liar::start(Lies { answer: json!({ "access_token": token }), ..Lies::default() });
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let browser = stage.browser();
    let outcome = stage.run(&[
        &issuer,
        "--oidc-client-id=tester",
        "--listen-address=127.0.0.1:0",
        "--oidc-use-access-token",
        &browser,
    ]);
    let why = outcome.refusal(1);
    assert!(why.contains("the credential expired at"), "{why}");
}

#[test]
fn clocks_that_differ_by_less_than_a_minute_do_not_matter() {
    for seconds in [-50, 50] {
        let ahead = SignedDuration::from_secs(seconds);
        login(Lies { ahead, ..Lies::default() }).token();
    }
}
