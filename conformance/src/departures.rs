//! Where we differ from the reference on purpose. Each rule is about behaviour and has a reason.
//!
//! A rule says what the reference would have to answer for us to be like it. The case is judged again
//! with that answer by the check that found the difference, so a rule excuses just what it describes.

mod proposal;

use base64::{Engine, prelude::BASE64_STANDARD};
use keyward_protocol::{Node, signer, text::same_name};
use serde_json::{Value, json};

use crate::areas::{self, Check};

/// A deliberate departure.
struct Rule {
    /// The vector file it concerns.
    file: &'static str,
    /// Whether a case falls under it, judged by what goes in and what the reference answered,
    /// never by the case's name.
    applies: fn(&Value) -> bool,
    /// What we do instead, in the words of an `expect`; any of them, and nothing else.
    instead: fn(&Value) -> Vec<Value>,
    /// What that is, and why.
    reason: &'static str,
}

const SPOKEN: &str = "v1alpha1 is still spoken: plugins of that time exist";
const ALPHA: &str = "client.authentication.k8s.io/v1alpha1";
const BETA: &str = "client.authentication.k8s.io/v1beta1";
const V1: &str = "client.authentication.k8s.io/v1";

const RULES: &[Rule] = &[
    Rule {
        file: "exec-output",
        applies: |case| case["stdout"].as_str().is_some_and(|stdout| stdout.trim().is_empty()),
        instead: |_| vec![json!({ "error": { "class": "empty" } })],
        reason: "D8: a plugin that prints nothing is told so, not that its version is wrong",
    },
    Rule {
        file: "exec-output",
        applies: refuses_v1alpha1,
        instead: |case| {
            let spoken = spoken(case, &["configApiVersion", "stdout"], areas::output);
            let stdout = case["stdout"].as_str().unwrap_or_default();
            if let Some(read) = proposal::read(stdout, &spoken) {
                return vec![read];
            }
            // Of the group's other kinds, which are no answer in any version, v1alpha1 has none.
            let other = spoken["error"]["detail"] == "other_registered_type";
            let none = json!({ "error": { "class": "decode", "detail": "unknown_type" } });
            if other { vec![spoken, none] } else { vec![spoken] }
        },
        reason: SPOKEN,
    },
    Rule {
        file: "exec-input",
        applies: |case| refuses_v1alpha1(case) && !case["spoken"].is_null(),
        instead: |case| vec![given(case, told_in_v1alpha1(&case["spoken"]))],
        reason: SPOKEN,
    },
    Rule {
        file: "exec-input",
        applies: |case| case["chained"] == true && case["expect"]["ok"]["environment"].is_array(),
        instead: |case| vec![given(case, case["expect"].clone())],
        reason: "`keyward` tells its plugins for whom it runs them, which ends a loop of plugins \
                 that call it again: one variable more, `KEYWARD_CHAIN`",
    },
    Rule {
        file: "exec-input",
        applies: |case| has(&case["outer"], signer::REQUEST_VARIABLE),
        instead: |case| vec![given(case, case["expect"].clone())],
        reason: "what Keyward is told as an external signer is not for its plugins: \
                 `EXTERNAL_SIGNER_PLUGIN_CONFIG` is not passed on",
    },
    Rule {
        file: "exec-info-helper",
        applies: |case| {
            case["expect"]["error"]["class"] == "decode"
                && asks_in_v1alpha1(case["env"].as_str().unwrap_or_default())
        },
        instead: |case| {
            let spoken = spoken(case, &["env"], areas::helper);
            // The other fields may name a version too: it has been replaced there as well.
            vec![with_versions(&spoken, V1), with_versions(&spoken, BETA)]
        },
        reason: SPOKEN,
    },
    Rule {
        file: "plugin-policy",
        applies: |case| {
            let command = case["command"].as_str().unwrap_or_default();
            let looked = case["expect"]["error"]["class"].as_str().is_none_or(|class| {
                ["not_found", "policy_unresolvable", "policy_denied_allowlist"].contains(&class)
            });
            command.contains('/')
                && !command.starts_with('/')
                && cleaned(command).len() < 2
                && looked
        },
        // No such path of the fixture is a program: it cannot be started, or not be found for the list.
        instead: |case| {
            let listed = case["policy"] == "Allowlist";
            let class = if listed { "policy_unresolvable" } else { "start_failed" };
            vec![json!({ "error": { "class": class, "phase": "run" } })]
        },
        reason: "D5: a path (`./x`) is never turned into a search of PATH for `x`",
    },
    Rule {
        file: "kubeconfig",
        applies: |case| {
            case["expect"]["ok"]["exec"]["apiVersion"] == ALPHA
                && fails_late(case, "exec_api_version_unsupported")
        },
        instead: |case| {
            let mut spoken = case["spoken"].clone();
            match spoken.pointer_mut("/ok/exec/apiVersion") {
                Some(version) => *version = json!(ALPHA),
                // The vectors do not say: their plugin has nobody beside it.
                None => return wired(case, true),
            }
            vec![spoken]
        },
        reason: SPOKEN,
    },
    Rule {
        file: "kubeconfig",
        applies: |case| provider(case, &["externalSigner"]),
        instead: |case| wired(case, false),
        reason: "the external signer is an auth-provider of ours, unknown to the reference",
    },
    Rule {
        file: "kubeconfig",
        applies: |case| provider(case, &["oidc"]),
        instead: |case| wired(case, false),
        reason: "oidc is always built in; the reference has it only where it is linked in",
    },
    Rule {
        file: "kubeconfig",
        applies: |case| provider(case, &["gcp", "azure"]),
        instead: |case| vec![connected(case, &json!({ "error": ["auth_provider_removed"] }))],
        reason: "a removed auth-provider is not called unknown: the error says what to use instead",
    },
    Rule {
        file: "kubeconfig",
        applies: |case| {
            let transport = &case["expect"]["ok"]["transport"];
            names_empty_authority(case) && transport["pluginWired"].is_boolean()
        },
        instead: |case| {
            let mut transport = case["expect"]["ok"]["transport"].clone();
            transport["tlsError"] = json!(true);
            vec![connected(case, &transport)]
        },
        reason: "D14: an empty certificate authority is an error: the system's authorities do not step in \
                 for one that the kubeconfig names",
    },
];

