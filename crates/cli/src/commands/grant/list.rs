//! `keyward grant list`.

use std::fmt::Write as _;

use keyward_proxy::grants::StoredGrant;
use serde_json::{Value, json};

use crate::{
    failure::Failure,
    flags,
    globals::Globals,
    output::{self, Format, Output, inline},
};

/// Show the grants in force, what they allow, and how they are used
///
/// Counters begin with each start of the proxy; `keyward grant log` has everything.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general())]
pub(super) struct Args {
    #[command(flatten)]
    output: Output,
}

/// Prints the grants; those whose proxy does not run have no counters.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let running: Vec<Value> = keyward_proxy::running(&globals.surroundings)?
        .iter()
        .filter_map(|running| running.status().ok())
        .collect();
    let all = StoredGrant::all(&globals.surroundings);
    let all: Vec<Value> = all
        .iter()
        .filter(|grant| !grant.is_expired())
        .map(|grant| {
            let service = running.iter().find(|status| status["service"] == *grant.service);
            let mut live =
                service.and_then(|status| status["grants"].as_array()).into_iter().flatten();
            let live = live.find(|live| live["name"] == *grant.name).cloned().unwrap_or_default();
            json!({
                "name": grant.name,
                "context": grant.context,
                "rules": grant.rules.words(),
                "created": grant.created,
                "expires": grant.expires,
                "service": grant.service,
                "socket": grant.socket,
                "served": !live.is_null(),
                "requests": live["requests"],
                "denied": live["denied"],
                "connections": live["connections"],
            })
        })
        .collect();
    match args.output.format {
        Format::Json => output::print_json(&all)?,
        Format::Text if all.is_empty() => output::tell("there are no grants\n"),
        Format::Text => output::print(&all.iter().map(text).collect::<String>())?,
    }
    Ok(())
}

fn text(grant: &Value) -> String {
    let word = |name: &str| grant[name].as_str().map(inline).unwrap_or_default();
    let mut out =
        format!("{} for context {}, until {}\n", word("name"), word("context"), word("expires"));
    for rule in grant["rules"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(out, "  {}", inline(rule));
    }
    let _ = if grant["served"] == true {
        let (requests, denied) = (&grant["requests"], &grant["denied"]);
        let open = &grant["connections"];
        writeln!(out, "  {requests} requests, {denied} denied, {open} connections open")
    } else {
        writeln!(out, "  not served now: its proxy is not running")
    };
    out
}
