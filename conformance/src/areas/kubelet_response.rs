use keyward_protocol::image::{CacheKey, Response, ResponseError, Version};
use serde_json::{Value, json};

/// The default duration of the reference's run, in nanoseconds: one minute.
const DEFAULT: i64 = 60_000_000_000;

pub(super) fn check(case: &Value) -> Result<(), String> {
    let text = |field: &str| case[field].as_str().ok_or(format!("`{field}` is not a text"));
    let version = Version::parse(text("configApiVersion")?).ok_or("a version we do not know")?;
    let seen = match Response::read(text("stdout")?.as_bytes(), version) {
        Ok(response) => accepted(&response),
        Err(error) => {
            let class = match error {
                ResponseError::Unreadable(_) => "type_unreadable",
                ResponseError::VersionMismatch { .. } => "version_mismatch",
                _ => "decode",
            };
            json!({ "error": { "class": class } })
        }
    };
    if seen == case["expect"] { Ok(()) } else { Err(format!("{seen}, wanted {}", case["expect"])) }
}

fn accepted(response: &Response) -> Value {
    let mut auth: Vec<String> = response
        .auth
        .iter()
        .map(|(pattern, login)| format!("{pattern}={}:{}", login.username, login.password.expose()))
        .collect();
    auth.sort();
    let accepts = !matches!(response.key, CacheKey::Other(_));
    let kept = accepts && response.duration.unwrap_or(DEFAULT) != 0;
    json!({ "ok": {
        "auth": auth,
        "cacheDurationNanos": response.duration,
        "cacheKeyType": response.key.name(),
        "cachedEntries": i32::from(kept),
        "providerAccepts": accepts,
    } })
}
