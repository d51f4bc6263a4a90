//! `keyward-provider-docker`: answers from docker's `config.json`, and from the credential helpers
//! named there.

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use keyward_host::rules::Program;
use keyward_node::parse;
use keyward_plugin::{ImageQuestion, Logins, Refusal, serve_image};
use keyward_process::{
    runner::{self, Cancel, Invocation, Status, Stdin},
    surroundings::Surroundings,
};
use keyward_protocol::{
    docker::{Credentials, NOT_FOUND, Verb},
    image::Login,
    text,
};
use zeroize::Zeroizing;

use super::{Bridge, config::DockerConfig};
use crate::{commands::image::setup::trusted_by_environment, duration, signals};

/// Log in to registries with the logins in docker's `config.json`
///
/// An image credential provider, started by the kubelet or by Keyward. It answers from `auths`, and
/// asks the credential helpers of `credHelpers` and `credsStore`.
#[derive(Debug, Parser)]
#[command(name = "keyward-provider-docker", version)]
pub(super) struct Args {
    /// Docker's configuration, instead of `config.json` in `$DOCKER_CONFIG` or in `~/.docker`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Logins of a container runtime, instead of docker's or after those of `--config`: a `registries.yaml` of k3s
    /// or RKE2, containerd's `config.toml`, or a directory of `hosts.toml` files; can be repeated
    #[arg(long, value_name = "PATH")]
    registries: Vec<PathBuf>,

    /// How long to cache a login from the file; the file may change
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::budget)]
    cache_for: Duration,

    /// How long to cache a login from a helper; it may be short-lived without saying so
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration::budget)]
    cache_helper_for: Duration,

    /// How long a helper may take
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::budget)]
    helper_timeout: Duration,
}

/// Answers the kubelet.
pub(super) fn main(args: &[OsString]) -> ExitCode {
    let args: Args = match parse(Bridge::Docker.name(), args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    signals::watch();
    serve_image(|question: &ImageQuestion| logins(&args, question))
}

fn logins(args: &Args, question: &ImageQuestion) -> Result<Logins, Refusal> {
    let surroundings = Surroundings::process();
    let config = DockerConfig::load(args.config.as_deref(), &args.registries, &surroundings)?;
    let registry = question.registry();
    if let Some(helper) = config.helper(registry)
        && let Some(login) = ask(helper, server(registry), args.helper_timeout, &surroundings)?
    {
        let logins = Logins::for_registry(login.username, login.password.expose());
        return Ok(logins.kept_for(args.cache_helper_for));
    }
    let Some(found) = config.login(question.image())? else { return Ok(Logins::none()) };
    let (name, password) = (&found.login.username, found.login.password.expose());
    let logins = if found.whole_registry {
        Logins::for_registry(name, password)
    } else {
        Logins::for_image(name, password)
    };
    Ok(logins.kept_for(args.cache_for))
}

/// The name under which docker asks helpers for Docker Hub.
fn server(registry: &str) -> &str {
    match registry {
        "docker.io" | "index.docker.io" => "https://index.docker.io/v1/",
        other => other,
    }
}

/// Asks a credential helper; `None` if it has no login for the server.
fn ask(
    helper: &str,
    server: &str,
    budget: Duration,
    surroundings: &Surroundings,
) -> Result<Option<Login>, Refusal> {
    // The suffix of a program's name: with a slash in it, it could name a program in any directory.
    if helper.contains(['/', '\\']) {
        return Err(Refusal::BadConfig(format!(
            "docker's configuration names the helper `{}`, which is a path, not a name",
            text::clean(helper)
        )));
    }
    let name = format!("docker-credential-{helper}");
    if name == Bridge::Helper.name() {
        return Err(Refusal::BadConfig(format!(
            "docker's configuration names the helper `{helper}`, which would ask this provider again"
        )));
    }
    let program = Program::locate(&name, None, &trusted_by_environment(surroundings), surroundings)
        .map_err(|error| {
            let notes = error.notes().iter().map(|(label, note)| format!("\n  {label}: {note}"));
            Refusal::Failed(format!("{error}{}", notes.collect::<String>()))
        })?;
    let mut invocation = Invocation::new(program.path);
    invocation.file_id = Some(program.file_id);
    invocation.args = vec![Verb::Get.name().into()];
    invocation.env = surroundings.vars();
    invocation.stdin = Stdin::Request(Zeroizing::new(server.as_bytes().to_vec()));
    invocation.budget = budget;
    let output = runner::run(&invocation, &Cancel::default())
        .map_err(|failure| Refusal::Failed(format!("helper `{name}`: {failure}")))?;
    if output.status.success() {
        return read(&output.stdout).map(Some).ok_or_else(|| {
            Refusal::Failed(format!("helper `{name}` answered without a user name and a password"))
        });
    }
    // A helper prints errors on stdout too. It printed a login only if it succeeded.
    let said = String::from_utf8_lossy(&output.stdout);
    if said.trim() == NOT_FOUND {
        return Ok(None);
    }
    let code = match output.status {
        Status::Code(code) => format!("failed with exit code {code}"),
        Status::Signal(signal) => format!("was ended by signal {signal}"),
    };
    let line = said.lines().next().unwrap_or_default();
    Err(Refusal::Failed(format!("helper `{name}` {code}: {}", text::clean(line))))
}

/// Parses a helper's answer. The user name `<token>` marks a token that only docker can exchange.
fn read(stdout: &[u8]) -> Option<Login> {
    let login = Credentials::read(stdout).ok()?.login;
    let usable =
        !login.username.is_empty() && login.username != "<token>" && !login.password.is_empty();
    usable.then_some(login)
}
