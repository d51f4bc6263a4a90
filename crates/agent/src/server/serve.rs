//! The agent as a process: how it starts, detaches from the process that started it, and ends.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyward_process::{clock::SystemClock, harden, signals, surroundings::Surroundings};

use super::{End, Server, Settings};
use crate::{Address, registration::Registrations, wrap::Journal};

/// How the agent is started.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "these are independent flags of a command line")]
pub struct ServeOptions {
    /// Detach from the session, and print `+` on stdout when the agent listens.
    pub background: bool,
    /// Take over the socket of the running agent.
    pub take_over: bool,
    /// Do not check with the server when a client asks for a credential again.
    pub no_verify: bool,
    /// Be the node's agent, which root's programs share.
    pub system: bool,
}

/// Serves until there is a reason to end. Calls `listening` with the socket if the agent runs in the
/// foreground. Must be called before any other thread starts.
pub fn serve(
    options: ServeOptions,
    surroundings: &Surroundings,
    listening: impl FnOnce(&Path),
) -> Result<(), String> {
    if options.background {
        detach();
    }
    let settings = if options.system {
        system_settings(surroundings)?
    } else {
        user_settings(options, surroundings)?
    };
    let socket = settings.address.socket.clone();
    let begun =
        if options.take_over { Server::take_over(settings) } else { Server::bind(settings) };
    let server = begun.map_err(|error| error.to_string())?;
    if options.background {
        ready().map_err(|error| {
            format!("the agent cannot detach from the process that started it: {error}")
        })?;
    } else {
        listening(&socket);
    }
    let stopper = server.stopper();
    signals::on_stop(move || stopper.stop());
    match server.run() {
        Ok(End::Displaced) => {
            Err(format!("`{}` was removed or taken by another agent", socket.display()))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the agent failed: {error}")),
    }
}

fn user_settings(options: ServeOptions, surroundings: &Surroundings) -> Result<Settings, String> {
    let address =
        Address::find(|name| surroundings.var(name)).map_err(|error| error.to_string())?;
    let registrations = Registrations::directory(surroundings)
        .ok_or_else(|| "cannot locate the registrations: set `HOME`".to_owned())?;
    let mut settings = Settings::new(address, registrations, Arc::new(SystemClock));
    let own = std::env::current_exe().ok();
    settings.browser = own.as_deref().and_then(no_browser);
    let off = surroundings.var("KEYWARD_AGENT_VERIFY").is_some_and(|value| value == "off");
    if !options.no_verify && !off {
        settings.verifier = own.as_deref().map(|own| own.with_file_name("keyward"));
    }
    settings.proxy_program = own.as_deref().map(|own| own.with_file_name("keyward"));
    settings.proxies =
        Journal::directory(surroundings).map(|beside| beside.with_file_name("proxy"));
    settings.program = own;
    settings.service_manager = surroundings.var("NOTIFY_SOCKET").filter(|path| !path.is_empty());
    Ok(settings)
}

/// The node's agent runs no plugins, so it needs no registrations; it stays until it is stopped.
fn system_settings(surroundings: &Surroundings) -> Result<Settings, String> {
    let address =
        Address::system(|name| surroundings.var(name)).map_err(|error| error.to_string())?;
    let registrations = address.beside("entries");
    let mut settings = Settings::new(address, registrations, Arc::new(SystemClock));
    settings.system = true;
    settings.idle = Duration::MAX;
    settings.program = std::env::current_exe().ok();
    Ok(settings)
}

/// The `BROWSER` for plugins that nobody attends: it opens nothing.
fn no_browser(own: &Path) -> Option<String> {
    let client: PathBuf = own.with_file_name("keyward-exec");
    let client = client.to_str().filter(|path| !path.contains(char::is_whitespace))?;
    Some(format!("{client} --no-browser"))
}

/// Leaves the session, and closes every descriptor except the first three. An inherited descriptor
/// would keep a pipeline of the agent's first client waiting until the agent ends.
fn detach() {
    // Fails for a process that already leads its group, as after `setsid`, and then is not needed.
    let _ = rustix::process::setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    harden::raise_descriptors();
    let inherited = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = inherited.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.collect::<Vec<_>>() {
        if number > 2 {
            // The descriptor of the directory listing is closed already.
            let _ = nix::unistd::close(number);
        }
    }
}

/// Reports to the starting process that this one serves, with a byte on stdout, and lets go of its
/// terminal and pipes.
pub fn ready() -> io::Result<()> {
    rustix::io::write(rustix::stdio::stdout(), b"+")?;
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
