//! `keyward node withdraw`: lets a `DaemonSet` remove Keyward from its nodes before it is deleted.

use std::{str::FromStr as _, time::Duration};

use http::{Request, header};
use serde_json::Value;

use crate::{
    failure::Failure,
    globals::Globals,
    output::{self, inline},
    server::{self, Server},
};

/// How often to look how far the rollout is.
const PACE: Duration = Duration::from_secs(1);

/// Change a `DaemonSet` so that it removes Keyward from nodes, and wait until this is done
///
/// Helm runs this before it uninstalls the chart. Works like `kubectl patch` followed by
/// `kubectl rollout status`: Kubernetes itself goes through the nodes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The name of the `DaemonSet`
    #[arg(value_name = "NAME")]
    name: String,

    /// The change to the `DaemonSet`, as a JSON merge patch
    // Without a parser of its own, clap would take any text for a JSON string.
    #[arg(long, value_name = "JSON", value_parser = Value::from_str)]
    patch: Value,
}

pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let server = Server::open(&server::Args::default(), globals)?;
    let namespace = globals.flags.namespace.as_deref().unwrap_or("default");
    let url = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets/{}", args.name);
    let patch = Request::patch(&url).header(header::CONTENT_TYPE, "application/merge-patch+json");
    let mut object = server.ask_json(patch, Some(&args.patch))?;
    let mut told = String::new();
    while let Some(left) = left(&object) {
        if left != told {
            output::tell(&format!("waiting for `{}`: {left}\n", inline(&args.name)));
            told = left;
        }
        server.rest(PACE);
        object = server.ask_json(Request::get(&url), None)?;
    }
    output::tell(&format!("`{}` has removed Keyward from its nodes\n", inline(&args.name)));
    Ok(())
}

/// What has to happen before a rollout is complete, by the numbers that `kubectl rollout status` compares.
fn left(object: &Value) -> Option<String> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Some("the change has not been noticed yet".to_owned());
    }
    let wanted = number("/status/desiredNumberScheduled");
    let done = number("/status/updatedNumberScheduled").min(number("/status/numberAvailable"));
    (done < wanted).then(|| format!("{done} of {wanted} nodes are done"))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};
    use serde_json::json;

    use super::Args;

    #[test]
    fn a_patch_is_json() {
        let command = Args::augment_args(clap::Command::new("withdraw"));
        let parse = |patch| {
            let found =
                command.clone().try_get_matches_from(["withdraw", "x", "--patch", patch])?;
            Args::from_arg_matches(&found)
        };
        assert_eq!(parse(r#"{"spec":{}}"#).unwrap().patch, json!({ "spec": {} }));
        assert!(parse("{oops").is_err());
    }

    #[test]
    fn a_rollout_is_complete_when_every_new_pod_is_available() {
        let object = |observed, updated, available| {
            json!({
                "metadata": { "generation": 2 },
                "status": {
                    "observedGeneration": observed,
                    "desiredNumberScheduled": 3,
                    "updatedNumberScheduled": updated,
                    "numberAvailable": available,
                },
            })
        };
        let left =
            |observed, updated, available| super::left(&object(observed, updated, available));
        assert_eq!(left(1, 3, 3).unwrap(), "the change has not been noticed yet");
        assert_eq!(left(2, 1, 3).unwrap(), "1 of 3 nodes are done");
        assert_eq!(left(2, 3, 2).unwrap(), "2 of 3 nodes are done");
        assert_eq!(left(2, 3, 3), None);
        assert!(super::left(&json!({"metadata": {"generation": 1}})).is_some());
    }
}
