//! The program `keyward-agent`: the agent alone, without the command line, TLS and proxy of `keyward`,
//! so that it takes little memory for as long as somebody is logged in.
//!
//! `keyward-exec` and `keyward agent` start it.

use std::{io::Write as _, process::ExitCode};

#[cfg(target_os = "linux")]
const USAGE: &str = "\
Keeps credentials in memory for all processes of this user.

Usage: keyward-agent [--no-verify | --system]

`keyward-exec` starts it when it is needed. `keyward agent --help` says more.
";

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    use std::time::Duration;

    use keyward_process::{harden, runner, surroundings::Surroundings};

    /// How long plugins may take to die. They are killed, so only the system can be slow.
    const LAST_BREATH: Duration = Duration::from_secs(5);

    harden::keep_memory_private();
    let mut options = keyward_agent::ServeOptions::default();
    for word in std::env::args_os().skip(1) {
        match word.to_str() {
            Some("--background") => options.background = true,
            Some("--take-over") => options.take_over = true,
            Some("--no-verify") => options.no_verify = true,
            Some("--system") => options.system = true,
            Some("--version" | "-V") => {
                return print(concat!("keyward-agent ", env!("CARGO_PKG_VERSION"), "\n"));
            }
            Some("--help" | "-h") => return print(USAGE),
            _ => {
                tell(USAGE);
                return ExitCode::from(2);
            }
        }
    }
    let listening =
        |socket: &std::path::Path| tell(&format!("listening on `{}`\n", socket.display()));
    let served = keyward_agent::serve(options, &Surroundings::process(), listening);
    // Nothing that was started for an answer that nobody waits for any more outlives us.
    runner::shut_down(LAST_BREATH);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("keyward-agent: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    tell(
        "keyward-agent: the agent exists on Linux only; here `keyward-exec` runs the plugin itself\n",
    );
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn tell(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
