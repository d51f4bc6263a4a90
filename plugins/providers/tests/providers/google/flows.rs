//! Every flow that google-auth has, too: equal tokens mean equal requests.

use serde_json::{Value, json};

use super::stage::{
    ACCOUNT, Stage, authorized_user, aws, external, external_user, gdch, impersonated, printed,
    request, service_account, with,
};

const AUDIENCE: &str = "https://api.gdc.example";

/// Compares with the judge, and returns the token.
fn agree(what: &str, stage: &Stage) -> String {
    let judged = stage.judged(Some(AUDIENCE));
    let theirs = judged["token"].as_str().unwrap_or_else(|| panic!("{what}: {judged}"));
    let ended = stage.run(&["--gdch-audience", AUDIENCE]);
    let (token, end) = printed(&ended);
    assert_eq!(token, theirs, "{what}: ours {}, theirs {}", request(&token), request(theirs));
    let difference = end.unwrap() - judged["ends"].as_i64().unwrap();
    assert!(difference.abs() < 120, "{what}: the ends differ by {difference} s");
    token
}

fn agree_on(what: &str, info: &Value) {
    agree(what, Stage::new().adc(info));
}

#[test]
fn people_and_keys_get_the_tokens_of_google_auth() {
    agree_on("authorized_user", &authorized_user());
    agree_on("external_account_authorized_user", &external_user());
    agree_on("service_account", &service_account());
    agree_on("another id of the key", &with(service_account(), "private_key_id", "another"));
    agree_on("gdch_service_account", &gdch());
}

#[test]
fn impersonation_gets_the_tokens_of_google_auth() {
    for source in [authorized_user(), external_user(), service_account()] {
        agree_on(&format!("impersonated by {}", source["type"]), &impersonated(&source));
    }
    let delegates = json!(["one@project.iam.gserviceaccount.com"]);
    agree_on("delegates", &with(impersonated(&authorized_user()), "delegates", delegates));
}

