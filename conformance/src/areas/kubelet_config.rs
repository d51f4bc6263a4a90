use std::fs;

use keyward_host::image::config::{Class, Config, Files, Problem, Speech, Stage};
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
    if seen == case["expect"] { Ok(()) } else { Err(format!("{seen}, wanted {}", case["expect"])) }
}

fn accepted(config: &Config) -> Value {
    let providers = config.providers.iter().map(|provider| {
        let version = match provider.speech {
            Speech::Kubelet(version) => version.api_version(),
            Speech::Proposal => "proposal",
        };
        let patterns: Vec<_> =
            provider.patterns.iter().map(keyward_host::image::Pattern::text).collect();
        let mut value = json!({
            "name": provider.name,
            "apiVersion": version,
            "matchImages": patterns,
            "defaultCacheDurationNanos": provider.default_duration,
        });
        if provider.tokens.is_some() {
            value["tokenAttributes"] = json!(true);
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
