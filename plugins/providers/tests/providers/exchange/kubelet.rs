//! Logins for images, by every method.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};

use super::{
    IMAGE, REGISTRY, answer, assert_cached, file, plugin, request, service,
    stand_in::{POD, StandIn, key},
    token,
};

const RESTRICT: &str = "--registry=registry.example:5000";

#[test]
fn a_token_exchange_has_every_parameter_of_the_rfc() {
    let (service, url) = service();
    let pod = service.pod_token(600);
    let args = [
        &url,
        RESTRICT,
        "--audience=registry",
        "--audience=mirror & more",
        "--resource=https://{registry}/",
        "--scope=repository:{repository}:pull",
        "--scope=openid",
        "--requested-token-type=access_token",
        "--parameter=tenant={annotation:example.com/tenant}",
        "--client-id=nodes",
        "--username={annotation:example.com/tenant}",
    ];
    let answer = answer(&args, &request(IMAGE, &pod, &json!({"example.com/tenant": "blue"})));
    // A scope names the repository, so the login is for this image alone.
    assert_eq!(answer["cacheKeyType"], "Image");
    // 15 minutes, less a tenth.
    assert_cached(&answer, 810);
    assert_eq!(answer["auth"][IMAGE]["username"], "blue");
    assert_eq!(answer["auth"][IMAGE]["password"], format!("access-of-{POD}"));
    let asked = service.asked();
    let pairs = [
        ("audience", "mirror & more"),
        ("audience", "registry"),
        ("client_id", "nodes"),
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("resource", "https://registry.example:5000/"),
        ("scope", "repository:team/app:pull openid"),
        ("subject_token", &pod),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
        ("tenant", "blue"),
    ];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].form(), pairs);
    assert!(!asked[0].headers.contains_key("authorization"));
}

#[test]
fn a_login_is_for_the_whole_registry_unless_the_image_is_sent() {
    let (service, url) = service();
    let pod = service.pod_token(600);
    let answer = answer(&[&url, "--registry=*.example:5000"], &request(IMAGE, &pod, &json!({})));
    assert_eq!(answer["cacheKeyType"], "Registry");
    assert_eq!(answer["auth"][REGISTRY]["username"], "service-account");
    let named = ["--username-annotation=example.com/user", "--username=nobody"];
    for (annotations, user) in [(json!({"example.com/user": "ann"}), "ann"), (json!({}), "nobody")]
    {
        let args = [&url, RESTRICT, named[0], named[1]];
        let answer = super::answer(&args, &request(IMAGE, &pod, &annotations));
        assert_eq!(answer["auth"][REGISTRY]["username"], user);
    }
}

#[test]
fn a_client_proves_who_it_is_by_secret_key_or_assertion() {
    let (service, url) = service();
    let pod = request(IMAGE, &service.pod_token(600), &json!({}));
    let (_directory, secret) = file("a secret & more\n");
    let secret = format!("--client-secret-file={secret}");
    answer(&[&url, RESTRICT, "--client-id=no:des", &secret], &pod);
    let asked = service.asked().remove(0);
    // Both are escaped before they are joined (RFC 6749, 2.3.1).
    let basic =
        base64::engine::general_purpose::STANDARD.encode("no%3Ades:a%20secret%20%26%20more");
    assert_eq!(asked.headers["authorization"], format!("Basic {basic}"));
    assert!(!asked.body.contains("client"), "{}", asked.body);

    let pair = rcgen::KeyPair::generate().unwrap();
    let (_directory, pem) = file(&pair.serialize_pem());
    let pem = format!("--client-key={pem}");
    let with_key = [&url, RESTRICT, "--client-id=nodes", &pem, "--client-key-id=k1"];
    let mut seen = Vec::new();
    for _ in 0..2 {
        answer(&with_key, &pod);
        let form = service.asked().remove(0).form();
        let value = |name: &str| form.iter().find(|(known, _)| known == name).unwrap().1.clone();
        assert_eq!(
            value("client_assertion_type"),
            "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        );
        let assertion = value("client_assertion");
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key_raw())
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .unwrap();
        let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(claims["aud"], url.trim_start_matches("--token-url="));
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!("nodes"), &json!("nodes")));
        seen.push(claims["jti"].clone());
    }
    assert_ne!(seen[0], seen[1]);

    let (_directory, assertion) = file("header.claims.signature\n");
    let assertion = format!("--client-assertion-file={assertion}");
    answer(&[&url, RESTRICT, "--client-id=nodes", &assertion], &pod);
    assert!(service.asked()[0].body.ends_with("client_assertion=header.claims.signature"));
}

