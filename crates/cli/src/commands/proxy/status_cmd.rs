//! `keyward proxy status`: asks the running proxies.

use std::{fmt::Write as _, process::ExitCode, time::Duration};

use serde_json::Value;

use crate::{
    duration,
    failure::Failure,
    globals::Globals,
    output::{self, Format, inline},
};

/// Prints the running proxies. The exit code is 1 if there is none, and 7 if one does not answer.
pub(crate) fn run(globals: &Globals, format: Format) -> Result<ExitCode, Failure> {
    let mut all = Vec::new();
    let mut stuck = 0;
    for running in keyward_proxy::running(&globals.surroundings)? {
        match running.status() {
            Ok(status) => all.push(status),
            Err(error) => {
                stuck += 1;
                tracing::warn!("the proxy of process {} does not answer: {error}", running.pid);
            }
        }
    }
    match format {
        Format::Json => output::print_json(&all)?,
        Format::Text if all.is_empty() && stuck == 0 => output::tell("no proxy is running\n"),
        Format::Text => {
            for status in &all {
                output::print(&text(status))?;
            }
        }
    }
    Ok(match (stuck, all.is_empty()) {
        (0, true) => ExitCode::FAILURE,
        (0, false) => ExitCode::SUCCESS,
        _ => ExitCode::from(STUCK),
    })
}

/// The exit code if a proxy runs but does not answer.
const STUCK: u8 = 7;

fn text(status: &Value) -> String {
    let word = |value: &Value| value.as_str().map(inline).unwrap_or_default();
    let service = match status["service"].as_str() {
        Some(name) => format!(", in the background as `{}`", inline(name)),
        None => String::new(),
    };
    let mut out = format!(
        "proxy {} (process {}{service}), since {}\n  kubeconfig  {}\n",
        word(&status["url"]),
        status["pid"],
        word(&status["started"]),
        word(&status["kubeconfig"]),
    );
    if let Some(message) = status["config"]["fault"]["message"].as_str() {
        let since = word(&status["config"]["fault"]["at"]);
        let _ = writeln!(out, "  not used    a change since {since}: {}", inline(message));
    }
    for context in status["contexts"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "  context     {}", word(&context["name"]));
        let mut line = |label: &str, text: String| {
            let _ = writeln!(out, "    {label:<11} {text}");
        };
        line("address", word(&context["url"]));
        if let Some(message) = context["closed"].as_str() {
            line("not served", inline(message));
            continue;
        }
        line("server", word(&context["server"]));
        let user = word(&context["user"]);
        line(
            "user",
            match context["identity"].as_str() {
                Some(identity) => format!("{user}, as `{}`", inline(identity)),
                None => user,
            },
        );
        line("credential", credential(&context["credential"]));
        if let Some(at) = context["lastRun"]["at"].as_str() {
            let run = &context["lastRun"];
            let took = Duration::try_from_secs_f64(run["seconds"].as_f64().unwrap_or_default());
            let outcome = if run["succeeded"] == true { "well" } else { "badly" };
            let took = duration::show(took.unwrap_or_default());
            line("last run", format!("{at}, took {took}, ended {outcome}"));
        }
        if let Some(message) = context["lastError"]["message"].as_str() {
            line(
                "last error",
                format!("{}: {}", word(&context["lastError"]["at"]), inline(message)),
            );
        }
        line("requests", format!("{}, {} of them under way", context["requests"], context["open"]));
    }
    out
}

fn credential(credential: &Value) -> String {
    let Some(kind) = credential["kind"].as_str() else {
        return "none yet".to_owned();
    };
    let mut text = kind.to_owned();
    if let Some(age) = credential["ageSeconds"].as_u64() {
        let _ = write!(text, ", {} old", duration::show(Duration::from_secs(age)));
    }
    match credential["expires"].as_str() {
        Some(at) if credential["expired"] == true => text + ", expired at " + &inline(at),
        Some(at) => text + ", until " + &inline(at),
        None => text + ", without an end",
    }
}
