use std::fs;

use keyward_image::{Class, Config, Files, Problem, Protocol, Stage, TokenCache};
use serde_json::{Value, json};

pub(super) fn check(case: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let files = case["files"].as_object().ok_or("`files` is not an object")?;
    for (name, content) in files {
        let path = folder.path().join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|e| e.to_string())?;
        }
        let content = content.as_str().ok_or("a file is not a text")?;
        fs::write(&path, content).map_err(|e| e.to_string())?;
    }
    let path = folder.path().join(case["path"].as_str().ok_or("`path` is not a text")?);
    let hash = Files::read(&path).map(|files| files.hash()).ok();
    let seen = match Config::load(&path) {
        Ok(config) => json!({ "ok": accepted(&config), "hash": config.hash }),
        Err(faults) => match faults.stage {
            // The reference stops at the first; we report all.
            Stage::Read => {
                let class = faults.problems.first().map(|p| read_class(p.class));
                json!({ "error": { "classes": [class], "stage": "read" } })
            }
            Stage::Validate => {
                let classes: Vec<_> = faults.problems.iter().map(class).collect();
                json!({ "error": { "classes": classes, "stage": "validate" }, "hash": hash })
            }
        },
    };
    let wanted = &case["expect"];
    let seen = in_brief(seen, wanted);
    if seen == *wanted { Ok(()) } else { Err(format!("{seen}, wanted {wanted}")) }
}

/// The vectors say of `tokenAttributes` only that they are there; the reference that is asked says what is in them.
fn in_brief(mut seen: Value, wanted: &Value) -> Value {
    let wanted = wanted["ok"]["providers"].as_array();
    let providers = seen.pointer_mut("/ok/providers").and_then(Value::as_array_mut);
    for (seen, wanted) in providers.into_iter().flatten().zip(wanted.into_iter().flatten()) {
        if wanted["tokenAttributes"] == true && seen["tokenAttributes"].is_object() {
            seen["tokenAttributes"] = json!(true);
        }
    }
    seen
}

fn accepted(config: &Config) -> Value {
    let providers = config.providers.iter().map(|provider| {
        let version = match provider.protocol {
            Protocol::Kubelet(version) => version.api_version(),
            Protocol::Proposal => "proposal",
        };
        let patterns: Vec<_> = provider.patterns.iter().map(keyward_image::Pattern::text).collect();
        let mut value = json!({
            "name": provider.name,
            "apiVersion": version,
            "matchImages": patterns,
            "defaultCacheDurationNanos": provider.default_duration,
        });
        if !provider.args.is_empty() {
            value["args"] = json!(provider.args);
        }
        if !provider.env.is_empty() {
            let env = provider.env.iter();
            value["env"] =
                env.map(|(name, value)| json!({ "name": name, "value": value.expose() })).collect();
        }
        if let Some(tokens) = &provider.tokens {
            value["tokenAttributes"] = json!({
                "audience": tokens.audience,
                "cacheType": match tokens.cache {
                    TokenCache::ServiceAccount => "ServiceAccount",
                    TokenCache::Token => "Token",
                },
                "require": tokens.require,
                "required": tokens.required_annotations,
                "optional": tokens.optional_annotations,
            });
        }
        value
    });
    json!({ "providers": providers.collect::<Vec<_>>() })
}

fn read_class(class: Class) -> &'static str {
    match class {
        Class::Decode => "decode",
        Class::StrictDecode => "strict_decode",
        Class::DuplicateProvider => "duplicate_provider",
        _ => "unreadable",
    }
}

/// The field without its numbers, and the kind of error, as the reference prints them.
fn class(problem: &Problem) -> String {
    let mut field = String::new();
    let mut inside = false;
    for character in problem.field.chars() {
        match character {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => field.push(c),
            _ => {}
        }
    }
    let kind = match problem.class {
        Class::Required => "Required",
        Class::NotSupported => "NotSupported",
        Class::Duplicate => "Duplicate",
        Class::Forbidden => "Forbidden",
        _ => "Invalid",
    };
    format!("{field}:FieldValue{kind}")
}
