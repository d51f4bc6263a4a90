//! `docker-credential-keyward`: image credential providers for every program that supports docker's
//! credential helpers.
//!
//! Docker's protocol has a verb on the command line, the server on stdin, and the answer on stdout,
//! whether a login or an error.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write as _,
    io::{self, Read as _},
    process::ExitCode,
};

use keyward_host::{Kind, redact::redact};
use keyward_image::Lookup;
use serde::Serialize;

use crate::{
    commands::image::setup::{Place, Setup},
    duration,
    failure::Failure,
    flags::Flags,
    globals::Globals,
    log,
    output::{self, Width, inline},
    signals,
};

/// The message by which docker and others recognise that there is no login; they continue without
/// one.
pub(super) const NOT_FOUND: &str = "credentials not found in native keychain";

/// How long the providers may take; one minute by default.
const TIMEOUT: &str = "KEYWARD_IMAGE_TIMEOUT";

const USAGE: &str = "usage: docker-credential-keyward get|list|version

A credential helper of docker, podman, skopeo and others. The server is read from stdin, and the
kubelet's image credential providers are asked for it. Name it in `config.json`:
  {\"credHelpers\": {\"registry.example:5000\": \"keyward\"}}

  KEYWARD_IMAGE_CONFIG   the configuration of the providers, a file or a folder
  KEYWARD_IMAGE_BIN_DIR  the folder of their programs; without it $PATH is searched
  KEYWARD_IMAGE_SEGMENTS true: a pattern's path ends where a segment of the image's ends
  KEYWARD_TRUST_PLUGIN   programs to run although others could change them, with colons between
  KEYWARD_IMAGE_TIMEOUT  how long they may take, such as 10s; a minute without it
";

/// A server's URL is short.
const MOST: u64 = 64 * 1024;

/// Answers docker.
pub(super) fn main(args: &[OsString]) -> ExitCode {
    let mut globals = Globals::new(Flags::default());
    log::start(&globals);
    let word = match args {
        [word] => word.to_str().unwrap_or_default(),
        _ => "",
    };
    let outcome = match word {
        "get" => with_timeout(&mut globals).and_then(|()| get(&globals)),
        "list" => with_timeout(&mut globals).and_then(|()| list(&globals)),
        "store" => Err(read_only("stores nothing")),
        "erase" => Err(read_only("erases nothing")),
        "version" => output::print(concat!(
            "docker-credential-keyward (Keyward) ",
            env!("CARGO_PKG_VERSION"),
            "\n"
        )),
        "-h" | "--help" | "help" => output::print(USAGE),
        _ => {
            output::tell(USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => complain(&failure, &globals),
    }
}

/// Docker's own message shows only our stdout, as one line; the full error goes to stderr.
fn complain(failure: &Failure, globals: &Globals) -> ExitCode {
    let mut line = inline(failure.message());
    if line != NOT_FOUND {
        for (label, note) in failure.notes() {
            _ = write!(line, "; {label}: {}", inline(note));
        }
        if let Some(said) = failure.said().and_then(last_line) {
            _ = write!(line, "; it said: {}", inline(said));
        }
        failure.report(globals);
    }
    signals::leave_if_interrupted();
    let _ = output::print(&redact(&format!("{line}\n")));
    // Docker uses one exit code for every failure.
    ExitCode::FAILURE
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().find(|line| !line.trim().is_empty())
}

fn read_only(what: &str) -> Failure {
    Failure::failed(format!(
        "`docker-credential-keyward` {what}: logins come from image credential providers"
    ))
}

fn with_timeout(globals: &mut Globals) -> Result<(), Failure> {
    let Some(text) = globals.surroundings.var(TIMEOUT).filter(|text| !text.is_empty()) else {
        return Ok(());
    };
    let budget = text.to_str().ok_or_else(|| "it is not valid UTF-8".to_owned());
    let budget = budget.and_then(duration::budget);
    let wrong = |why| Failure::usage(format!("`{TIMEOUT}` is not a duration")).note("because", why);
    globals.flags.plugin_timeout = Some(budget.map_err(wrong)?);
    Ok(())
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Answer<'a> {
    #[serde(rename = "ServerURL")]
    server: &'a str,
    username: &'a str,
    secret: &'a str,
}

fn get(globals: &Globals) -> Result<(), Failure> {
    let mut server = String::new();
    io::stdin().lock().take(MOST).read_to_string(&mut server).map_err(|e| {
        Failure::failed("cannot read the server from stdin").note("cause", e.to_string())
    })?;
    let server = server.trim();
    if server.is_empty() {
        return Err(Failure::failed("no credentials server URL"));
    }
    signals::watch();
    let setup = Setup::open(&Place::default(), globals)?;
    let found = setup.images().lookup_name(&*setup.config()?, name(server).to_owned(), None);
    let Some(best) = found.best() else { return Err(nothing(server, &found)) };
    for error in found.failures() {
        tracing::warn!(%error, "a provider failed; another has a login");
    }
    let login = &best.login;
    let answer = Answer { server, username: &login.username, secret: login.password.expose() };
    output::print_secret(&answer, Width::Line)
}

/// If no provider matches the server, docker continues without a login. If one failed, docker
/// should report that, rather than an unexplained refusal by the registry.
fn nothing(server: &str, found: &Lookup) -> Failure {
    let mut failures = found.failures();
    match failures.next() {
        None => Failure::failed(NOT_FOUND),
        Some(error) => {
            let mut failure = Failure::from(error.clone()).note("server", inline(server));
            for other in failures {
                failure = failure.note("and", other.to_string());
            }
            if error.kind() == Kind::NotFound {
                failure = failure
                    .hint("`KEYWARD_IMAGE_BIN_DIR` names the directory of the providers' programs");
            }
            failure
        }
    }
}

/// Lists the logins of every registry that a provider names without a `*`; others cannot be listed.
fn list(globals: &Globals) -> Result<(), Failure> {
    signals::watch();
    let setup = Setup::open(&Place::default(), globals)?;
    let config = setup.config()?;
    let mut servers: Vec<&str> = config
        .providers
        .iter()
        .flat_map(|provider| &provider.patterns)
        .map(keyward_image::Pattern::text)
        .filter(|text| !text.contains(['*', '/', '@', '?', '#']))
        .collect();
    servers.sort_unstable();
    servers.dedup();
    let mut users = BTreeMap::new();
    for server in servers {
        let found = setup.images().lookup_name(&config, server.to_owned(), None);
        for error in found.failures() {
            tracing::warn!(server, %error, "a provider failed");
        }
        if let Some(best) = found.best() {
            users.insert(server, best.login.username.clone());
        }
    }
    output::print_json(&users)
}

/// The name that a server's images are matched under. Docker Hub's server has several.
fn name(server: &str) -> &str {
    let rest = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://"));
    let rest = rest.unwrap_or(server);
    let rest = rest.trim_end_matches('/');
    let rest = rest.strip_suffix("/v1").or_else(|| rest.strip_suffix("/v2")).unwrap_or(rest);
    match rest {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_for_by_the_name_of_its_images() {
        for (server, image) in [
            ("https://index.docker.io/v1/", "docker.io"),
            ("docker.io", "docker.io"),
            ("registry.example:5000", "registry.example:5000"),
            ("https://registry.example:5000/v2/", "registry.example:5000"),
            ("http://registry.example/", "registry.example"),
            ("registry.example/team", "registry.example/team"),
        ] {
            assert_eq!(name(server), image);
        }
    }
}
