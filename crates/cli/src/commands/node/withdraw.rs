//! `keyward node withdraw`: lets a `DaemonSet` remove Keyward from its nodes before it is deleted.

use std::time::Duration;

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
    #[arg(long, value_name = "JSON", value_parser = json)]
    patch: Value,
}

pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let server = Server::open(&server::Args::default(), globals)?;
    let namespace = globals.flags.namespace.as_deref().unwrap_or("default");
    let url = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets/{}", args.name);
    let patch = Request::patch(&url).header(header::CONTENT_TYPE, "application/merge-patch+json");
    let mut object = server.ask_json(patch, Some(&args.patch))?;
    let mut told = String::new();
    while let Some(left) = Progress::of(&object).left() {
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

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// How far a rollout is, by the numbers that `kubectl rollout status` compares.
struct Progress {
    is_observed: bool,
    wanted: u64,
    updated: u64,
    available: u64,
}

impl Progress {
    fn of(object: &Value) -> Self {
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        Self {
            is_observed: number("/status/observedGeneration") >= number("/metadata/generation"),
            wanted: number("/status/desiredNumberScheduled"),
            updated: number("/status/updatedNumberScheduled"),
            available: number("/status/numberAvailable"),
        }
    }

    /// What has to happen before the rollout is complete.
    fn left(&self) -> Option<String> {
        let Self { wanted, updated, available, .. } = self;
        if !self.is_observed {
            return Some("the change has not been noticed yet".to_owned());
        }
        let done = (*updated).min(*available);
        (done < *wanted).then(|| format!("{done} of {wanted} nodes are done"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let left = |observed, updated, available| {
            Progress::of(&object(observed, updated, available)).left()
        };
        assert_eq!(left(1, 3, 3).unwrap(), "the change has not been noticed yet");
        assert_eq!(left(2, 1, 3).unwrap(), "1 of 3 nodes are done");
        assert_eq!(left(2, 3, 2).unwrap(), "2 of 3 nodes are done");
        assert_eq!(left(2, 3, 3), None);
        assert!(Progress::of(&json!({"metadata": {"generation": 1}})).left().is_some());
    }
}
