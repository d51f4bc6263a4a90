//! The agent as a process: how it begins, leaves whoever started it, and ends.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyward_process::{clock::SystemClock, harden, signals, surroundings::Surroundings};

use super::{End, Server, Settings};
use crate::{Address, entry::Entries};

/// How the agent is started.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServeOptions {
    /// Leave the session of whoever starts it, and say `+` on stdout when it listens.
    pub background: bool,
    /// Take the socket of the agent that is running.
    pub take_over: bool,
    /// Do not ask a server about a credential that a client asks for again.
    pub no_verify: bool,
}

/// Serves until there is a reason to end. `listening` is told the socket of an agent in the
/// foreground. To be called before the first other thread starts.
pub fn serve(
    options: ServeOptions,
    surroundings: &Surroundings,
    listening: impl FnOnce(&Path),
) -> Result<(), String> {
    if options.background {
        detach();
    }
    let address =
        Address::find(|name| surroundings.var(name)).map_err(|error| error.to_string())?;
    let socket = address.socket.clone();
    let entries = Entries::directory(surroundings)
        .ok_or_else(|| "there is no home for registrations: set `HOME`".to_owned())?;
    let mut settings = Settings::new(address, entries, Arc::new(SystemClock));
    let own = std::env::current_exe().ok();
    settings.browser = own.as_deref().and_then(no_browser);
    let off = surroundings.var("KEYWARD_AGENT_VERIFY").is_some_and(|value| value == "off");
    if !options.no_verify && !off {
        settings.verifier = own.as_deref().map(|own| own.with_file_name("keyward"));
    }
    settings.program = own;
    let begun =
        if options.take_over { Server::take_over(settings) } else { Server::bind(settings) };
    let server = begun.map_err(|error| error.to_string())?;
    if options.background {
        ready().map_err(|error| format!("the agent cannot leave its starter: {error}"))?;
    } else {
        listening(&socket);
    }
    let stopper = server.stopper();
    signals::on_stop(move || stopper.stop());
    match server.run() {
        Ok(End::Displaced) => {
            Err(format!("`{}` is another agent's now, or gone", socket.display()))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the agent cannot go on: {error}")),
    }
}

/// What plugins get as their browser when nobody attends them: it opens nothing.
fn no_browser(own: &Path) -> Option<String> {
    let client: PathBuf = own.with_file_name("keyward-exec");
    let client = client.to_str().filter(|path| !path.contains(char::is_whitespace))?;
    Some(format!("{client} --no-browser"))
}

/// Leaves the session, and closes every descriptor but the first three. A descriptor that the agent
/// kept would keep a pipeline of its first client waiting for as long as it lives.
fn detach() {
    // A process that leads its group already, as after `setsid`, has nothing to leave.
    let _ = rustix::process::setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    harden::raise_descriptors();
    let inherited = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = inherited.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.collect::<Vec<_>>() {
        if number > 2 {
            // The one that the list was read from is closed already.
            let _ = nix::unistd::close(number);
        }
    }
}

/// Tells whoever started us that we listen, and lets go of the pipe.
fn ready() -> io::Result<()> {
    rustix::io::write(rustix::stdio::stdout(), b"+")?;
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
