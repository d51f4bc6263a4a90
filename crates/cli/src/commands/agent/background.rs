//! How the agent leaves whoever started it.

use std::{fs, io};

use keyward_process::harden;

use crate::failure::Failure;

/// Leaves the session, and closes every descriptor but the first three. A descriptor that the agent
/// kept would keep a pipeline of its first client waiting for as long as it lives.
pub(super) fn detach() {
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
pub(super) fn ready() -> Result<(), Failure> {
    let silent = || -> io::Result<()> {
        rustix::io::write(rustix::stdio::stdout(), b"+")?;
        let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        Ok(())
    };
    silent()
        .map_err(|error| Failure::failed(format!("the agent cannot leave its starter: {error}")))
}
