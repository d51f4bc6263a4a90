//! `keyward agent status`: shows what the agent keeps.

use std::fmt::Write as _;

use clap::ValueEnum;
use keyward_agent::wrap::Journal;
use keyward_protocol::agent::{Admin, Served};
use serde::Deserialize;

use super::client::{self, Whose};
use crate::{failure::Failure, globals::Globals, output};

/// Show what the agent keeps, for whom, and until when
///
/// Shows no secrets. Exits with 1 if no agent is running.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Deserialize)]
struct Status {
    version: String,
    pid: u32,
    program: Option<String>,
    locked: bool,
    secrets: u64,
    credentials: Vec<Credential>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credential {
    name: String,
    plugin: String,
    state: String,
    subject: Option<String>,
    expires: Option<String>,
    last_error: Option<String>,
    remark: Option<String>,
    requests: u64,
    runs: u64,
}

pub(super) fn run(args: &Args, whose: Whose, globals: &Globals) -> Result<(), Failure> {
    let Some(mut status) = status_of(whose, globals)? else { return Err(whose.not_running()) };
    let overwritten = match whose {
        Whose::User => overwritten(globals),
        Whose::Node => Vec::new(),
    };
    if args.output == Format::Json {
        status["overwritten"] = overwritten
            .iter()
            .map(|(file, users)| serde_json::json!({ "kubeconfig": file, "users": users }))
            .collect();
        return output::print_json(&status);
    }
    let status: Status = serde_json::from_value(status).map_err(unread)?;
    let locked = if status.locked { ", locked" } else { "" };
    let program = status.program.map(|path| format!(", `{}`", output::inline(&path)));
    let mut text = format!(
        "agent {} (pid {}{}){locked}\n",
        status.version,
        status.pid,
        program.unwrap_or_default()
    );
    match whose {
        Whose::User if status.credentials.is_empty() => text += "no credentials\n",
        Whose::User => {}
        Whose::Node => {
            let _ = writeln!(text, "secrets of image credential providers: {}", status.secrets);
        }
    }
    for credential in &status.credentials {
        credential.describe(&mut text);
    }
    for (file, users) in &overwritten {
        let (file, users) = (output::inline(file), output::list(users));
        let _ = writeln!(text, "\n{file}: no longer wrapped: {users}; run `keyward wrap` again");
    }
    output::print(&text)
}

/// What the user's agent reports of itself; `None` if no agent is running.
pub(crate) fn reported_status(globals: &Globals) -> Result<Option<serde_json::Value>, Failure> {
    status_of(Whose::User, globals)
}

fn status_of(whose: Whose, globals: &Globals) -> Result<Option<serde_json::Value>, Failure> {
    match client::admin(whose, globals, &Admin::Status)? {
        Some(Served::Done(json)) => serde_json::from_str(json.expose()).map(Some).map_err(unread),
        Some(_) => Err(Failure::failed("the agent does not report its status")),
        None => Ok(None),
    }
}

/// Wrapped kubeconfigs that another program has rewritten, and the users affected.
fn overwritten(globals: &Globals) -> Vec<(String, Vec<String>)> {
    let journals = Journal::directory(&globals.surroundings);
    let journals = journals.map(|directory| Journal::list(&directory)).unwrap_or_default();
    let found = journals
        .iter()
        .map(|journal| (journal.kubeconfig.display().to_string(), journal.overwritten()));
    found.filter(|(_, users)| !users.is_empty()).collect()
}

fn unread(_: serde_json::Error) -> Failure {
    Failure::failed("the agent's status cannot be read")
}

impl Credential {
    fn describe(&self, text: &mut String) {
        let line = |text: &mut String, label: &str, value: &str| {
            let _ = writeln!(text, "  {label:<10} {}", output::inline(value));
        };
        let (name, plugin) = (output::inline(&self.name), output::inline(&self.plugin));
        let _ = writeln!(text, "\n{name} ({plugin})");
        line(text, "state", &self.state);
        for (label, value) in [
            ("subject", &self.subject),
            ("expires", &self.expires),
            ("error", &self.last_error),
            ("note", &self.remark),
        ] {
            if let Some(value) = value {
                line(text, label, value);
            }
        }
        line(text, "requests", &format!("{}, plugin runs: {}", self.requests, self.runs));
    }
}
