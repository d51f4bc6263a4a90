//! `keyward proxy start`, `stop` and `env`: a proxy that the agent runs.

use std::{
    io::{IsTerminal as _, Read as _},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use clap::ValueEnum;
use keyward_agent::identity::Profile;
use keyward_host::Kubeconfig;
use keyward_process::harden;
use keyward_protocol::{
    agent::{Admin, Message, ProxyRequest, Served},
    url,
};
use keyward_proxy::{Service, ServiceSettings};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::serve::OWN;
use crate::{
    commands::{agent, wrap},
    duration,
    failure::Failure,
    flags,
    globals::Globals,
    output,
};

/// How long a proxy may take to start; the agent gives up sooner.
const START: Duration = Duration::from_secs(60);
/// How long a proxy stays without a request.
const IDLE: Duration = Duration::from_secs(3600);
/// How long a proxy may take until it no longer listens.
const STOP: Duration = Duration::from_secs(15);

/// Variables that plugins need wherever the proxy is started from. Those that the network needs, and those
/// that choose an account, are added. Others, which may be secret, are not kept.
const VARIABLES: [&str; 5] = ["PATH", "LC_ALL", "KUBERC", "AWS_CA_BUNDLE", "SSH_AUTH_SOCK"];

/// Serve every context of the kubeconfig in the background
///
/// Writes a kubeconfig for clients and prints the `export` line for it. Its path and the addresses in it
/// never change, so the line can go into your shell's profile. Clients start the proxy again when it has
/// ended.
#[derive(Debug, Clone, Default, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(super) struct Start {
    /// Write client keys into the kubeconfig, for clients that cannot run exec plugins; such clients
    /// cannot start the proxy
    #[arg(long = "static")]
    static_keys: bool,

    /// Exit after this time without a request; the next client starts the proxy again
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::budget)]
    idle_timeout: Duration,

    /// Forward requests that carry their own `Authorization`, unchanged
    #[arg(long)]
    allow_authorization: bool,

    /// Forward requests that impersonate another user (`--as`)
    #[arg(long)]
    allow_impersonation: bool,

    /// Also get a new credential when a server answers 403
    #[arg(long)]
    refresh_on_403: bool,
}

/// Stop the background proxy
///
/// Returns when the proxy no longer listens. The next client of its kubeconfig starts it again.
#[derive(Debug, clap::Args)]
pub(super) struct Stop {}

/// Print the line that makes a shell use the background proxy
///
/// Works in sh and fish: `eval "$(keyward proxy env)"`. Starts the proxy if it has never run.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_kubeconfig())]
pub(super) struct Env {
    /// The shell's syntax; `sh` also works in fish
    #[arg(long, value_name = "SHELL", default_value = "sh")]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Sh,
    Fish,
    #[value(name = "powershell")]
    Power,
}

impl Shell {
    /// Prints the line that makes the shell use a service.
    fn print(self, service: &Service) -> Result<(), Failure> {
        output::print(&self.line(&service.kubeconfig().display().to_string()))
    }

    fn line(self, path: &str) -> String {
        match self {
            Self::Sh => format!("export KUBECONFIG={}\n", output::quoted(path)),
            Self::Fish => {
                let path = path.replace('\\', "\\\\").replace('\'', "\\'");
                format!("set -gx KUBECONFIG '{path}'\n")
            }
            Self::Power => format!("$Env:KUBECONFIG = '{}'\n", path.replace('\'', "''")),
        }
    }
}

/// Starts the proxy, and prints how to use it.
pub(super) fn start(args: &Start, globals: &Globals) -> Result<(), Failure> {
    let service = register(args, globals)?;
    if std::io::stdin().is_terminal() && signs(&service, globals) && !serves(&service, globals)? {
        run_attended(&service, globals)?;
    } else {
        run(&service, globals)?;
    }
    if std::io::stdout().is_terminal() {
        output::tell(&format!(
            "serving `{}`; put the next line into your shell's profile to use it always\n",
            sources(&service)
        ));
    }
    Shell::Sh.print(&service)
}

pub(super) fn env(args: &Env, globals: &Globals) -> Result<(), Failure> {
    let service = match chosen(globals) {
        Some(service) if service.kubeconfig().exists() && !service.settings().static_keys => {
            service
        }
        _ => ensure(globals)?,
    };
    args.shell.print(&service)
}

