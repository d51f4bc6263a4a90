//! The code flow.

use keyward_testing::authority::Authority;
use serde_json::json;

use super::{
    judge::Judge,
    liar::{Liar, Lies},
    stage::{Outcome, Stage},
};

const ANYWHERE: &str = "--listen-address=127.0.0.1:0";

fn args<'a>(judge: &'a Judge, client: &'a str) -> [String; 3] {
    [
        format!("--oidc-issuer-url={}", judge.issuer),
        format!("--oidc-client-id={client}"),
        ANYWHERE.into(),
    ]
}

#[test]
fn the_browser_logs_in_and_the_page_says_who_you_are() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let [issuer, client, listen] = args(&judge, "public");
    let outcome = stage.run(&[&issuer, &client, &listen, &stage.browser()]);
    let claims = outcome.claims();
    assert_eq!((&claims["sub"], &claims["aud"]), (&json!("ann"), &json!("public")));
    assert!(
        outcome.stderr.contains(&format!("open this page to log in: {}/auth?", judge.issuer)),
        "{}",
        outcome.stderr
    );
    assert_eq!(judge.events(), ["page", "grant authorization_code"]);
    let page = stage.page();
    assert!(
        page.contains("You are logged in") && page.contains("<b>ann@example.com</b>"),
        "{page}"
    );
    assert!(page.contains("You can close this window."), "{page}");
}

#[test]
fn every_kind_of_signature_is_checked() {
    let judge = Judge::start(&json!({}));
    for client in ["public", "elliptic", "edwards", "basic"] {
        let stage = Stage::new();
        let secret = stage.write("secret", "a secret & more\n");
        let secret = format!("--client-secret-file={secret}");
        let [issuer, id, listen] = args(&judge, client);
        let browser = stage.browser();
        let mut all = vec![issuer.as_str(), &id, &listen, &browser];
        if client == "basic" {
            all.push(&secret);
        }
        assert_eq!(stage.claims(&all)["aud"], client);
    }
}

#[test]
fn the_access_token_is_printed_where_it_is_wanted() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let [issuer, client, listen] = args(&judge, "public");
    let claims =
        stage.claims(&[&issuer, &client, &listen, &stage.browser(), "--oidc-use-access-token"]);
    assert_eq!((&claims["aud"], &claims["client_id"]), (&json!("cluster"), &json!("public")));
}

#[test]
fn without_pkce_the_provider_that_demands_it_says_no() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let [issuer, client, listen] = args(&judge, "public");
    let outcome =
        stage.run(&[&issuer, &client, &listen, &stage.browser(), "--oidc-pkce-method=no"]);
    let why = outcome.refusal(1);
    assert!(why.contains("refused the login: invalid_request: ") && why.contains("PKCE"), "{why}");
    assert!(stage.page().contains("The login did not work"), "{}", stage.page());
}

#[test]
fn another_page_and_extra_parameters_are_passed_on() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let landing = stage.write("landing.html", "welcome home");
    let [issuer, client, listen] = args(&judge, "public");
    // curl follows to http alone; that it was sent there is what counts.
    let outcome = stage.run(&[
        &issuer,
        &client,
        &listen,
        &stage.browser(),
        &format!(
            "--open-url-after-authentication={}/.well-known/openid-configuration?{landing}",
            judge.issuer
        ),
        "--oidc-auth-request-extra-params=ui_locales=de,login_hint=ann",
        "--oidc-extra-scope=email,offline_access",
    ]);
    outcome.token();
    assert!(outcome.stderr.contains("ui_locales=de&login_hint=ann"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("scope=openid+email+offline_access"), "{}", outcome.stderr);
    assert!(stage.page().contains("authorization_endpoint"), "{}", stage.page());
}

#[test]
fn the_listener_speaks_tls_if_it_has_a_certificate() {
    let liar = Liar::start(Lies::default());
    let stage = Stage::new();
    let server = Authority::new("ca").unwrap().server(&["localhost"]).unwrap();
    let certificate = stage.write("cert.pem", server.certificate_pem());
    let key = stage.write("key.pem", server.key_pem());
    let outcome = stage.run(&[
        &format!("--oidc-issuer-url={}", liar.issuer),
        "--oidc-client-id=tester",
        ANYWHERE,
        &stage.browser(),
        &format!("--local-server-cert={certificate}"),
        &format!("--local-server-key={key}"),
    ]);
    outcome.token();
    assert!(
        outcome.stderr.contains("redirect_uri=https%3A%2F%2Flocalhost%3A"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn explain_shows_the_way_and_no_token() {
    let judge = Judge::start(&json!({}));
    let stage = Stage::new();
    let [issuer, client, listen] = args(&judge, "public");
    let Outcome { code, stdout, stderr } =
        stage.run(&[&issuer, &client, &listen, &stage.browser(), "--explain"]);
    assert_eq!(code, Some(0), "{stderr}");
    for line in [
        &format!("with     issuer: {}\n", judge.issuer),
        "skipped  agent: `CI` is set, or `KEYWARD_AGENT=off`\n",
        "skipped  refresh token: none is kept\n",
        "used     authorization code: a token for ann@example.com\n",
        "result   a credential\n",
    ] {
        assert!(stdout.contains(line), "{stdout}");
    }
    assert!(!stdout.contains("eyJ"), "{stdout}");
}
