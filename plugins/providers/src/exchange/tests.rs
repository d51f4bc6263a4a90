//! Templates and expiries, case by case.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use jiff::{SignedDuration, Timestamp};
use keyward_plugin::ImageQuestion;
use keyward_protocol::Secret;
use serde_json::{Value, json};

use super::{
    answer::{Answer, Login},
    template::{Document, Facts, Template},
};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn question(annotation: &str) -> ImageQuestion {
    let request = json!({
        "kind": "CredentialProviderRequest", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "image": "r.example:5000/team/app", "serviceAccountAnnotations": { "r.example/role": annotation },
    });
    ImageQuestion::from_bytes(request.to_string().as_bytes()).unwrap()
}

#[test]
fn a_value_cannot_leave_its_text() {
    let evil = r#"a","admin":true,"x":"{token}\"#;
    let (question, token) = (question(evil), Secret::new("t\"o"));
    let facts = Facts { token: &token, image: Some(&question) };
    let json = br#"{"jwt":"{token}","deep":[{"as":"{annotation:r.example/role}"}],"n":1,"{token}":"{{x}}"}"#;
    let filled = Document::parse("body", json).unwrap().fill(&facts).unwrap();
    let filled: Value = serde_json::from_slice(&filled).unwrap();
    let expected = json!({"jwt": "t\"o", "deep": [{"as": evil}], "n": 1, "{token}": "{x}"});
    assert_eq!(filled, expected);
}

#[test]
fn placeholders_have_values_of_the_request() {
    let (question, token) = (question("reader"), Secret::new("t"));
    let facts = Facts { token: &token, image: Some(&question) };
    let text = "{image} {registry} {repository} {annotation:r.example/role}";
    let filled = Template::parse("scope", text).unwrap().fill(&facts).unwrap();
    assert_eq!(filled, "r.example:5000/team/app r.example:5000 team/app reader");
    let nobody = Facts { token: &token, image: None };
    let refusal = Template::parse("scope", "{image}").unwrap().fill(&nobody).unwrap_err();
    assert!(refusal.to_string().contains("there is none"), "{refusal}");
    let missing = Template::parse("role", "{annotation:other}").unwrap().fill(&facts).unwrap_err();
    assert!(missing.to_string().contains("`other`"), "{missing}");
}

#[test]
fn templates_that_cannot_be_filled_are_refused_at_once() {
    for (text, why) in [
        ("{tokn}", "no placeholder `{tokn}`"),
        ("{annotation:}", "no placeholder"),
        ("a{b", "no partner"),
        ("a}b", "no partner"),
    ] {
        let refusal = Template::parse("role", text).unwrap_err().to_string();
        assert!(refusal.contains(why), "{refusal}");
    }
    assert!(Template::without_token("role", "x{token}").is_err());
    assert!(Document::parse("body", br#"{"a":["{tokn}"]}"#).is_err());
    let refusal = Document::parse("body", b"{\"a\": s3cr3t}").unwrap_err().to_string();
    assert_eq!(refusal, "`--body` is not JSON, at line 1, column 7");
}

#[test]
fn an_annotation_cannot_leave_its_place_in_a_path() {
    let token = Secret::new("t");
    for bad in ["../admin", "a/b", "..", "", "a?b", "a%2fb", "a b"] {
        let question = question(bad);
        let facts = Facts { token: &token, image: Some(&question) };
        let template = Template::parse("read", "kv/data/{annotation:r.example/role}").unwrap();
        assert!(template.fill_path(&facts).is_err(), "{bad}");
    }
    let question = question("team-a");
    let facts = Facts { token: &token, image: Some(&question) };
    let path = |text| Template::parse("read", text).unwrap().fill_path(&facts);
    assert_eq!(path("/kv/{annotation:r.example/role}/").unwrap(), "kv/team-a");
    assert_eq!(path("kv/{repository}").unwrap(), "kv/team/app");
    assert!(path("kv/../{repository}").is_err());
    assert!(path("kv//x").is_err());
}

#[test]
fn every_form_of_expiry_is_read() {
    let answer = |json| Answer { server: "https://s", json };
    let end = |value: Value| {
        let answer = answer(json!({ "e": value }));
        answer.end("/e", NOW).ok().map(Timestamp::as_second)
    };
    assert_eq!(end(json!(600)), Some(600));
    assert_eq!(end(json!(600.9)), Some(600));
    assert_eq!(end(json!("600")), Some(600));
    assert_eq!(end(json!(1_800_000_000)), Some(1_800_000_000));
    assert_eq!(end(json!(1_800_000_000_000_i64)), Some(1_800_000_000));
    assert_eq!(end(json!("1h30m")), Some(5400));
    assert_eq!(end(json!("2027-01-15T08:00:00Z")), Some(1_800_000_000));
    for bad in [json!(-5), json!("soon"), json!(null), json!(""), json!("-5m"), json!([])] {
        assert_eq!(end(bad.clone()), None, "{bad}");
    }
}

#[test]
fn a_result_ends_at_the_earliest_time_that_is_known() {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let lifetime = SignedDuration::from_mins(5);
    let end = |password: &str, ends: Option<i64>| {
        let ends = ends.map(|end| Timestamp::from_second(end).unwrap());
        let login = Login { user: None, password: Secret::new(password), ends };
        login.end(lifetime, NOW).ok().map(Timestamp::as_second)
    };
    let jwt = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(r#"{"exp":100}"#));
    assert_eq!(end("opaque", None), Some(300));
    assert_eq!(end("opaque", Some(50)), Some(50));
    assert_eq!(end(&jwt, None), Some(100));
    assert_eq!(end(&jwt, Some(50)), Some(50));
    assert_eq!(end(&jwt, Some(500)), Some(100));
    assert_eq!(end("opaque", Some(0)), None);
}