/// The service of the selected kubeconfig, which runs when this returns.
pub(crate) fn ensure(globals: &Globals) -> Result<Service, Failure> {
    // Settings that somebody has chosen stay, and so does the account of other shells.
    let service = match chosen(globals) {
        Some(service) => service,
        None => register(&Start::usual(), globals)?,
    };
    run(&service, globals)?;
    Ok(service)
}

/// Does what `eval "$(keyward proxy)"` wants: the line, and no proxy that the shell would wait for.
pub(super) fn substitute(globals: &Globals) -> Result<(), Failure> {
    let service = ensure(globals)?;
    output::tell("the proxy runs in the background; `keyward proxy stop` ends it\n");
    Shell::Sh.print(&service)
}

impl Start {
    fn usual() -> Self {
        Self { idle_timeout: IDLE, ..Self::default() }
    }
}

pub(super) fn stop(globals: &Globals) -> Result<(), Failure> {
    let service = chosen(globals).ok_or_else(|| {
        Failure::failed("there is no background proxy for this kubeconfig")
            .hint("`keyward proxy status` shows the proxies that are running")
    })?;
    if !halt(&service, globals)? {
        output::tell("the proxy is not running\n");
    }
    Ok(())
}

/// Stops the proxy, and returns whether it was running.
fn halt(service: &Service, globals: &Globals) -> Result<bool, Failure> {
    let request = Message::Proxy(ProxyRequest::Stop(service.name().to_owned()));
    match agent::ask_if_running(globals, &request, STOP)? {
        Some(Message::Served(Served::Done(_))) => Ok(true),
        Some(Message::Failure(failure)) => Err(Failure::failed(failure.text)),
        _ => end_without_agent(Some(service.name()), globals),
    }
}

/// Ends background proxies that have lost their agent, and so would run on until they are idle: the one with
/// this name, or all. Returns whether there was one.
pub(crate) fn end_without_agent(name: Option<&str>, globals: &Globals) -> Result<bool, Failure> {
    let mut found = false;
    for running in keyward_proxy::running(&globals.surroundings)? {
        let status = running.status().unwrap_or_default();
        let service = status["service"].as_str();
        let is_meant = service.is_some_and(|service| name.is_none_or(|name| name == service));
        if let (true, Ok(pid)) = (is_meant, i32::try_from(running.pid)) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            found = true;
        }
    }
    Ok(found)
}

/// The files of the kubeconfig that the flags and the environment select.
fn files(globals: &Globals) -> Vec<PathBuf> {
    let paths = Kubeconfig::paths(&globals.surroundings, globals.flags.kubeconfig());
    paths.iter().map(|path| globals.surroundings.absolute(path)).collect()
}

/// The service of the selected kubeconfig, if it was ever started.
pub(super) fn chosen(globals: &Globals) -> Option<Service> {
    Service::of_kubeconfig(&globals.surroundings, &files(globals))
}

/// Makes the service, or changes its settings.
fn register(args: &Start, globals: &Globals) -> Result<Service, Failure> {
    let before = chosen(globals).map(|service| service.settings().clone());
    let kubeconfig = before.as_ref().map_or_else(|| files(globals), |s| s.kubeconfig.clone());
    let mut client = String::new();
    if !args.static_keys {
        client = wrap::wrapper(None, globals)?;
        wrap::admit(&client, globals)?;
    }
    let settings = ServiceSettings {
        kubeconfig,
        kuberc: globals.flags.kuberc().map(|path| globals.surroundings.absolute(path)),
        environment: environment(globals),
        client,
        static_keys: args.static_keys,
        idle_seconds: args.idle_timeout.as_secs().max(1),
        allow_authorization: args.allow_authorization,
        allow_impersonation: args.allow_impersonation,
        refresh_on_403: args.refresh_on_403,
    };
    let service = Service::register(&globals.surroundings, settings)?;
    if before.is_some_and(|before| essential(&before) != essential(service.settings())) {
        // It has the old settings until it starts again.
        halt(&service, globals)?;
    }
    Ok(service)
}

/// The settings without variables that differ between shells and choose nothing: a running proxy, which
/// may have asked for PINs, is not stopped for them.
fn essential(settings: &ServiceSettings) -> ServiceSettings {
    const INCIDENTAL: [&str; 5] = ["PATH", "LANG", "LC_ALL", "TZ", "SSH_AUTH_SOCK"];
    let mut essential = settings.clone();
    essential.environment.retain(|(name, _)| !INCIDENTAL.contains(&name.as_str()));
    essential
}

