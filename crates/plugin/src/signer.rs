use std::{
    env,
    io::{self, BufRead, BufReader, Read},
    process::ExitCode,
};

use keyward_protocol::signer::{
    CertificateResponse, Configuration, ErrorResponse, MAX_LINE, MessageError, REQUEST_VARIABLE,
    Reason, Request, Response, SignRequest,
};
use zeroize::Zeroizing;

use crate::{
    Refusal,
    serve::{end, program},
    stdout::Stdout,
};

/// An external signer: has a certificate and signs with its key, which it does not export. This is the
/// whole contract; [`serve_signer`] does the rest.
///
/// By default the program runs once per request, and one of these methods is called once. In resident mode
/// the program keeps running and they are called in any order until the client exits, which is why they
/// take `&mut self`: keep the open token there.
pub trait Signer {
    /// The certificate, its intermediates, and a text to show the person before a signature.
    fn certificate(
        &mut self,
        configuration: &Configuration,
    ) -> Result<CertificateResponse, Refusal>;

    /// Signs `request.digest` as `request.options` demand: ECDSA in ASN.1 DER, everything else raw.
    /// [`Refusal::Unsupported`] if the key cannot.
    fn sign(&mut self, request: &SignRequest) -> Result<Vec<u8>, Refusal>;

    /// Opens the token and makes it ready to sign, with a prompt if needed. Called in resident mode before
    /// the client connects, because a server does not wait long for a signature.
    ///
    /// The default does nothing.
    fn unlock(&mut self, configuration: &Configuration) -> Result<(), Refusal> {
        let _ = configuration;
        Ok(())
    }
}

/// Answers the client that started this process: the whole `main` of an external signer.
///
/// Reads the request from the environment and prints the answer; in resident mode answers one request per
/// line of stdin until stdin ends. Stdout is moved aside first, as in [`serve`](crate::serve()), so that
/// no library can spoil an answer.
///
/// A refusal is printed on stdout as an `ErrorResponse`, and on stderr unless the program is resident.
/// The exit codes are those of [`serve`](crate::serve()), and 5 for [`Refusal::WrongPin`].
pub fn serve_signer(mut signer: impl Signer) -> ExitCode {
    end(talk(&mut signer))
}

fn talk(signer: &mut impl Signer) -> Result<(), Refusal> {
    let mut stdout = Stdout::take()?;
    let request = request()?;
    if request == Request::Session {
        return stay(signer, &mut stdout);
    }
    let outcome = answer(signer, &request);
    let response = match &outcome {
        Ok(response) => response.to_json(),
        Err(refusal) => error(refusal).to_json(),
    };
    stdout.print(&format!("{response}\n"))?;
    outcome.map(drop)
}

/// Answers line by line until the client closes stdin.
fn stay(signer: &mut impl Signer, stdout: &mut Stdout) -> Result<(), Refusal> {
    let mut stdin = BufReader::new(io::stdin().lock());
    while let Some(line) = read_line(&mut stdin)? {
        let response = match Request::read(&line) {
            Ok(Request::Session) => error(&Refusal::Unsupported("already here to stay".into())),
            Ok(request) => answer(signer, &request).unwrap_or_else(|refusal| error(&refusal)),
            Err(MessageError::Kind) => {
                error(&Refusal::Unsupported("this kind of request is not known".into()))
            }
            Err(fault) => error(&Refusal::Failed(format!("cannot read the request: {fault}"))),
        };
        stdout.print(&format!("{}\n", response.to_json()))?;
    }
    Ok(())
}

/// The next line without its line break; `None` at the end. It may contain a PIN.
fn read_line(input: &mut impl BufRead) -> Result<Option<Zeroizing<Vec<u8>>>, Refusal> {
    // Room for most requests from the start: growing would leave copies behind.
    let mut line = Zeroizing::new(Vec::with_capacity(16 * 1024));
    let limit = MAX_LINE as u64 + 1;
    input.by_ref().take(limit).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() >= MAX_LINE => Err(Refusal::failed("a request is too long")),
        // Nothing, or a line that the client could not finish.
        _ => Ok(None),
    }
}

fn answer(signer: &mut impl Signer, request: &Request) -> Result<Response, Refusal> {
    match request {
        Request::Certificate(configuration) => {
            signer.certificate(configuration).map(Response::Certificate)
        }
        Request::Sign(request) => signer.sign(request).map(Response::Sign),
        Request::Unlock(configuration) => signer.unlock(configuration).map(|()| Response::Unlock),
        Request::Session => Err(Refusal::Unsupported("a session cannot be answered".into())),
    }
}

fn error(refusal: &Refusal) -> Response {
    let reason = match refusal {
        Refusal::BadConfig(_) => Reason::BadConfig,
        Refusal::NeedsTerminal(_) => Reason::NeedsTerminal,
        Refusal::NotAllowed(_) | Refusal::Interrupted => Reason::NotAllowed,
        Refusal::WrongPin(_) => Reason::WrongPin,
        Refusal::Unsupported(_) => Reason::Unsupported,
        Refusal::Failed(_) => Reason::Failed,
    };
    Response::Error(ErrorResponse { reason, message: refusal.to_string() })
}

/// The request in the environment.
#[expect(clippy::disallowed_methods, reason = "this variable is how a signer is asked")]
fn request() -> Result<Request, Refusal> {
    match env::var_os(REQUEST_VARIABLE) {
        Some(text) if !text.is_empty() => Request::read(text.as_encoded_bytes()).map_err(|fault| {
            Refusal::BadConfig(format!("cannot read `{REQUEST_VARIABLE}`: {fault}"))
        }),
        _ => Err(Refusal::BadConfig(by_hand())),
    }
}

/// The message if there is no request: most likely a person tries the plugin in a shell.
fn by_hand() -> String {
    let name = program();
    format!(
        "`{REQUEST_VARIABLE}` is not set: `{name}` is an external signer, which a Kubernetes client \
         starts\n\n\
         hint: name it as `pathExec` of a user in a kubeconfig, then check it with `keyward sign`"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_line_is_a_request_and_a_torn_one_is_the_end() {
        let mut input = &b"one\n\ntwo\nthr"[..];
        assert_eq!(read_line(&mut input).unwrap().unwrap().as_slice(), b"one");
        assert_eq!(read_line(&mut input).unwrap().unwrap().as_slice(), b"");
        assert_eq!(read_line(&mut input).unwrap().unwrap().as_slice(), b"two");
        assert!(read_line(&mut input).unwrap().is_none());
    }

    #[test]
    fn a_line_may_be_as_long_as_the_protocol_says_and_no_longer() {
        let mut line = vec![b'x'; MAX_LINE];
        line.push(b'\n');
        assert_eq!(read_line(&mut line.as_slice()).unwrap().unwrap().len(), MAX_LINE);
        line.insert(0, b'x');
        assert!(read_line(&mut line.as_slice()).is_err());
    }
}
