//! The commands for people.

mod csr;
mod import;
mod keygen;
mod list;
mod test;

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};
use keyward_plugin::{Configuration, Refusal};
use keyward_protocol::signer::{REQUEST_VARIABLE, Request};

use crate::{client_request, target::Target, uri::Uri};

/// Sign Kubernetes handshakes with keys that stay in smart cards, TPMs and HSMs
///
/// As `pathExec` of a user in a kubeconfig it answers a client. These commands are for people. A PIN
/// is asked for at the terminal, or read from the file that `pin-source` of the URI names.
#[derive(Parser)]
#[command(name = "keyward-pkcs11", version, disable_help_subcommand = true)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show tokens, keys and certificates, with their URIs
    List(list::List),
    /// Sign with the key in every way it can, check the signatures, and say how long they took
    Test(test::Test),
    /// Make a key inside the token, which never gives it away
    Keygen(keygen::Keygen),
    /// Print a certificate request for the key, signed inside the token
    Csr(csr::Csr),
    /// Store the certificate for the key, and what comes with it, in the token
    Import(import::Import),
}

/// What every command is told.
#[derive(Args)]
struct Place {
    /// The key or token, as `pkcs11:token=lab;object=jane?module-path=/usr/lib/…/module.so`
    ///
    /// Without one, the configuration of the request in the environment says it, as for a client
    uri: Option<String>,
}

impl Place {
    fn target(&self) -> Result<Target, Refusal> {
        let Some(uri) = &self.uri else { return asked() };
        let uri = Uri::parse(uri)?;
        if uri.pin_value.is_some() {
            return Err(Refusal::bad_config(
                "a PIN does not belong on a command line, where every user can read it\n\n\
                 hint: leave `pin-value` out and type it, or name a file with `pin-source`",
            ));
        }
        Target::from_uri(uri)
    }
}

/// What a client's request means; any token without one.
fn asked() -> Result<Target, Refusal> {
    let Some(text) = client_request() else { return Target::from_uri(Uri::default()) };
    let request = Request::read(text.as_encoded_bytes())
        .map_err(|e| Refusal::BadConfig(format!("cannot read `{REQUEST_VARIABLE}`: {e}")))?;
    Target::from_configuration(request.configuration().unwrap_or(&Configuration::default()))
}

/// Reads the command line and does what it says.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    let outcome = match Program::parse_from(arguments).command {
        Command::List(command) => command.run(),
        Command::Test(command) => command.run(),
        Command::Keygen(command) => command.run(),
        Command::Csr(command) => command.run(),
        Command::Import(command) => command.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            say(&format!("error: {refusal}"));
            ExitCode::from(refusal.exit_code())
        }
    }
}

/// Prints data.
fn print(text: &str) -> Result<(), Refusal> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|e| Refusal::failed(format!("cannot print: {e}")))
}

/// Says something to the person. Nobody can be told when even that fails.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
