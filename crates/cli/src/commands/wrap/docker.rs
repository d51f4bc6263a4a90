//! The credential helpers in docker's `config.json`.

use std::path::{Path, PathBuf};

use keyward_agent::wrap::{
    Journal,
    docker::{replaceable, unwrap_docker, wrap_docker},
};
use keyward_host::rules::Program;
use keyward_process::file::{self, Limits};

use super::{failed, native::missing, no_home};
use crate::{
    commands::image::setup::trusted_by_environment,
    failure::Failure,
    globals::Globals,
    output::{self, inline},
};

/// Replaces the helpers that Keyward has a provider for.
pub(super) fn wrap(globals: &Globals, dry: bool) -> Result<(), Failure> {
    let path = config(globals)?;
    let shown = path.display();
    let bytes = file::read(&path, &Limits::NAMED).map_err(|error| {
        Failure::failed(format!("`{shown}` cannot be read: {}", file::reason(&error)))
    })?;
    let found = replaceable(&bytes).map_err(|refusal| {
        Failure::failed(format!("`{shown}` is not a docker configuration: {}", refusal.message()))
    })?;
    let mut told = Vec::new();
    let mut absent = Vec::new();
    for (server, helper, provider) in &found {
        // Docker finds helpers in its PATH only.
        let program = format!("docker-credential-{provider}");
        let trusted = trusted_by_environment(&globals.surroundings);
        if Program::locate(&program, None, &trusted, &globals.surroundings).is_err() {
            let (server, why) = (inline(server), missing(&program));
            told.push(format!(
                "{shown}: `{server}` keeps the helper `{}`: {why}\n",
                inline(helper)
            ));
            absent.push(*provider);
        }
    }
    let journals = Journal::directory(&globals.surroundings).ok_or_else(no_home)?;
    let journals = Journal::docker_directory(&journals);
    let outcome = wrap_docker(&path, &journals, |provider| !absent.contains(&provider), dry)
        .map_err(|error| failed(&path, &error))?;
    for edit in outcome.edits.iter().filter(|edit| outcome.changed.contains(&edit.user)) {
        let verb = if dry { "would replace" } else { "replaced" };
        let (line, server) = (edit.line, inline(&edit.user));
        let (old, new) = (inline(&edit.old), inline(&edit.new));
        told.push(format!("{shown}: {verb} line {line}: `{server}`: {old} -> {new}\n"));
    }
    for server in &outcome.unchanged {
        told.push(format!("{shown}: already replaced: `{}`\n", inline(server)));
    }
    if outcome.changed.is_empty() && outcome.unchanged.is_empty() {
        let failure = Failure::failed(format!("`{shown}` has no helper that can be replaced"));
        return Err(absent.into_iter().fold(failure, |failure, provider| {
            failure.note("missing", missing(&format!("docker-credential-{provider}")))
        }));
    }
    if dry {
        told.push("nothing was changed\n".to_owned());
    }
    output::print(&told.concat())
}

/// Restores the helpers of docker's configuration, or of all that were changed.
pub(in crate::commands) fn unwrap(
    globals: &Globals,
    journals: &Path,
    all: bool,
    dry: bool,
) -> Result<Vec<String>, Failure> {
    let journals = Journal::docker_directory(journals);
    let paths: Vec<PathBuf> = if all {
        let known = Journal::list(&journals).into_iter().map(|journal| journal.kubeconfig);
        known.filter(|path| path.exists()).collect()
    } else {
        vec![config(globals)?]
    };
    let mut told = Vec::new();
    for path in paths {
        let outcome =
            unwrap_docker(&path, &journals, dry).map_err(|error| failed(&path, &error))?;
        let verb = if dry { "would restore" } else { "restored" };
        let servers = outcome.changed.iter().map(|server| inline(server));
        let line = |server| format!("{}: {verb} `{server}`\n", path.display());
        told.extend(servers.map(line));
    }
    Ok(told)
}

/// The file that docker reads.
fn config(globals: &Globals) -> Result<PathBuf, Failure> {
    crate::bridge::docker_config(&globals.surroundings).ok_or_else(|| {
        Failure::failed("docker's configuration was not found: neither `DOCKER_CONFIG` nor a home")
    })
}
