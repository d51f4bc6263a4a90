//! The same identity, or a refusal where google-auth refuses, in a table of environments.

use serde_json::{Value, json};

use super::stage::{
    Stage, authorized_user, aws, external, external_user, gdch, impersonated, printed, request,
    service_account, with,
};

/// What happens.
enum Expected {
    /// Both get the same token.
    Token,
    /// Both refuse; ours with this exit code and these words.
    Refusal(i32, &'static str),
}

use Expected::{Refusal, Token};

type Case = (&'static str, Box<dyn Fn(&mut Stage)>, Expected);

fn case(what: &'static str, set: impl Fn(&mut Stage) + 'static, expected: Expected) -> Case {
    (what, Box::new(set), expected)
}

/// A file that lacks a member.
fn without(info: &Value, name: &str) -> Value {
    let mut info = info.clone();
    info.as_object_mut().unwrap().remove(name);
    info
}

fn adc(what: &'static str, info: Value, expected: Expected) -> Case {
    case(what, move |stage| _ = stage.adc(&info), expected)
}

fn files() -> Vec<Case> {
    const GCLOUD: &str = ".config/gcloud/application_default_credentials.json";
    vec![
        case("nothing", |_| {}, Refusal(2, "no Google credentials are configured")),
        case("gcloud's file", |s| _ = s.file(GCLOUD, &authorized_user().to_string()), Token),
        case(
            "CLOUDSDK_CONFIG",
            |s| {
                s.env("CLOUDSDK_CONFIG", "{home}/other");
                s.file(
                    "other/application_default_credentials.json",
                    &service_account().to_string(),
                );
                s.file(GCLOUD, &authorized_user().to_string());
            },
            Token,
        ),
        case(
            "the variable wins",
            |s| _ = s.adc(&service_account()).file(GCLOUD, &authorized_user().to_string()),
            Token,
        ),
        case(
            "the variable names no file",
            |s| {
                s.env("GOOGLE_APPLICATION_CREDENTIALS", "{home}/none");
                s.file(GCLOUD, &authorized_user().to_string());
            },
            Refusal(2, "none`: "),
        ),
        case(
            "an empty variable",
            |s| {
                s.env("GOOGLE_APPLICATION_CREDENTIALS", "");
                s.file(GCLOUD, &authorized_user().to_string());
            },
            Token,
        ),
        case("a broken file of gcloud", |s| _ = s.file(GCLOUD, "{"), Refusal(2, "is no JSON")),
        case(
            "a file before the metadata server",
            |s| _ = s.metadata().file(GCLOUD, &authorized_user().to_string()),
            Token,
        ),
        case("metadata", |s| _ = s.metadata(), Token),
        case(
            "metadata switched off",
            |s| _ = s.metadata().env("NO_GCE_CHECK", "true"),
            Refusal(2, "no Google credentials are configured"),
        ),
        adc("no type", json!({}), Refusal(2, "`type` is none of")),
        adc("another type", json!({"type": "other"}), Refusal(2, "`type` is none of")),
        adc(
            "the server refuses",
            with(service_account(), "token_uri", "http://{standIn}/refuse/token"),
            Refusal(4, "Token has been revoked."),
        ),
        adc(
            "an empty answer",
            with(service_account(), "token_uri", "http://{standIn}/empty/token"),
            Refusal(1, "answered without a token"),
        ),
        adc(
            "nobody answers",
            with(service_account(), "token_uri", "http://127.0.0.1:1/token"),
            Refusal(1, "cannot use `http://127.0.0.1:1/token`"),
        ),
        adc(
            "a server that recovers",
            with(service_account(), "token_uri", "http://{standIn}/flaky/token"),
            Token,
        ),
    ]
}

/// Files that lack something they need.
fn incomplete() -> Vec<Case> {
    let mut cases = Vec::new();
    let needed: [(&'static str, Value, &[&str]); 5] = [
        ("authorized_user", authorized_user(), &["client_id", "client_secret", "refresh_token"]),
        ("service_account", service_account(), &["client_email", "private_key"]),
        (
            "external_account_authorized_user",
            external_user(),
            &["client_id", "client_secret", "refresh_token", "token_url"],
        ),
        (
            "gdch_service_account",
            gdch(),
            &["format_version", "private_key", "name", "project", "token_uri"],
        ),
        ("external_account", external(&json!({"file": "/dev/null"})), &["credential_source"]),
    ];
    for (kind, info, names) in needed {
        for name in names {
            let case = adc(kind, without(&info, name), Refusal(2, "is "));
            cases.push(case);
        }
    }
    cases.extend([
        adc("another version", with(gdch(), "format_version", "2"), Refusal(2, "format_version")),
        adc(
            "no key",
            with(service_account(), "private_key", "none"),
            Refusal(2, "private key in PEM"),
        ),
        adc(
            "a source of another type",
            impersonated(&json!({"type": "gdch_service_account"})),
            Refusal(2, "source_credentials.type"),
        ),
    ]);
    cases
}

fn federation() -> Vec<Case> {
    let source = |source: Value| external(&source);
    let program = |more: Value| {
        let mut executable = json!({"command": "{home}/print"});
        for (name, value) in more.as_object().unwrap() {
            executable[name] = value.clone();
        }
        external(&json!({ "executable": executable }))
    };
    let print = |what: &'static str, answer: &'static str, expected| {
        let info = program(json!({}));
        case(
            what,
            move |stage: &mut Stage| {
                stage.program("print", &format!("echo '{answer}'"));
                stage.env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1").adc(&info);
            },
            expected,
        )
    };
    vec![
        adc("no file", source(json!({"file": "{home}/none"})), Refusal(1, "none`, the token")),
        adc(
            "no token in the file",
            source(json!({"file": "/dev/null"})),
            Refusal(1, "holds no token"),
        ),
        adc("no source", source(json!({})), Refusal(2, "neither `file`, `url`")),
        adc(
            "two sources",
            source(json!({"file": "a", "url": "b"})),
            Refusal(2, "a `file` and a `url`"),
        ),
        adc(
            "the url refuses",
            source(json!({"url": "http://{standIn}/subject-none"})),
            Refusal(4, "refuses (status 403)"),
        ),
        adc(
            "no member in the answer",
            source(json!({"url": "http://{standIn}/subject.json",
                "format": {"type": "json", "subject_token_field_name": "none"}})),
            Refusal(1, "holds no token"),
        ),
        adc(
            "no name of the member",
            source(json!({"url": "http://{standIn}/subject.json", "format": {"type": "json"}})),
            Refusal(2, "subject_token_field_name"),
        ),
        adc(
            "another format",
            source(json!({"url": "http://{standIn}/subject.json", "format": {"type": "xml"}})),
            Refusal(2, "neither text nor json"),
        ),
        adc(
            "a project for a pool of workloads",
            with(
                source(json!({"url": "http://{standIn}/subject"})),
                "workforce_pool_user_project",
                "1",
            ),
            Refusal(2, "workforce_pool_user_project"),
        ),
        case(
            "a program that is not allowed",
            move |stage| {
                stage.program("print", "echo '{}'").adc(&program(json!({})));
            },
            Refusal(2, "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES=1"),
        ),
        print("a program that prints nothing useful", "{}", Refusal(1, "has no `version`")),
        print("no success", r#"{"version":1}"#, Refusal(1, "has no `success`")),
        print(
            "a program that refuses",
            r#"{"version":1,"success":false,"code":"401","message":"log in"}"#,
            Refusal(1, "401: log in"),
        ),
        print("another version", r#"{"version":2,"success":true}"#, Refusal(1, "another version")),
        print(
            "a token that has expired",
            r#"{"version":1,"success":true,"expiration_time":1,"token_type":"urn:ietf:params:oauth:token-type:jwt","id_token":"t"}"#,
            Refusal(1, "has expired"),
        ),
        print(
            "a token of another type",
            r#"{"version":1,"success":true,"token_type":"other","id_token":"t"}"#,
            Refusal(1, "not of the type"),
        ),
        case(
            "a program that fails",
            |stage| {
                stage
                    .program("print", "exit 3")
                    .env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1");
                stage.adc(&external(&json!({"executable": {"command": "{home}/print"}})));
            },
            Refusal(1, "exit code 3"),
        ),
        case(
            "a program with too much time",
            |stage| {
                stage
                    .program("print", "exit 3")
                    .env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1");
                let source =
                    json!({"executable": {"command": "{home}/print", "timeout_millis": 200_000}});
                stage.adc(&external(&source));
            },
            Refusal(2, "between 5000 and 120000"),
        ),
        adc(
            "aws, another version",
            {
                let mut info = aws();
                info["credential_source"]["environment_id"] = "aws2".into();
                info
            },
            Refusal(2, "environment_id"),
        ),
        adc(
            "aws, a check without TLS",
            {
                let mut info = aws();
                info["credential_source"]["regional_cred_verification_url"] =
                    "http://sts.example".into();
                info
            },
            Refusal(2, "is not that of `GetCallerIdentity`"),
        ),
    ]
}

#[test]
fn the_same_identity_or_refusal_as_google_auth_in_every_environment() {
    let cases: Vec<Case> = files().into_iter().chain(incomplete()).chain(federation()).collect();
    assert!(cases.len() >= 45, "{} cases", cases.len());
    for (what, set, expected) in cases {
        let mut stage = Stage::new();
        set(&mut stage);
        let judged = stage.judged(Some("https://api.gdc.example"));
        let ended = stage.run(&["--gdch-audience", "https://api.gdc.example"]);
        match expected {
            Token => {
                let (token, _) = printed(&ended);
                let theirs = judged["token"].as_str().unwrap_or_else(|| panic!("{what}: {judged}"));
                assert_eq!(token, theirs, "{what}: {} {}", request(&token), request(theirs));
            }
            Refusal(code, words) => {
                assert!(judged["refusal"].is_string(), "{what}: {judged}");
                assert_eq!(
                    (ended.code, ended.stdout.as_str()),
                    (Some(code), ""),
                    "{what}: {ended:?}"
                );
                assert!(ended.stderr.contains(words), "{what}: {ended:?}");
                for secret in ["client-secret", "refresh-me", "PRIVATE KEY-----", "aws-secret"] {
                    assert!(!ended.stderr.contains(secret), "{what}: {ended:?}");
                }
            }
        }
    }
}