/// The reason for which this case may differ from the reference, if a rule describes what we do.
pub(crate) fn explains(file: &str, case: &Value, check: Check) -> Option<&'static str> {
    let covers = |rule: &&Rule| {
        let like_ours = |expect: Value| {
            let mut case = case.clone();
            case["expect"] = expect;
            check(&case).is_ok()
        };
        rule.file == file && (rule.applies)(case) && (rule.instead)(case).into_iter().any(like_ours)
    };
    RULES.iter().find(covers).map(|rule| rule.reason)
}

/// Whether the reference has nothing to do with a plugin of v1alpha1.
fn refuses_v1alpha1(case: &Value) -> bool {
    case["configApiVersion"] == ALPHA && case["expect"]["error"]["class"] == "config_api_version"
}

/// Whether a request is of v1alpha1.
fn asks_in_v1alpha1(request: &str) -> bool {
    Node::from_json_or_yaml(request.as_bytes()).is_ok_and(|request| {
        let entries = request.map("request").ok().flatten().unwrap_or_default();
        let mut versions = entries.iter().filter(|e| same_name(&e.key, "apiversion"));
        versions.any(|entry| entry.value.text("apiVersion").ok().flatten() == Some(ALPHA))
    })
}

/// What the reference makes of the case with v1beta1 in place of v1alpha1. The vectors do not say; there
/// it is what we make of that, which is compared with the reference elsewhere.
fn spoken(case: &Value, fields: &[&str], ours: fn(&Value) -> Value) -> Value {
    if !case["spoken"].is_null() {
        return case["spoken"].clone();
    }
    let mut case = case.clone();
    for field in fields {
        let text = case[*field].as_str().unwrap_or_default();
        case[*field] = text.replace(ALPHA, BETA).into();
    }
    ours(&case)
}

/// An outcome in v1alpha1, with every other text that is a replaced version as it was: v1alpha1 in the place
/// of v1beta1, `v1` in that of v1, which may have been v1beta1.
fn with_versions(spoken: &Value, v1: &str) -> Value {
    let mut told = spoken.clone();
    for (name, said) in told.get_mut("ok").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(text) = said.as_str() else { continue };
        *said = match text {
            _ if name == "apiVersion" => ALPHA.into(),
            // Of these names one begins with the other.
            text => text.replace(BETA, "\0").replace(V1, v1).replace('\0', ALPHA).into(),
        };
    }
    told
}