#[test]
fn a_jwt_login_gives_its_own_token_or_a_secret() {
    let service = StandIn::start();
    let pod = request(IMAGE, &service.pod_token(600), &json!({"example.com/role": "puller"}));
    let login = format!("--jwt-login={}/", service.url);
    let role = "--role={annotation:example.com/role}";
    let own = answer(&[&login, RESTRICT, role, "--mount=k8s/prod", "--namespace=team"], &pod);
    assert_eq!(own["auth"][REGISTRY]["password"], format!("hvs.{POD}"));
    assert_cached(&own, 1080);
    let asked = service.asked();
    assert_eq!(asked[0].line, "POST /v1/auth/k8s/prod/login");
    assert_eq!(asked[0].headers["x-vault-namespace"], "team");
    assert_eq!(asked[0].headers["x-vault-request"], "true");

    for (path, kept) in [("secret/data/registry", 1080), ("/registry/creds/puller", 540)] {
        let read = answer(&[&login, RESTRICT, role, &format!("--read={path}")], &pod);
        let auth = &read["auth"][REGISTRY];
        assert_eq!(
            (&auth["username"], &auth["password"]),
            (&json!("puller"), &json!("s3cr3t-one"))
        );
        // A lease ends by itself; what has none is read again when the login ends.
        assert_cached(&read, kept);
    }
    let lines: Vec<String> = service.asked().into_iter().map(|asked| asked.line).collect();
    assert_eq!(lines[1], "GET /v1/secret/data/registry");
    let swapped = ["--username-at=/data/data/password", "--password-at=/data/data/username"];
    let read = answer(
        &[&login, RESTRICT, role, "--read=secret/data/registry", swapped[0], swapped[1]],
        &pod,
    );
    assert_eq!(read["auth"][REGISTRY]["password"], "puller");
}

#[test]
fn a_request_may_have_any_form() {
    let service = StandIn::start();
    let evil = r#"x","oidc_token":"forged"#;
    let pod = service.pod_token(600);
    let body =
        r#"{"oidc_token":"{token}","service":{"slug":"{annotation:example.com/slug}","n":1}}"#;
    let post = format!("--post={}/login", service.url);
    let flags = [
        &post,
        RESTRICT,
        "--header=X-Image={image}",
        "--username-at=/result/0/user",
        "--password-at=/result/0/key",
        "--expiry-at=/expires",
    ];
    let (_directory, path) = file(body);
    for given in [format!("--body={body}"), format!("--body-file={path}")] {
        let args = [&flags[..], &[&given]].concat();
        let answer = answer(&args, &request(IMAGE, &pod, &json!({"example.com/slug": evil})));
        let auth = &answer["auth"][IMAGE];
        assert_eq!(
            (&auth["username"], &auth["password"]),
            (&json!("puller"), &json!("s3cr3t-one"))
        );
        let asked = service.asked().remove(0);
        assert_eq!(asked.headers["x-image"], IMAGE);
        assert_eq!(asked.headers["content-type"], "application/json");
        let sent: Value = serde_json::from_str(&asked.body).unwrap();
        assert_eq!(sent, json!({"oidc_token": pod, "service": {"slug": evil, "n": 1}}));
    }
}

#[test]
fn a_token_is_passed_on_until_it_ends() {
    let service = StandIn::start();
    let pod = service.pod_token(600);
    let answer = answer(&["--pass", RESTRICT], &request(IMAGE, &pod, &json!({})));
    assert_eq!(answer["auth"][REGISTRY]["password"], pod.as_str());
    assert_cached(&answer, 540);
    let (_directory, path) = file(&format!("{pod}\n"));
    let (printed, rest) = token(plugin(&["--pass", &format!("--token-file={path}")]));
    assert_eq!(printed, pod);
    assert!((500..=590).contains(&rest), "{rest}");
    assert!(service.asked().is_empty());
}

#[test]
fn a_cluster_gets_the_token_of_a_file_or_a_variable_exchanged() {
    let (service, url) = service();
    let (_directory, path) = file(&format!("{}\n", service.pod_token(600)));
    let of_file = format!("--token-file={path}");
    for args in [&[&url, of_file.as_str()][..], &[&url, &of_file, "get-token"]] {
        let (printed, rest) = token(plugin(args));
        assert_eq!(printed, format!("access-of-{POD}"));
        assert!((800..=890).contains(&rest), "{rest}");
    }
    // By hand and in CI, without a client that says which version it wants.
    let by_hand = crate::program::Run::named("keyward-exchange")
        .args([&url, "--token-variable=CI_TOKEN", "get-token"])
        .env("CI_TOKEN", service.pod_token(600))
        .env("CI", "true")
        .run();
    assert!(by_hand.stdout.contains("client.authentication.k8s.io/v1beta1"), "{by_hand:?}");
    assert_eq!(token(by_hand).0, format!("access-of-{POD}"));
}

#[test]
fn a_forged_or_foreign_token_is_refused_by_the_service() {
    let (service, url) = service();
    let now = jiff::Timestamp::now().as_second();
    let forged = super::stand_in::signed(
        &key(),
        &json!({"sub": POD, "aud": ["exchange"], "exp": now + 600}),
    );
    let ended = super::kubelet(&[&url, RESTRICT], &request(IMAGE, &forged, &json!({})));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""));
    assert!(ended.stderr.contains("invalid_request: bad signature"), "{ended:?}");
    assert_eq!(service.asked().len(), 1);
}
