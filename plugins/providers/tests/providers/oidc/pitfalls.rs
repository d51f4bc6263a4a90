//! The known pitfalls of OpenID logins, each under its number in our list of facts about existing tools.

use std::{
    net::{Ipv4Addr, Ipv6Addr, TcpListener},
    os::unix::process::CommandExt as _,
    process::Command,
};

use jiff::SignedDuration;
use keyward_testing::authority::Authority;
use serde_json::json;

use super::{
    judge::Judge,
    liar::{Liar, Lies},
    stage::{Outcome, Stage},
};

const CLIENT: &str = "--oidc-client-id=tester";
const ANYWHERE: &str = "--listen-address=127.0.0.1:0";

/// An answer always has an end, even for a token that says nothing about it.
#[test]
fn pitfall_02_a_token_is_never_printed_without_an_end() {
    let liar = Liar::start(Lies { answer: json!({ "expires_in": null }), ..Lies::default() });
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let outcome =
        stage.run(&[&issuer, CLIENT, ANYWHERE, &stage.browser(), "--oidc-use-access-token"]);
    assert_eq!(outcome.token(), "opaque");
}

#[test]
fn pitfall_07_loopback_is_never_asked_through_a_proxy() {
    let liar = Liar::start(Lies::default());
    let stage = Stage::new()
        .variable("HTTP_PROXY", "http://127.0.0.1:1")
        .variable("http_proxy", "http://127.0.0.1:1");
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    // curl itself goes by the same variables.
    let browser = format!("{} --noproxy *", stage.browser());
    stage.run(&[&issuer, CLIENT, ANYWHERE, &browser]).token();
}

#[test]
fn pitfall_22_a_port_that_is_taken_is_passed_by_and_no_free_one_is_an_error_at_once() {
    let liar = Liar::start(Lies::default());
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let first = format!("--listen-address={}", taken.local_addr().unwrap());
    stage.run(&[&issuer, CLIENT, &first, ANYWHERE, &stage.browser()]).token();
    let outcome = stage.run(&[&issuer, CLIENT, &first, &stage.browser()]);
    let why = outcome.refusal(1);
    assert!(
        why.contains("no address is free to listen at") && why.contains("--listen-address"),
        "{why}"
    );
    // The listener of the login above has ended with it.
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    stage
        .run(&[&issuer, CLIENT, &format!("--listen-address=localhost:{port}"), &stage.browser()])
        .token();
}

#[test]
fn pitfall_23_localhost_works_whichever_address_the_browser_takes_it_for() {
    let liar = Liar::start(Lies::default());
    for family in ["--ipv4", "--ipv6"] {
        if family == "--ipv6" && TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
            continue;
        }
        let stage = Stage::new();
        let issuer = format!("--oidc-issuer-url={}", liar.issuer);
        let address = if family == "--ipv4" { "127.0.0.1" } else { "[::1]" };
        let browser = format!("{} --connect-to localhost::{address}:", stage.browser());
        stage.run(&[&issuer, CLIENT, ANYWHERE, &browser]).token();
    }
}

#[test]
fn pitfall_24_a_refresh_without_an_id_token_keeps_the_old_one_and_never_loops_into_the_browser() {
    let liar = Liar::start(Lies { refresh: json!({ "id_token": null }), ..Lies::default() });
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let args = [&issuer, CLIENT, ANYWHERE, &stage.browser()];
    let first = stage.run(&args).token();
    let again = stage.run(&[&args[..], &["--force-refresh"]].concat());
    assert_eq!(again.token(), first);
    let pages =
        |liar: &Liar| liar.requests().iter().filter(|line| line.starts_with("GET /auth")).count();
    assert_eq!(pages(&liar), 1);
    assert!(liar.requests().iter().any(|line| line.contains("grant_type=refresh_token")));
    // Too short to be kept: each request needs a login, but the refresh token is not tried for ever.
    liar.lie(Lies {
        refresh: json!({ "id_token": null }),
        claims: json!({ "exp": super::liar::now().as_second() + 8 }),
        ..Lies::default()
    });
    let short = stage.run(&[&args[..], &["--oidc-extra-scope=short"]].concat());
    short.token();
    let next = stage.run(&[&args[..], &["--oidc-extra-scope=short"]].concat());
    next.token();
    assert!(
        next.stderr.contains("gives no ID token for a refresh token, so a new login is needed"),
        "{}",
        next.stderr
    );
    assert_eq!(pages(&liar), 3);
}

#[test]
fn pitfall_26_offline_access_is_not_asked_for_unasked() {
    let liar = Liar::start(Lies::default());
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let outcome = stage.run(&[&issuer, CLIENT, ANYWHERE, &stage.browser()]);
    outcome.token();
    for word in ["offline_access", "access_type"] {
        assert!(!outcome.stderr.contains(word), "{}", outcome.stderr);
    }
    liar.lie(Lies { back: json!({ "code": null, "error": "not_allowed" }), ..Lies::default() });
    let refused = stage.run(&[&issuer, CLIENT, ANYWHERE, &stage.browser()]);
    assert!(refused.refusal(1).contains("not_allowed"), "{refused:?}");
}