/// What a plugin is given in v1beta1, in v1alpha1: the request says at its top too what its `spec` says.
fn told_in_v1alpha1(spoken: &Value) -> Value {
    let tell = |said: &Value| {
        let said = said.as_str().unwrap_or_default();
        if !said.contains(BETA) {
            return json!(said);
        }
        let said = said.replace(BETA, ALPHA);
        let spec = said.split_once("\"spec\":{").and_then(|(_, rest)| rest.split_once('}'));
        let spec = spec.map_or("", |(spec, _)| spec);
        json!(said.replace("}}\n", &format!("}},{spec}}}\n")))
    };
    let mut told = spoken.clone();
    if let Some(ok) = told.get_mut("ok") {
        ok["execInfo"] = tell(&ok["execInfo"]);
        let request = |said: &Value| is_variable(said, "KUBERNETES_EXEC_INFO");
        for said in ok["environment"].as_array_mut().into_iter().flatten().filter(|s| request(s)) {
            *said = tell(said);
        }
    }
    told
}

/// What a plugin of ours is given, where one of the reference is given this: the program's own variable
/// besides, and nothing of what it was told as a signer.
fn given(case: &Value, mut expect: Value) -> Value {
    let given = expect.pointer_mut("/ok/environment").and_then(Value::as_array_mut);
    if let Some(given) = given {
        if case["chained"] == true {
            let (name, value) = areas::CHAIN;
            given.retain(|said| !is_variable(said, name));
            given.push(json!(format!("{name}={value}")));
            given.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
        }
        if !has(&case["env"], signer::REQUEST_VARIABLE) {
            given.retain(|said| !is_variable(said, signer::REQUEST_VARIABLE));
        }
    }
    expect
}

/// Whether a variable of this name is among those of a case.
fn has(variables: &Value, name: &str) -> bool {
    variables.as_array().into_iter().flatten().any(|variable| variable["name"] == name)
}

/// Whether what the plugin saw is the variable of this name.
fn is_variable(said: &Value, name: &str) -> bool {
    let said = said.as_str().unwrap_or_default();
    let bytes = match said.strip_prefix("base64:") {
        Some(text) => BASE64_STANDARD.decode(text).unwrap_or_default(),
        None => said.as_bytes().to_vec(),
    };
    bytes.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
}

/// The case's answer with another outcome of setting up the connection.
fn connected(case: &Value, transport: &Value) -> Value {
    let mut expect = case["expect"].clone();
    expect["ok"]["transport"] = transport.clone();
    expect
}

/// We set the connection up where the reference does not; whether its TLS is sound, the reference did
/// not come to say.
fn wired(case: &Value, plugin: bool) -> Vec<Value> {
    let sound = json!({ "pluginWired": plugin });
    let unsound = json!({ "pluginWired": plugin, "tlsError": true });
    vec![connected(case, &sound), connected(case, &unsound)]
}

/// Whether the reference knows nothing of the user's auth-provider, which is one of `names`.
fn provider(case: &Value, names: &[&str]) -> bool {
    let name = case["expect"]["ok"]["authProvider"].as_str();
    name.is_some_and(|name| names.contains(&name)) && fails_late(case, "auth_provider_unknown")
}

/// Whether the certificate authority is a file with nothing in it.
fn names_empty_authority(case: &Value) -> bool {
    let file = case["expect"]["ok"]["caFile"].as_str().unwrap_or_default();
    let files = case["extraFiles"].as_object().into_iter().flatten();
    files.filter(|(_, content)| content.as_str() == Some("")).any(|(name, _)| {
        file.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
    })
}

/// Whether the reference resolves the case, and fails with just this once it sets up a connection.
fn fails_late(case: &Value, class: &str) -> bool {
    case["expect"]["ok"]["transport"] == json!({ "error": [class] })
}

/// What is left of a relative path once `.` and `..` are gone.
fn cleaned(path: &str) -> Vec<&str> {
    let mut left: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, left.last()) {
            ("..", Some(&last)) if last != ".." => drop(left.pop()),
            _ => left.push(part),
        }
    }
    left
}

#[cfg(test)]
mod tests;
