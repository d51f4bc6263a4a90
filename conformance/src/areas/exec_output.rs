//! What is made of a plugin's answer: `vectors/exec-output.json`.

use keyward_host::Pair;
use keyward_protocol::{
    exec::{Answer, AnswerError, Detail, Version},
    time::parse_rfc3339,
};
use serde_json::{Value, json};

pub(super) fn check(case: &Value) -> Result<(), String> {
    let asked = case["configApiVersion"].as_str().unwrap_or_default();
    let stdout = case["stdout"].as_str().ok_or("no `stdout` in the case")?;
    let found = run(asked, stdout.as_bytes());
    let (expected, found) = match (&case["expect"]["ok"], found) {
        (Value::Null, Err((class, detail))) => {
            let error = &case["expect"]["error"];
            let wanted = (error["class"].as_str(), error["detail"].as_str());
            if wanted == (Some(class), detail) {
                return Ok(());
            }
            (format!("{wanted:?}"), format!("{class} {detail:?}"))
        }
        (ok, Ok(credential)) if !ok.is_null() => return compare(ok, &credential),
        (Value::Null, Ok(_)) => (case["expect"]["error"].to_string(), "accepted".to_owned()),
        (_, Err((class, detail))) => ("accepted".to_owned(), format!("{class} {detail:?}")),
        (_, Ok(_)) => return Err("neither `ok` nor `error` is expected".to_owned()),
    };
    Err(format!("expected {expected}, found {found}"))
}

/// What we make of a case, in the words of the vectors.
pub(crate) fn found(case: &Value) -> Value {
    let text = |field: &str| case[field].as_str().unwrap_or_default();
    match run(text("configApiVersion"), text("stdout").as_bytes()) {
        Err((class, None)) => json!({ "error": { "class": class } }),
        Err((class, detail)) => json!({ "error": { "class": class, "detail": detail } }),
        Ok(Credential { answer, pair }) => {
            let mut ok = json!({
                "token": answer.token.as_ref().map_or("", |token| token.expose()),
                "expiry": answer.expires.map(|expiry| expiry.to_string()),
                "hasCert": pair.is_some(),
            });
            if let Some(pair) = pair {
                ok["chainLength"] = json!(pair.chain.len());
                ok["leafCommonName"] = json!(pair.common_name.as_deref().unwrap_or(""));
            }
            json!({ "ok": ok })
        }
    }
}

/// An answer that was accepted, and its pair.
struct Credential {
    answer: Answer,
    pair: Option<Pair>,
}

/// The reference's names for what is wrong.
type Class = (&'static str, Option<&'static str>);

fn run(asked: &str, stdout: &[u8]) -> Result<Credential, Class> {
    let version = Version::parse(asked).ok_or(("config_api_version", None))?;
    let answer = Answer::read(stdout, version).map_err(|error| class(&error))?;
    let pair = match &answer.pair {
        Some(pem) => Some(Pair::parse(&pem.certificate, &pem.key).map_err(|_| ("bad_cert", None))?),
        None => None,
    };
    Ok(Credential { answer, pair })
}

fn class(error: &AnswerError) -> Class {
    match error {
        AnswerError::Empty => ("empty", None),
        AnswerError::Decode { detail, .. } => ("decode", Some(name(*detail))),
        // To the reference, v1alpha1 is as unknown as v9.
        AnswerError::VersionMismatch { found: Some(Version::V1Alpha1), .. } => {
            ("decode", Some("unknown_type"))
        }
        AnswerError::VersionMismatch { .. } => ("version_mismatch", None),
        AnswerError::MissingStatus | AnswerError::OldForm => ("missing_status", None),
        AnswerError::MissingCredentials => ("missing_credentials", None),
        AnswerError::PartialPair => ("partial_cert", None),
        _ => ("unknown to the vectors", None),
    }
}

fn name(detail: Detail) -> &'static str {
    match detail {
        Detail::Syntax => "syntax",
        Detail::NotAnObject => "not_an_object_or_bad_type_meta",
        Detail::UnknownType => "unknown_type",
        Detail::OtherType => "other_registered_type",
        Detail::FieldType => "field_type",
        Detail::Timestamp => "timestamp",
        Detail::BadApiVersion => "bad_api_version_string",
        _ => "unknown to the vectors",
    }
}

fn compare(expected: &Value, found: &Credential) -> Result<(), String> {
    let differs = |what: &str| Err(format!("{what} differs from {expected}"));
    let token = found.answer.token.as_ref().map_or("", |token| token.expose());
    if expected["token"].as_str() != Some(token) {
        return differs("the token");
    }
    let expiry = match expected["expiry"].as_str() {
        Some(text) => Some(parse_rfc3339(text).ok_or("the case's own time cannot be read")?),
        None => None,
    };
    if expiry != found.answer.expires {
        return differs("the expiry");
    }
    if expected["hasCert"].as_bool() != Some(found.pair.is_some()) {
        return differs("having a certificate");
    }
    let Some(pair) = &found.pair else { return Ok(()) };
    if expected["chainLength"].as_u64() != u64::try_from(pair.chain.len()).ok() {
        return differs("the length of the chain");
    }
    if expected["leafCommonName"].as_str() != Some(pair.common_name.as_deref().unwrap_or("")) {
        return differs("the common name");
    }
    Ok(())
}
