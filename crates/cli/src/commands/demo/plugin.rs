//! The plugin of the demo: asks the issuer in the demo's process, and is a real plugin otherwise.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{self, ExitCode},
};

use jiff::Timestamp;
use keyward_plugin::{Credential, Refusal};
use serde_json::Value;
use zeroize::Zeroizing;

/// The credential plugin of `keyward demo`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the issuer listens
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// For whom to get a credential
    #[arg(long, value_name = "NAME")]
    account: String,
}

/// Answers the client that started us.
pub(crate) fn run(args: &Args) -> ExitCode {
    keyward_plugin::serve(|_: &_| credential(args))
}

fn credential(args: &Args) -> Result<Credential, Refusal> {
    let answer = ask(args).map_err(|error| {
        Refusal::Failed(format!("the demo at `{}` is gone: {error}", args.socket.display()))
    })?;
    let answer: Value = serde_json::from_str(&answer)
        .map_err(|_| Refusal::Failed("the demo ended before it answered".to_owned()))?;
    if let Some(reason) = answer["refusal"].as_str() {
        return Err(Refusal::Failed(reason.to_owned()));
    }
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    let credential = match answer["token"].as_str() {
        Some(token) => Credential::token(token),
        None => Credential::certificate(text("certificate"), text("key")),
    };
    match answer["expires"].as_i64().map(Timestamp::from_second) {
        Some(Ok(end)) => Ok(credential.expires_at(end)),
        _ => Ok(credential),
    }
}

/// Says for whom, and by which process; the answer is all that comes back.
fn ask(args: &Args) -> io::Result<Zeroizing<String>> {
    let mut stream = UnixStream::connect(&args.socket)?;
    writeln!(stream, "{} {}", args.account, process::id())?;
    let mut answer = Zeroizing::new(String::new());
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
