use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{self, ExitCode},
    time::{Duration, UNIX_EPOCH},
};

use jiff::Timestamp;
use keyward_plugin::{Credential, ImageQuestion, Logins, Refusal};
use serde_json::Value;

/// Answers the client that started this process with the credential that the issuer at `socket`
/// returns for `account`. See [`keyward_plugin::serve`] for the exit codes.
pub fn serve(socket: &Path, account: &str) -> ExitCode {
    keyward_plugin::serve(|_: &_| credential(socket, account))
}

/// Answers as an image credential provider: the account is the user name and the token the
/// password, for all images of a registry.
pub fn serve_images(socket: &Path, account: &str) -> ExitCode {
    keyward_plugin::serve_image(|_: &ImageQuestion| {
        let (answer, end) = fetch(socket, account)?;
        let Some(token) = answer["token"].as_str() else {
            return Err(Refusal::Failed("the issuer gave no token".to_owned()));
        };
        Ok(Logins::for_registry(account, token).expires_at(end))
    })
}

fn credential(socket: &Path, account: &str) -> Result<Credential, Refusal> {
    let (answer, end) = fetch(socket, account)?;
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    let credential = match answer["token"].as_str() {
        Some(token) => Credential::token(token),
        None => Credential::certificate(text("certificate"), text("key")),
    };
    Ok(credential.expires_at(end))
}

/// The issuer's credential for an account, and its expiry.
fn fetch(socket: &Path, account: &str) -> Result<(Value, Timestamp), Refusal> {
    let answer = ask(socket, account).map_err(|error| {
        Refusal::Failed(format!("nobody issues credentials at `{}`: {error}", socket.display()))
    })?;
    let answer: Value = serde_json::from_str(&answer)
        .map_err(|_| Refusal::Failed("the issuer ended before it answered".to_owned()))?;
    if let Some(reason) = answer["refusal"].as_str() {
        return Err(Refusal::Failed(reason.to_owned()));
    }
    let end = UNIX_EPOCH + Duration::from_secs(answer["expires"].as_u64().unwrap_or_default());
    match end.try_into() {
        Ok(end) => Ok((answer, end)),
        Err(_) => Err(Refusal::Failed("the issuer told no end".to_owned())),
    }
}

/// Sends the account and our process id, and returns the whole answer.
fn ask(socket: &Path, account: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{account} {}", process::id())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
