//! `docker-credential-keyward`: image credential providers for every program that supports docker's
//! credential helpers.
//!
//! Docker's protocol has a verb on the command line, the server on stdin, and the answer on stdout,
//! whether a login or an error.

use std::{ffi::OsString, fmt::Write as _, process::ExitCode};

use keyward_host::{Kind, redact::redact};
use keyward_image::Lookup;
use keyward_plugin::{DockerHelper, DockerLogin, DockerVerb, Refusal, serve_docker_verb};

use crate::{
    commands::image::setup::{Place, Setup},
    duration,
    failure::Failure,
    flags::Flags,
    globals::Globals,
    log,
    output::{self, inline},
    signals,
};

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

/// Answers docker.
pub(super) fn main(args: &[OsString]) -> ExitCode {
    let mut globals = Globals::new(Flags::default());
    log::start(&globals);
    let word = match args {
        [word] => word.to_str().unwrap_or_default(),
        _ => "",
    };
    if let Some(verb) = DockerVerb::parse(word) {
        let timeout = with_timeout(&mut globals).map_err(|failure| reason(&failure));
        return serve_docker_verb(verb, Providers { globals, timeout });
    }
    if matches!(word, "-h" | "--help" | "help") {
        return match output::print(USAGE) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report(&globals),
        };
    }
    output::tell(USAGE);
    ExitCode::from(2)
}

/// The kubelet's image credential providers, as a helper of docker.
struct Providers {
    globals: Globals,
    /// Whether the time limit in the environment can be read, or why not.
    timeout: Result<(), String>,
}

impl DockerHelper for Providers {
    fn get(&self, server: &str) -> Result<Option<DockerLogin>, Refusal> {
        self.answer(|globals| get(server, globals))
    }

    fn store(&self, _: &str, _: &DockerLogin) -> Result<(), Refusal> {
        self.answer(|_| Err(read_only("stores nothing")))
    }

    fn erase(&self, _: &str) -> Result<(), Refusal> {
        self.answer(|_| Err(read_only("erases nothing")))
    }

    fn list(&self) -> Result<Vec<(String, String)>, Refusal> {
        self.answer(list)
    }

    fn version(&self) -> String {
        concat!("docker-credential-keyward (Keyward) ", env!("CARGO_PKG_VERSION")).to_owned()
    }
}

impl Providers {
    /// Docker's own message shows one line; the full error goes to stderr.
    fn answer<T>(&self, ask: impl FnOnce(&Globals) -> Result<T, Failure>) -> Result<T, Refusal> {
        self.timeout.clone().map_err(Refusal::Failed)?;
        ask(&self.globals).map_err(|failure| {
            failure.report(&self.globals);
            signals::leave_if_interrupted();
            Refusal::Failed(reason(&failure))
        })
    }
}

/// The failure as one line.
fn reason(failure: &Failure) -> String {
    let mut line = inline(failure.message());
    for (label, note) in failure.notes() {
        _ = write!(line, "; {label}: {}", inline(note));
    }
    if let Some(said) = failure.said().and_then(last_line) {
        _ = write!(line, "; it said: {}", inline(said));
    }
    redact(&line).into_owned()
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

fn get(server: &str, globals: &Globals) -> Result<Option<DockerLogin>, Failure> {
    signals::watch();
    let setup = Setup::open(&Place::default(), globals)?;
    let found = setup.images().lookup_name(&*setup.config()?, name(server).to_owned(), None);
    let Some(best) = found.best() else { return nothing(server, &found) };
    for error in found.failures() {
        tracing::warn!(%error, "a provider failed; another has a login");
    }
    let login = &best.login;
    Ok(Some(DockerLogin::new(&login.username, login.password.expose())))
}

/// If no provider matches the server, docker continues without a login. If one failed, docker
/// should report that, rather than an unexplained refusal by the registry.
fn nothing(server: &str, found: &Lookup) -> Result<Option<DockerLogin>, Failure> {
    let mut failures = found.failures();
    let Some(error) = failures.next() else { return Ok(None) };
    let mut failure = Failure::from(error.clone()).note("server", inline(server));
    for other in failures {
        failure = failure.note("and", other.to_string());
    }
    if error.kind() == Kind::NotFound {
        failure =
            failure.hint("`KEYWARD_IMAGE_BIN_DIR` names the directory of the providers' programs");
    }
    Err(failure)
}

/// Lists the logins of every registry that a provider names without a `*`; others cannot be listed.
fn list(globals: &Globals) -> Result<Vec<(String, String)>, Failure> {
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
    let mut users = Vec::new();
    for server in servers {
        let found = setup.images().lookup_name(&config, server.to_owned(), None);
        for error in found.failures() {
            tracing::warn!(server, %error, "a provider failed");
        }
        if let Some(best) = found.best() {
            users.push((server.to_owned(), best.login.username.clone()));
        }
    }
    Ok(users)
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
