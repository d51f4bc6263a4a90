//! `keyward-exec -- COMMAND ARGS…`: wraps a credential plugin in a kubeconfig.
//!
//! Asks the agent for what the plugin would print. If no agent is running and none can be started,
//! or it is stuck, or it does not serve this process, the plugin runs as it would without Keyward.
//! `keyward` checks the plugin policy first; if `keyward` is missing and a policy exists, nothing
//! runs.
//!
//! `keyward-exec proxy SERVICE CONTEXT` asks the agent for the client certificate of a proxy, which the
//! agent starts if it is not running.
//!
//! `keyward-exec relay --socket SOCKET -- COMMAND` gives a command in a container access to the proxy whose
//! socket is mounted there.
//!
//! Every kubectl call starts this program, so it avoids everything that costs a fraction of a
//! millisecond.
//!
//! The crate is a library so that `keyward` can do the same when it is started by this name; nothing
//! else is meant to be used.

mod direct;
#[cfg(target_os = "linux")]
mod proxy;
#[cfg(target_os = "linux")]
mod relay;
#[cfg(target_os = "linux")]
mod warm;

use std::{env, ffi::OsString, io::Write as _, process::ExitCode};

const USAGE: &str = "\
Asks keyward's agent for the credential that a plugin would print.

Usage: keyward-exec -- COMMAND [ARGS]...
       keyward-exec proxy SERVICE CONTEXT
       keyward-exec relay --socket SOCKET [--listen ADDRESS] [-- COMMAND [ARGS]...]

`keyward wrap` and `keyward proxy start` put this program into kubeconfigs. Set KEYWARD_AGENT=off to run the plugin each time.
In a container, `relay` gives COMMAND access to the socket of `keyward grant create --socket`.
";

/// The name of the program.
pub const NAME: &str = "keyward-exec";

/// The whole program.
pub fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let first = words.next().unwrap_or_default();
    let rest: Vec<OsString> = words.collect();
    match (first.to_str(), rest.split_first()) {
        (Some("--"), Some((command, args))) => run(command, args),
        (Some("proxy"), Some(_)) if rest.last().is_some_and(is_help) => print(USAGE.as_bytes()),
        // After `--` it is a word of the command.
        (Some("relay"), Some(_))
            if rest.last().is_some_and(is_help) && !rest.iter().any(|word| word == "--") =>
        {
            print(USAGE.as_bytes())
        }
        #[cfg(target_os = "linux")]
        (Some("proxy"), Some((service, [context]))) => done(proxy::run(service, context)),
        #[cfg(target_os = "linux")]
        (Some("relay"), Some(_)) => done(relay::run(&rest)),
        (Some("--no-browser"), Some((url, _))) => {
            tell(&format!("the plugin wants a browser for {}", url.to_string_lossy()));
            ExitCode::FAILURE
        }
        (Some("--version" | "-V"), None) => {
            print(concat!("keyward-exec ", env!("CARGO_PKG_VERSION"), "\n").as_bytes())
        }
        (Some("--help" | "-h"), None) => print(USAGE.as_bytes()),
        _ => misused(),
    }
}

fn misused() -> ExitCode {
    let _ = std::io::stderr().write_all(USAGE.as_bytes());
    ExitCode::from(2)
}

/// The exit code of a command, which says on stderr why it failed.
#[cfg(target_os = "linux")]
fn done(result: Result<ExitCode, String>) -> ExitCode {
    result.unwrap_or_else(|why| {
        tell(&why);
        ExitCode::FAILURE
    })
}

fn is_help(word: &OsString) -> bool {
    word == "--help" || word == "-h"
}

fn run(command: &OsString, args: &[OsString]) -> ExitCode {
    #[cfg(target_os = "linux")]
    if !keyward_agent::is_off(var)
        && let Some(code) = warm::ask(command, args)
    {
        return code;
    }
    direct::run(command, args)
}

#[expect(clippy::disallowed_methods, reason = "this program is too small for made-up surroundings")]
fn var(name: &str) -> Option<OsString> {
    env::var_os(name)
}

fn print(bytes: &[u8]) -> ExitCode {
    let mut out = std::io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "keyward-exec: {text}");
}
