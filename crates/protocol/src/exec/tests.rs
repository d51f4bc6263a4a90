#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::{Node, Secret};

const V1: &str = "client.authentication.k8s.io/v1";

fn answer(status: &str) -> String {
    format!(r#"{{"kind":"ExecCredential","apiVersion":"{V1}","status":{status}}}"#)
}

fn refusal(stdout: &str, version: Version) -> AnswerError {
    Answer::read(stdout.as_bytes(), version).unwrap_err()
}

fn message(stdout: &str) -> String {
    refusal(stdout, Version::V1).to_string()
}

fn alpha(text: &str) -> String {
    text.replace("VERSION", Version::V1Alpha1.api_version())
}

fn response() -> Response {
    let header = vec![
        ("Www-Authenticate".to_owned(), vec!["Bearer realm=\"x\"".to_owned()]),
        ("Date".to_owned(), vec!["today".to_owned(), "now".to_owned()]),
    ];
    Response { code: 401, header }
}

#[test]
fn a_request_has_no_more_than_it_must() {
    for version in [Version::V1Beta1, Version::V1] {
        let mut request = Request::new(version);
        request.response = Some(response());
        let expected = format!(
            "{{\"kind\":\"ExecCredential\",\"apiVersion\":\"{}\",\"spec\":{{\"interactive\":false}}}}\n",
            version.api_version()
        );
        assert_eq!(request.to_json(), expected);
    }
}

#[test]
fn a_cluster_is_written_in_the_order_of_the_reference() {
    let mut request = Request::new(Version::V1);
    request.interactive = true;
    request.cluster = Some(Cluster {
        server: "https://h".into(),
        tls_server_name: "sni".into(),
        insecure_skip_tls_verify: true,
        certificate_authority_data: b"ca".to_vec(),
        proxy_url: "http://p".into(),
        disable_compression: true,
        config: Some(Node::from_yaml(b"b: <1>\na: 0x10").unwrap()),
    });
    assert_eq!(
        request.to_json(),
        concat!(
            r#"{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"#,
            r#""cluster":{"server":"https://h","tls-server-name":"sni","#,
            r#""insecure-skip-tls-verify":true,"certificate-authority-data":"Y2E=","#,
            r#""proxy-url":"http://p","disable-compression":true,"#,
            r#""config":{"a":16,"b":"\u003c1\u003e"}},"interactive":true}}"#,
            "\n"
        )
    );
}

#[test]
fn under_v1alpha1_the_refusal_is_told_where_both_kinds_of_plugin_look() {
    let mut request = Request::new(Version::V1Alpha1);
    request.response = Some(response());
    let said = r#""response":{"header":{"Date":["today","now"],"Www-Authenticate":["Bearer realm=\"x\""]},"code":401},"interactive":false"#;
    let expected = format!(
        "{{\"kind\":\"ExecCredential\",\"apiVersion\":\"VERSION\",\"spec\":{{{said}}},{said}}}\n"
    );
    assert_eq!(request.to_json(), alpha(&expected));
    request.form = Form::ExecInfo;
    let expected = format!("{{\"kind\":\"ExecInfo\",\"apiVersion\":\"VERSION\",{said}}}\n");
    assert_eq!(request.to_json(), alpha(&expected));
}

#[test]
fn a_request_that_was_written_reads_the_same() {
    for version in Version::ALL {
        for form in [Form::ExecCredential, Form::ExecInfo] {
            let mut request = Request::new(version);
            request.interactive = true;
            if version == Version::V1Alpha1 {
                request.form = form;
                let mut response = response();
                response.header.sort();
                request.response = Some(response);
            }
            if request.form == Form::ExecCredential {
                let server = "https://h".to_owned();
                request.cluster = Some(Cluster { server, ..Cluster::default() });
            }
            let reading = Request::read(request.to_json().as_bytes()).unwrap();
            assert_eq!((reading.request, reading.notes), (request, vec![]));
        }
    }
}

#[test]
fn stale_names_of_an_early_sample_are_noted() {
    let text = format!(
        r#"{{"kind":"ExecCredential","apiVersion":"{V1}","spec":{{"cluster":{{"serverName":"a","caData":"b"}}}}}}"#
    );
    let reading = Request::read(text.as_bytes()).unwrap();
    assert_eq!(reading.notes, [Note::ServerName, Note::CaData]);
    assert_eq!(reading.request.cluster, Some(Cluster::default()));
}

#[test]
fn a_request_of_another_kind_or_version_is_not_read() {
    for (text, expected) in [
        (r#"{"kind":"ExecCredential"}"#.to_owned(), "`apiVersion` is missing"),
        (format!(r#"{{"apiVersion":"{V1}"}}"#), "`kind` is missing"),
        (format!(r#"{{"apiVersion":"{V1}","kind":"ExecInfo"}}"#), "`kind` is not"),
        (format!(r#"{{"apiVersion":"{V1}","kind":"Status"}}"#), "`kind` is not"),
        (format!(r#"{{"apiVersion":"{V1}9","kind":"ExecCredential"}}"#), "version we do not know"),
        ("{".to_owned(), "the document ends"),
    ] {
        let error = Request::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_second_status_adds_to_the_first_and_null_takes_it_back() {
    let twice = r#"{"token":"a"},"status":{"expirationTimestamp":"2030-01-01T00:00:00Z"}"#;
    let read = Answer::read(answer(twice).as_bytes(), Version::V1).unwrap();
    assert_eq!(read.token, Some(Secret::new("a")));
    assert_eq!(read.expires, crate::time::parse_rfc3339("2030-01-01T00:00:00Z"));
    let gone = answer(r#"{"token":"a"},"status":null"#);
    assert_eq!(refusal(&gone, Version::V1), AnswerError::MissingStatus);
}

#[test]
fn nothing_printed_is_not_called_a_wrong_version() {
    for stdout in ["", " \n\t\r\n"] {
        assert_eq!(refusal(stdout, Version::V1), AnswerError::Empty);
    }
    assert_eq!(
        message("{}"),
        "`apiVersion` is missing; `client.authentication.k8s.io/v1` was asked for"
    );
}

#[test]
fn talk_before_the_answer_is_named_as_such() {
    let text = format!("Logging in...\n{}", answer(r#"{"token":"a"}"#));
    assert!(message(&text).starts_with("something was printed before the answer"));
    let text = format!("{}\nbye", answer(r#"{"token":"a"}"#));
    assert!(message(&text).starts_with("there is more after the end"), "{}", message(&text));
}

#[test]
fn a_wrong_expiry_is_told_the_right_form() {
    for expiry in ["1893456000", r#""tomorrow""#, "{}"] {
        let text = answer(&format!(r#"{{"token":"a","expirationTimestamp":{expiry}}}"#));
        let message = message(&text);
        assert!(message.contains("`status.expirationTimestamp` must be a time of RFC 3339"));
        assert!(!message.contains("tomorrow"));
    }
}

#[test]
fn the_form_of_the_original_proposal_is_for_v1alpha1_only() {
    let text =
        alpha(r#"{"kind":"ExecCredentials","apiVersion":"VERSION","token":"t","expiry":60}"#);
    let read = Answer::read(text.as_bytes(), Version::V1Alpha1).unwrap();
    assert_eq!(read.token, Some(Secret::new("t")));
    assert_eq!(read.expires.unwrap().as_second(), 60);
    let later = text.replace("v1alpha1", "v1");
    assert!(message(&later).contains("with the credentials in `status`"));
    let flat = later.replace("ExecCredentials", "ExecCredential");
    assert_eq!(refusal(&flat, Version::V1), AnswerError::OldForm);
}

#[test]
fn year_one_means_never_and_a_time_beyond_ours_is_the_last_we_know() {
    let expiry = |text: &str| {
        let text = answer(&format!(r#"{{"token":"a","expirationTimestamp":"{text}"}}"#));
        Answer::read(text.as_bytes(), Version::V1).unwrap().expires
    };
    assert_eq!(expiry("0001-01-01T00:00:00Z"), None);
    assert_eq!(expiry("0001-01-01T01:00:00+01:00"), None);
    assert_eq!(expiry("9999-12-31T23:59:59Z"), Some(jiff::Timestamp::MAX));
}

#[test]
fn no_error_repeats_what_was_printed() {
    for status in [
        r#"{"token":["s3cr3t"]}"#,
        r#"{"token":"s3cr3t","expirationTimestamp":"s3cr3t"}"#,
        r#"{"clientKeyData":"s3cr3t"}"#,
        r#"{"token":"s3cr3t"} s3cr3t"#,
        r#""s3cr3t""#,
    ] {
        let error = refusal(&answer(status), Version::V1);
        assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error:?}");
    }
}

#[test]
fn an_answer_that_was_written_reads_the_same() {
    for version in Version::ALL {
        for form in [Form::ExecCredential, Form::ExecInfo] {
            let written = Answer {
                version,
                token: Some(Secret::new("t<>\"\n")),
                pair: Some(PemPair { certificate: "c\n".into(), key: Secret::new("k\n") }),
                expires: Some(jiff::Timestamp::from_second(1_893_456_000).unwrap()),
            };
            let text = written.to_json(form);
            assert_eq!(Answer::read(text.expose().as_bytes(), version).unwrap(), written);
        }
    }
}

#[test]
fn debug_shows_neither_passwords_of_a_request_nor_what_a_server_said() {
    let request = Request {
        cluster: Some(Cluster {
            server: "https://ann:s3cr3t@h".into(),
            proxy_url: "http://bea:s3cr3t@p:3128".into(),
            ..Cluster::default()
        }),
        response: Some(Response {
            code: 401,
            header: vec![("Set-Cookie".into(), vec!["id=s3cr3t".into()])],
        }),
        ..Request::new(Version::V1)
    };
    let shown = format!("{request:?}");
    assert!(shown.contains("bea") && shown.contains("Set-Cookie"), "{shown}");
    assert!(!shown.contains("s3cr3t"), "{shown}");
}
