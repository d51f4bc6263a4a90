//! Where we differ from the reference on purpose. Each rule is about behaviour and has a reason.

use keyward_protocol::{Node, text::same_name};
use serde_json::Value;

/// A deliberate departure.
struct Rule {
    /// The vector file it concerns.
    file: &'static str,
    /// Whether a case falls under it, judged by what goes in and what the reference answered,
    /// never by the case's name.
    applies: fn(&Value) -> bool,
    /// Whether the difference that was found is what we do instead, and no other.
    instead: fn(&str) -> bool,
    /// What we do instead, and why.
    reason: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        file: "kubelet-config",
        applies: |case| {
            let mut files = case["files"].as_object().into_iter().flatten();
            case["expect"]["error"]["stage"] == "read"
                && files.any(|(_, text)| of_the_proposal(text.as_str().unwrap_or_default()))
        },
        instead: |seen| seen.starts_with("{\"ok\":"),
        reason: "the original proposal's own form of configuration is understood too",
    },
    Rule {
        file: "exec-output",
        applies: |case| case["stdout"].as_str().is_some_and(|stdout| stdout.trim().is_empty()),
        instead: |seen| seen.ends_with("found empty None"),
        reason: "D8: a plugin that prints nothing is told so, not that its version is wrong",
    },
    Rule {
        file: "exec-output",
        applies: refuses_v1alpha1,
        instead: |seen| !found(seen).is_empty() && !found(seen).contains("config_api_version"),
        reason: "v1alpha1 is still spoken: plugins of that time exist",
    },
    Rule {
        file: "exec-input",
        applies: |case| {
            refuses_v1alpha1(case)
                && !["Never", "IfAvailable", "Always"]
                    .map(Value::from)
                    .contains(&case["interactiveMode"])
        },
        // As in every version: there is no such mode.
        instead: |seen| found(seen) == "Some(BadConfig)",
        reason: "v1alpha1 is still spoken: plugins of that time exist",
    },
    Rule {
        file: "exec-input",
        applies: refuses_v1alpha1,
        // Asked in it, or in want of a terminal as in every version.
        instead: |seen| {
            let found = found(seen);
            found.contains("client.authentication.k8s.io/v1alpha1")
                || found == "Some(NeedsTerminal)"
        },
        reason: "v1alpha1 is still spoken: plugins of that time exist",
    },
    Rule {
        file: "exec-info-helper",
        applies: |case| {
            let request = case["env"].as_str().unwrap_or_default();
            let spoken = Node::from_json_or_yaml(request.as_bytes()).is_ok_and(|request| {
                let entries = request.map("request").ok().flatten().unwrap_or_default();
                let mut versions = entries.iter().filter(|e| same_name(&e.key, "apiversion"));
                versions.any(|entry| {
                    let version = entry.value.text("apiVersion").ok().flatten();
                    version == Some("client.authentication.k8s.io/v1alpha1")
                })
            });
            spoken && case["expect"]["error"]["class"] == "decode"
        },
        // Read, whatever is then said of what is in it.
        instead: |seen| {
            let got = seen.split_once(", got ").map_or("", |(_, got)| got);
            !got.is_empty() && got != r#"{"error":{"class":"decode"}}"#
        },
        reason: "v1alpha1 is still spoken: plugins of that time exist",
    },
    Rule {
        file: "plugin-policy",
        applies: |case| {
            let command = case["command"].as_str().unwrap_or_default();
            command.contains('/') && !command.starts_with('/') && cleaned(command).len() < 2
        },
        instead: |seen| found(seen).starts_with("{\"error\":"),
        reason: "D5: a path (`./x`) is never turned into a search of PATH for `x`",
    },
    Rule {
        file: "kubeconfig",
        applies: |case| {
            let version = &case["expect"]["ok"]["exec"]["apiVersion"];
            version == "client.authentication.k8s.io/v1alpha1"
                && fails_late(case, "exec_api_version_unsupported")
        },
        instead: wired,
        reason: "v1alpha1 is still spoken: plugins of that time exist",
    },
    Rule {
        file: "kubeconfig",
        applies: |case| provider(case, &["externalSigner"]),
        instead: wired,
        reason: "the external signer is an auth-provider of ours, unknown to the reference",
    },
    Rule {
        file: "kubeconfig",
        applies: |case| provider(case, &["oidc"]),
        instead: wired,
        reason: "oidc is always built in; the reference has it only where it is linked in",
    },
    Rule {
        file: "kubeconfig",
        applies: |case| provider(case, &["gcp", "azure"]),
        instead: |seen| {
            only_transport(seen) && seen.contains("is {\"error\":[\"auth_provider_removed\"]}")
        },
        reason: "a removed auth-provider is not called unknown: the error says what to use instead",
    },
];

/// Whether the reference has nothing to do with a plugin of v1alpha1.
fn refuses_v1alpha1(case: &Value) -> bool {
    case["configApiVersion"] == "client.authentication.k8s.io/v1alpha1"
        && case["expect"]["error"]["class"] == "config_api_version"
}

/// What we make of a case, in the words of its difference.
fn found(seen: &str) -> &str {
    seen.split_once(", found ").map_or("", |(_, found)| found)
}

/// Whether nothing but the setting up of the connection is otherwise.
fn only_transport(seen: &str) -> bool {
    seen.starts_with("transport is {") && !seen.contains("; ")
}

/// Whether we set the connection up where the reference does not.
fn wired(seen: &str) -> bool {
    only_transport(seen) && seen.starts_with("transport is {\"pluginWired\":")
}

/// Whether the reference knows nothing of the user's auth-provider, which is one of `names`.
fn provider(case: &Value, names: &[&str]) -> bool {
    let name = case["expect"]["ok"]["authProvider"].as_str();
    name.is_some_and(|name| names.contains(&name)) && fails_late(case, "auth_provider_unknown")
}

/// Whether the reference resolves the case, and fails with just this once it sets up a connection.
fn fails_late(case: &Value, class: &str) -> bool {
    case["expect"]["ok"]["transport"] == serde_json::json!({ "error": [class] })
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

/// The reason for which this case may differ in this way, if a rule covers both.
pub(crate) fn explains(file: &str, case: &Value, difference: &str) -> Option<&'static str> {
    let covers =
        |rule: &&Rule| rule.file == file && (rule.applies)(case) && (rule.instead)(difference);
    RULES.iter().find(covers).map(|rule| rule.reason)
}

/// A configuration of image credential providers as the original proposal has it.
fn of_the_proposal(text: &str) -> bool {
    let has = |lines: &[&str]| text.lines().any(|line| lines.contains(&line.trim_end()));
    has(&["apiVersion: v1alpha1"])
        && has(&["kind: credentialprovider", "kind: RegistryCredentialConfig"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rule_excuses_a_panic_or_what_the_reference_does() {
        for rule in RULES {
            assert!(!(rule.instead)("we panic"), "{}", rule.reason);
            assert!(!(rule.instead)(""), "{}", rule.reason);
        }
    }

    #[test]
    fn a_rule_excuses_only_what_we_do_instead() {
        let case = serde_json::json!({ "stdout": " " });
        let explained = |seen: &str| explains("exec-output", &case, seen).is_some();
        assert!(explained("expected (Some(\"decode\"), None), found empty None"));
        assert!(!explained("expected (Some(\"decode\"), None), found accepted"));
    }
}