/// The variables that the proxy keeps: a client that starts it must not choose the account.
fn environment(globals: &Globals) -> Vec<(String, String)> {
    let accounts = Profile::ALL.iter().flat_map(|profile| profile.pinnable()).copied();
    let network = Profile::network_variables().iter().copied();
    let mut names: Vec<_> = VARIABLES.into_iter().chain(network).chain(accounts).collect();
    // A proxy has these from whoever starts it.
    names.retain(|name| !OWN.contains(name));
    names.sort_unstable();
    names.dedup();
    let mut kept = Vec::new();
    for name in names {
        let Some(value) = globals.surroundings.var(name).and_then(|v| v.into_string().ok()) else {
            continue;
        };
        if url::passwords(&value).is_empty() {
            kept.push((name.to_owned(), value));
        } else {
            tracing::warn!("`{name}` contains a password and is not kept for the proxy");
        }
    }
    kept
}

/// Asks the agent to run the proxy, and waits until it serves.
pub(super) fn run(service: &Service, globals: &Globals) -> Result<(), Failure> {
    let var = |name: &str| globals.surroundings.var(name);
    if keyward_agent::is_off(var) {
        return Err(Failure::failed("a background proxy needs the agent, which is off here")
            .note("cause", "`CI` is set, or `KEYWARD_AGENT` is `off`")
            .hint("run `keyward proxy -- COMMAND`, or `keyward proxy` in its own terminal"));
    }
    let request = Message::Proxy(ProxyRequest::Start(service.name().to_owned()));
    match agent::ask_or_start(globals, &request, START)? {
        Message::Served(Served::Done(_)) => Ok(()),
        Message::Failure(failure) => Err(Failure::failed(failure.text)),
        Message::Served(Served::Not(why)) | Message::Direct(why) => Err(Failure::failed(why)),
        _ => Err(Failure::failed("the agent sent an unexpected answer")),
    }
}

/// Whether users of the kubeconfig have their key in an external signer, which may ask for a PIN.
fn signs(service: &Service, globals: &Globals) -> bool {
    let files = service.settings().kubeconfig.iter();
    let configs = files.filter_map(|file| Kubeconfig::load(&globals.surroundings, Some(file)).ok());
    configs.flat_map(|config| config.users).any(|user| {
        user.value.auth_provider.is_some_and(|provider| provider.name == "externalSigner")
    })
}

/// Whether the proxy is running.
fn serves(service: &Service, globals: &Globals) -> Result<bool, Failure> {
    let status = agent::reported_status(globals)?.unwrap_or_default();
    let mut names = status["proxies"].as_array().into_iter().flatten();
    Ok(names.any(|name| name == service.name()))
}

/// Runs the proxy from this terminal, where signers ask for their PINs, until it serves. A program that
/// the agent starts could not use the terminal.
#[expect(
    clippy::disallowed_methods,
    reason = "the proxy outlives whoever starts it, which the runner of plugins never lets happen"
)]
fn run_attended(service: &Service, globals: &Globals) -> Result<(), Failure> {
    // The proxy connects to an agent, and starts none.
    agent::ask_or_start(globals, &Message::Admin(Admin::Status), START)?;
    let started = std::env::current_exe().and_then(|own| {
        // Signers stay when the terminal is closed; a shell is what can ignore a signal for them.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(own);
        command.args(["proxy", "serve", service.name(), "--attended"]).stdout(Stdio::piped());
        command.spawn()
    });
    let mut child = started.map_err(Failure::of("the proxy could not be started"))?;
    harden::restore(child.id());
    let mut byte = [0];
    let ready = child.stdout.as_mut().map(|stdout| stdout.read_exact(&mut byte));
    if matches!(ready, Some(Ok(()))) {
        return Ok(());
    }
    let _ = child.wait();
    Err(Failure::failed("the proxy did not start"))
}

fn sources(service: &Service) -> String {
    let files = service.settings().kubeconfig.iter().map(|file| file.display().to_string());
    files.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_has_its_own_syntax() {
        let odd = r"/home/o'neil/a b\c";
        assert_eq!(Shell::Sh.line("/a/b"), "export KUBECONFIG=/a/b\n");
        assert_eq!(Shell::Sh.line(odd), "export KUBECONFIG='/home/o'\\''neil/a b\\c'\n");
        assert_eq!(Shell::Fish.line(odd), "set -gx KUBECONFIG '/home/o\\'neil/a b\\\\c'\n");
        assert_eq!(Shell::Power.line(odd), "$Env:KUBECONFIG = '/home/o''neil/a b\\c'\n");
    }
}