#[test]
fn federation_with_a_file_or_a_url_gets_the_tokens_of_google_auth() {
    let file = external(&json!({"file": "{home}/subject"}));
    let staged = |info: &Value| {
        let mut stage = Stage::new();
        stage.file("subject", "the.subject.token\n").file("subject.json", r#"{"id":"in.json"}"#);
        stage.adc(info);
        stage
    };
    agree("file", &staged(&file));
    agree(
        "file, client",
        &staged(&with(with(file.clone(), "client_id", "c"), "client_secret", "s")),
    );
    agree(
        "file, impersonated",
        &staged(&with(file.clone(), "service_account_impersonation_url", ACCOUNT)),
    );
    let lifetime = json!({"token_lifetime_seconds": 1800});
    let short = with(file.clone(), "service_account_impersonation_url", ACCOUNT);
    agree("file, half an hour", &staged(&with(short, "service_account_impersonation", lifetime)));
    let format = json!({"type": "json", "subject_token_field_name": "id"});
    let source = json!({"file": "{home}/subject.json", "format": format});
    agree("JSON file", &staged(&external(&source)));
    let source = json!({"url": "http://{standIn}/subject", "headers": {"X-Subject": "robot"}});
    agree("url", &staged(&external(&source)));
    let format = json!({"type": "json", "subject_token_field_name": "access_token"});
    let source = json!({"url": "http://{standIn}/subject.json", "format": format});
    agree("JSON url", &staged(&external(&source)));
    let pool = "//iam.googleapis.com/locations/global/workforcePools/p/providers/q";
    let people = with(with(file, "audience", pool), "workforce_pool_user_project", "123");
    agree("workforce", &staged(&people));
    agree("workforce, client", &staged(&with(people, "client_id", "c")));
}

#[test]
fn federation_with_a_program_gets_the_tokens_of_google_auth() {
    const PRINTS: &str = r#"
        email="$GOOGLE_EXTERNAL_ACCOUNT_IMPERSONATED_EMAIL"
        [ "$1" = email ] || email=""
        printf '{"version":1,"success":true,"token_type":"%s","id_token":"%s","expiration_time":4102444800}' \
            "$GOOGLE_EXTERNAL_ACCOUNT_TOKEN_TYPE" \
            "$1|$GOOGLE_EXTERNAL_ACCOUNT_AUDIENCE|$GOOGLE_EXTERNAL_ACCOUNT_INTERACTIVE$GOOGLE_EXTERNAL_ACCOUNT_REVOKE|$email""#;
    let source =
        json!({"executable": {"command": "{home}/print 'two words'", "timeout_millis": 5000}});
    let mut stage = Stage::new();
    stage.program("print", PRINTS).env("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1");
    agree("executable", stage.adc(&external(&source)));
    let info = with(external(&source), "service_account_impersonation_url", ACCOUNT);
    agree("executable, impersonated", stage.adc(&info));
    // google-auth forgets the account that it documents for programs.
    let source = json!({"executable": {"command": "{home}/print email"}});
    let info = with(external(&source), "service_account_impersonation_url", ACCOUNT);
    let token = printed(&stage.adc(&info).run(&[])).0;
    let bearer = request(&token)["authorization"].as_str().unwrap().to_owned();
    let exchanged = request(bearer.strip_prefix("Bearer ").unwrap());
    let subject = exchanged["fields"]["subject_token"].as_str().unwrap();
    assert!(subject.ends_with("|00|other@project.iam.gserviceaccount.com"), "{subject}");
    let written = r#"{"version":1,"success":true,"token_type":"urn:ietf:params:oauth:token-type:jwt","id_token":"written","expiration_time":4102444800}"#;
    stage.file("out.json", written);
    let source =
        json!({"executable": {"command": "{home}/print x", "output_file": "{home}/out.json"}});
    agree("what the program wrote", stage.adc(&external(&source)));
    stage.file("out.json", &written.replace("4102444800", "1000"));
    agree("what it wrote has expired", stage.adc(&external(&source)));
}

#[test]
fn federation_with_aws_gets_the_tokens_of_google_auth() {
    let mut stage = Stage::new();
    let keys = |stage: &mut Stage| {
        stage.env("AWS_ACCESS_KEY_ID", "AKIDENV").env("AWS_SECRET_ACCESS_KEY", "aws-secret");
    };
    agree("the instance's role", stage.adc(&aws()));
    stage.env("AWS_DEFAULT_REGION", "us-gov-west-1");
    agree("the instance's role, another region", &stage);
    keys(&mut stage);
    agree("keys in the environment", &stage);
    agree("AWS_REGION wins", stage.env("AWS_REGION", "eu-central-1"));
    agree("keys of a session", stage.env("AWS_SESSION_TOKEN", "aws-session"));
    agree("impersonated", stage.adc(&with(aws(), "service_account_impersonation_url", ACCOUNT)));
}

#[test]
fn the_metadata_server_is_asked_as_google_auth_asks_it() {
    let mut stage = Stage::new();
    stage
        .unset("NO_GCE_CHECK")
        .env("GCE_METADATA_HOST", "{standIn}")
        .env("GCE_METADATA_IP", "{standIn}");
    let token = agree("metadata", &stage);
    assert_eq!(request(&token)["scopes"].as_array().unwrap().len(), 2);
}

#[test]
fn authorities_in_a_file_are_added_for_google_distributed_cloud() {
    let server = crate::tls::tls(&mut super::stage::judge());
    let info = with(gdch(), "token_uri", format!("{}/token", server.url));
    let mut stage = Stage::new();
    let refused = stage.adc(&info).run(&["--gdch-audience", AUDIENCE]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("certificate"), "{refused:?}");
    let trusted = with(info, "ca_cert_path", super::stage::text(&server.authority));
    printed(&stage.adc(&trusted).run(&["--gdch-audience", AUDIENCE]));
}