#[test]
fn pitfall_27_a_clock_that_is_wrong_is_named() {
    for (minutes, word) in [(30, "behind"), (-30, "ahead of")] {
        let ahead = SignedDuration::from_mins(minutes);
        let liar = Liar::start(Lies { ahead, ..Lies::default() });
        let stage = Stage::new();
        let issuer = format!("--oidc-issuer-url={}", liar.issuer);
        let outcome = stage.run(&[&issuer, CLIENT, ANYWHERE, &stage.browser()]);
        let why = outcome.refusal(1);
        assert!(
            why.contains("this machine's clock is 1")
                && why.contains(&format!(" s {word} the provider's")),
            "{why}"
        );
    }
}

#[test]
fn pitfall_28_an_authority_is_added_to_those_of_the_system() {
    let stage = Stage::new();
    let authority = Authority::new("ca").unwrap();
    let server = authority.server(&["127.0.0.1"]).unwrap();
    let options = json!({ "tls": {
        "cert": stage.write("s.pem", server.certificate_pem()), "key": stage.write("s.key", server.key_pem()),
    } });
    let judge = Judge::start(&options);
    let issuer = format!("--oidc-issuer-url={}", judge.issuer);
    let secret = "--oidc-client-secret=a secret & more";
    let own = ["--oidc-client-id=basic", secret, "--grant-type=client-credentials"];
    let ca = stage.write("ca.pem", authority.pem());
    let other = stage.write("other.pem", Authority::new("other").unwrap().pem());
    let run =
        |stage: &Stage, more: &[&str]| stage.run(&[&[issuer.as_str()], &own[..], more].concat());

    let unknown = run(&stage, &[]);
    let why = unknown.refusal(1);
    assert!(
        why.contains("invalid peer certificate") && why.contains("--certificate-authority"),
        "{why}"
    );
    run(&stage, &[&format!("--certificate-authority={ca}")]).token();
    run(&stage, &[&format!("--idp-certificate-authority={ca}")]).token();
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, authority.pem());
    run(&stage, &[&format!("--certificate-authority-data={data}")]).token();
    run(&stage, &["--insecure-skip-tls-verify"]).token();
    // The system's authority is known although another one is named.
    let system = Stage::new().variable("SSL_CERT_FILE", ca);
    run(&system, &[&format!("--certificate-authority={other}")]).token();
}

#[test]
fn pitfall_29_logins_that_differ_in_any_way_do_not_share_tokens() {
    let liar = Liar::start(Lies::default());
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let listen = [ANYWHERE, &stage.browser()];
    let base = [issuer.as_str(), CLIENT];
    let pages = || liar.requests().iter().filter(|line| line.starts_with("GET /auth")).count();
    let other = stage.write("other.pem", Authority::new("other").unwrap().pem());
    let variants: [&[&str]; 6] = [
        &[],
        &["--oidc-extra-scope=groups"],
        &["--oidc-auth-request-extra-params=tenant=a"],
        &["--oidc-request-header=Origin=localhost"],
        &["--insecure-skip-tls-verify"],
        &[&format!("--certificate-authority={other}")],
    ];
    for (index, variant) in variants.iter().enumerate() {
        for _ in 0..2 {
            stage.run(&[&base[..], variant, &listen].concat()).token();
        }
        assert_eq!(pages(), index + 1, "{variant:?}");
    }
}

#[test]
fn pitfall_30_nothing_is_written_to_a_file_and_the_second_command_needs_no_login() {
    let liar = Liar::start(Lies::default());
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let args = [&issuer, CLIENT, ANYWHERE, &stage.browser()];
    let first = stage.run(&args).token();
    assert_eq!(stage.run(&args).token(), first);
    let found = Command::new("grep")
        .args([
            "--recursive",
            "--files-with-matches",
            "-e",
            &first,
            "-e",
            "refresh-me",
            "-e",
            "opaque",
            "--devices=skip",
        ])
        .arg(stage.path(""))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "a token is in a file");
}

#[test]
fn pitfall_31_the_person_has_more_time_than_the_network() {
    let stage = Stage::new();
    let help = stage.run(&["--help"]);
    assert!(help.stdout.contains("time to log in (default 600)"), "{}", help.stdout);
    let liar = Liar::start(Lies::default());
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let args =
        [&issuer, CLIENT, ANYWHERE, "--browser-command=true", "--authentication-timeout-sec=1"];
    let nobody = stage.run(&args);
    assert!(nobody.refusal(1).contains("nobody logged in at"), "{nobody:?}");
    assert!(nobody.stderr.contains("within 1 s"), "{nobody:?}");
}

#[test]
fn pitfall_37_a_refused_credential_does_not_come_from_the_store() {
    let liar = Liar::start(Lies::default());
    let stage = Stage::with_agent();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    let args = [&issuer, CLIENT, ANYWHERE, &stage.browser()];
    stage.run(&args).token();
    let info = r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1alpha1","spec":{"response":{"code":401},"interactive":false}}"#;
    let mut command = stage.command(&args);
    command.env("KUBERNETES_EXEC_INFO", info).arg0("keyward-oidc");
    Outcome::of(command.spawn().unwrap()).token();
    assert!(liar.requests().iter().any(|line| line.contains("grant_type=refresh_token")));
}

#[test]
fn pitfall_40_keys_are_read_once_more_for_a_token_that_none_has_signed() {
    let liar = Liar::start(Lies { keyless: 1, ..Lies::default() });
    let stage = Stage::new();
    let issuer = format!("--oidc-issuer-url={}", liar.issuer);
    stage.run(&[&issuer, CLIENT, ANYWHERE, &stage.browser()]).token();
    assert_eq!(liar.requests().iter().filter(|line| *line == "GET /jwks").count(), 2);
}
