//! What is refused, with which exit code, and that no refusal shows a secret.

use serde_json::{Value, json};

use super::{
    IMAGE, file, kubelet, plugin, request, service,
    stand_in::{Instead, StandIn},
};

const RESTRICT: &str = "--registry=registry.example:5000";

/// Runs as the kubelet's provider, and returns the reason why there is no answer.
#[track_caller]
fn refusal(args: &[&str], request: &str, code: i32) -> String {
    let ended = kubelet(args, request);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{ended:?}");
    ended.stderr
}

#[test]
fn every_flag_is_checked_before_a_token_leaves() {
    let service = StandIn::start();
    let pod = request(IMAGE, &service.pod_token(600), &json!({"a": "b/c"}));
    let at = |flag: &str, path: &str| format!("--{flag}={}{path}", service.url);
    let (token, login, post) =
        (at("token-url", "/token"), at("jwt-login", ""), at("post", "/login"));
    let (_directory, secret) = file("s3cr3t");
    let secret = format!("--client-secret-file={secret}");
    let cases: &[(&[&str], &str)] = &[
        (&[], "give one of `--pass`, `--token-url`, `--jwt-login` and `--post`"),
        (&["--pass", &token], "give one of"),
        (&[&token, &login], "give one of"),
        (&["--token-url=http://sts.example/token"], "`--token-url` must begin with `https://`"),
        (&["--token-url=sts.example"], "must begin with `https://`"),
        (&["--jwt-login=http://bao.example"], "`--jwt-login` must begin with `https://`"),
        (&["--post=http://r.example", "--body={}"], "`--post` must begin with `https://`"),
        (&["--pass", "--audience=x"], "`--audience` has no effect with `--pass`"),
        (&[&token, "--role=x"], "`--role` has no effect with `--token-url`"),
        (&[&login, "--body={}"], "`--body` has no effect with `--jwt-login`"),
        (&[&token, &secret], "needs `--client-id`"),
        (&[&token, "--scope={token}"], "`--scope` cannot contain the token"),
        (&[&token, "--scope={tokn}"], "there is no placeholder `{tokn}`"),
        (&[&token, "--parameter=x"], "`--parameter` is `NAME=VALUE`"),
        (&[&token, "--password-at=token"], "is a JSON pointer"),
        (&[&token, "--lifetime=0s"], "`--lifetime` is a duration"),
        (&[&token, "--token-fil=x"], "hint: there is `--token-file`"),
        (&[&token, "word"], "there is no command `word`"),
        (&[&login, "--mount=a/../b"], "`--mount` is not a path"),
        (&[&login, "--read=kv/../x"], "is not a path"),
        (&[&post], "needs one of `--body` and `--body-file`"),
        (
            &[&post, "--body={}", "--password-at=/x"],
            "neither `--body` nor `--header` has `{token}`",
        ),
        (&[&post, r#"--body={"t":"{token}"}"#], "needs `--password-at`"),
        (&[&post, "--body={token}", "--password-at=/x"], "`--body` is not JSON"),
        (&[&post, r#"--body={"t":"{token}"}"#, "--password-at=/x", "--header=a b=c"], "is no name"),
    ];
    for (args, why) in cases {
        let stderr = refusal(&[args, &[RESTRICT][..]].concat(), &pod, 2);
        assert!(stderr.contains(why), "{args:?}: {stderr}");
    }
    let blank = request(IMAGE, &service.pod_token(600), &json!({"a": "pull admin"}));
    for flag in ["--scope=team:{annotation:a}", "--parameter=scope={annotation:a}"] {
        let stderr = refusal(&[&token, flag, RESTRICT], &blank, 4);
        assert!(stderr.contains("`pull admin` has a blank"), "{stderr}");
    }
    let stderr = refusal(&[&login, "--read=kv/{annotation:a}", RESTRICT], &pod, 4);
    assert!(stderr.contains("`b/c` cannot be part of a path"), "{stderr}");
    assert!(service.asked().is_empty(), "nothing was sent");
}

#[test]
fn pitfall_18_no_token_leaves_for_a_registry_that_no_flag_names() {
    let (service, url) = service();
    let token = service.pod_token(600);
    for method in ["--pass", &url] {
        let pod = request("registry.example:5000.evil/app", &token, &json!({}));
        let stderr = refusal(&[method, RESTRICT], &pod, 4);
        assert!(stderr.contains("is not one of the registries of `--registry`"), "{stderr}");
        let stderr = refusal(&[method], &pod, 2);
        assert!(stderr.contains("`--registry` is missing"), "{stderr}");
    }
    assert!(service.asked().is_empty());
}

#[test]
fn tokens_that_nobody_would_accept_are_not_sent() {
    let (service, url) = service();
    let stderr = refusal(&[&url, RESTRICT], &request(IMAGE, &service.pod_token(-5), &json!({})), 1);
    assert!(stderr.contains("expired at"), "{stderr}");
    let without = json!({"kind": "CredentialProviderRequest", "image": IMAGE,
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1"});
    let stderr = refusal(&[&url, RESTRICT], &without.to_string(), 2);
    assert!(stderr.contains("hint: set `tokenAttributes`"), "{stderr}");
    // No token of the API server's audience is taken by default.
    let ended = plugin(&[&url]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""));
    assert!(ended.stderr.contains("`--token-file`"), "{ended:?}");
    let (_directory, path) = file("\n");
    let ended = plugin(&[&url, &format!("--token-file={path}")]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    let ended = plugin(&[&url, "--token-variable=NOWHERE"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("`NOWHERE`"), "{ended:?}");
    assert!(service.asked().is_empty());
}

#[test]
fn pitfall_35_an_answer_without_a_login_is_never_a_success() {
    let (service, url) = service();
    let pod = request(IMAGE, &service.pod_token(600), &json!({}));
    let cases: &[(Value, &str)] = &[
        (json!({"access_token": null}), "has no text at `/access_token`"),
        (json!({"access_token": ""}), "has no text at `/access_token`"),
        (json!({"access_token": 7}), "has no text at `/access_token`"),
        (json!({"expires_in": "soon"}), "has no time at `/expires_in`"),
        (json!({"expires_in": 0}), "before it arrived"),
        (json!({"token_type": "DPoP"}), "of no use without its key"),
        (json!({"issued_token_type": "urn:x"}), "and issued `urn:x`"),
    ];
    for (patch, why) in cases {
        service.patch(patch.clone());
        let stderr = refusal(&[&url, RESTRICT, "--requested-token-type=jwt"], &pod, 1);
        assert!(stderr.contains(why), "{patch}: {stderr}");
    }
    service.patch(json!({"expires_in": null, "token_type": "N_A"}));
    let answer = super::answer(&[&url, RESTRICT], &pod);
    // Five minutes are assumed.
    super::assert_cached(&answer, 270);
    for body in ["", "[]", "null", "<html>", "\"token\""] {
        let answer = Instead { status: "200 OK", headers: String::new(), body: body.into() };
        service.answer(Some(answer));
        let stderr = refusal(&[&url, RESTRICT], &pod, 1);
        assert!(stderr.contains("is not a JSON object"), "{body}: {stderr}");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let (service, url) = service();
    let other = StandIn::start();
    let pod = request(IMAGE, &service.pod_token(600), &json!({}));
    let headers = format!("Location: {}/token\r\n", other.url);
    service.answer(Some(Instead { status: "307 Temporary Redirect", headers, body: "{}".into() }));
    let stderr = refusal(&[&url, RESTRICT], &pod, 1);
    assert!(stderr.contains("hint: redirects are not followed"), "{stderr}");
    assert!(other.asked().is_empty());
}

#[test]
fn no_message_shows_a_secret_that_a_server_repeats() {
    let service = StandIn::start();
    let token = service.pod_token(600);
    let pod = request(IMAGE, &token, &json!({}));
    let (_directory, secret) = file("marked-client-secret");
    let secret = format!("--client-secret-file={secret}");
    let (_directory2, token_file) = file(&token);
    let token_file = format!("--token-file={token_file}");
    let at = |flag: &str, path: &str| format!("--{flag}={}{path}", service.url);
    let (url, login, post) = (at("token-url", "/token"), at("jwt-login", ""), at("post", "/login"));
    let methods: [&[&str]; 3] = [
        &[&url, "--client-id=c", &secret],
        &[&login, "--role=puller"],
        &[&post, r#"--body={"t":"{token}"}"#, "--password-at=/x"],
    ];
    for method in methods {
        let repeated = format!("you sent {token} and marked-client-secret");
        for body in [
            json!({"error": "invalid_grant", "error_description": repeated}),
            json!({"errors": [repeated]}),
            json!({"errors": [{"message": repeated}]}),
            json!({"message": repeated}),
        ] {
            let answer = Instead {
                status: "400 Bad Request",
                headers: String::new(),
                body: body.to_string(),
            };
            service.answer(Some(answer));
            let stderr = refusal(&[method, &[RESTRICT]].concat(), &pod, 4);
            let report = plugin(&[method, &[&token_file, "--explain"]].concat());
            for shown in [&stderr, &report.stdout, &report.stderr] {
                assert!(shown.contains("you sent [hidden]"), "{shown}");
                assert!(!shown.contains(&token) || token.is_empty(), "{shown}");
            }
            if method.contains(&secret.as_str()) {
                assert!(!stderr.contains("marked-client-secret"), "{stderr}");
            }
        }
        // Not JSON: nothing of it is shown.
        let body = format!("<html>{token}");
        service.answer(Some(Instead { status: "500 Oops", headers: String::new(), body }));
        let stderr = refusal(&[method, &[RESTRICT]].concat(), &pod, 1);
        assert!(!stderr.contains(&token) && stderr.contains("answered 500"), "{stderr}");
    }
}

#[test]
fn no_message_shows_the_password_or_query_of_an_address() {
    let service = StandIn::start();
    let pod = request(IMAGE, &service.pod_token(600), &json!({}));
    let address = service.url.replace("://", "://u:m4rk3d@");
    let (url, login) =
        (format!("--token-url={address}/token?q=m4rk3d"), format!("--jwt-login={address}"));
    let post = format!("--post={address}/login?q=m4rk3d");
    let methods: [&[&str]; 3] = [
        &[&url],
        &[&login, "--role=puller"],
        &[&post, r#"--body={"t":"{token}"}"#, "--password-at=/x"],
    ];
    for method in methods {
        for (status, body) in [
            ("400 Bad Request", "{}"),
            ("200 OK", "[]"),
            ("200 OK", "{}"),
            ("200 OK", r#"{"token_type":"x"}"#),
        ] {
            let answer = Instead { status, headers: String::new(), body: body.into() };
            service.answer(Some(answer));
            let ended = kubelet(&[method, &[RESTRICT]].concat(), &pod);
            assert!(ended.code != Some(0) && ended.stderr.contains("127.0.0.1"), "{ended:?}");
            assert!(!ended.stderr.contains("m4rk3d"), "{ended:?}");
        }
    }
}

#[test]
fn the_explanation_names_the_identity_and_the_service_and_no_secret() {
    let (service, url) = service();
    let token = service.pod_token(600);
    let (_directory, path) = file(&token);
    let of_file = format!("--token-file={path}");
    for args in [
        &[&url, of_file.as_str(), "--explain"][..],
        &[&url, &of_file, RESTRICT, "--explain", IMAGE],
    ] {
        let report = plugin(args).printed();
        for part in [
            "`system:serviceaccount:team:puller` of `https://kubernetes.default.svc` for `exchange`",
            "used     token exchange: ",
            "result   a credential",
        ] {
            assert!(report.contains(part), "{report}");
        }
        assert!(!report.contains(&token) && !report.contains("access-of-"), "{report}");
    }
    let report = plugin(&[&url, &of_file, RESTRICT, "--explain", "other.example/app"]);
    assert_eq!(report.code, Some(4), "{report:?}");
}
