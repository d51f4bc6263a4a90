use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{self, ExitCode},
    time::{Duration, UNIX_EPOCH},
};

use keyward_plugin::{Credential, Refusal};
use serde_json::Value;

/// Answers the client that started this process with what the issuer at `socket` has for `account`.
/// See [`keyward_plugin::serve`] for the exit codes.
pub fn serve(socket: &Path, account: &str) -> ExitCode {
    keyward_plugin::serve(|_: &_| credential(socket, account))
}

fn credential(socket: &Path, account: &str) -> Result<Credential, Refusal> {
    let answer = ask(socket, account).map_err(|error| {
        Refusal::Failed(format!("nobody issues credentials at `{}`: {error}", socket.display()))
    })?;
    let answer: Value = serde_json::from_str(&answer)
        .map_err(|_| Refusal::Failed("the issuer ended before it answered".to_owned()))?;
    if let Some(reason) = answer["refusal"].as_str() {
        return Err(Refusal::Failed(reason.to_owned()));
    }
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    let credential = match answer["token"].as_str() {
        Some(token) => Credential::token(token),
        None => Credential::certificate(text("certificate"), text("key")),
    };
    let end = UNIX_EPOCH + Duration::from_secs(answer["expires"].as_u64().unwrap_or_default());
    match end.try_into() {
        Ok(end) => Ok(credential.expires_at(end)),
        Err(_) => Err(Refusal::Failed("the issuer told no end".to_owned())),
    }
}

/// Says for whom, and by which process; the answer is all that comes back.
fn ask(socket: &Path, account: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{account} {}", process::id())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
