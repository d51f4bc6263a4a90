//! Image credential providers: question, answer, and the main loop.

mod logins;
mod question;

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
};

use jiff::Timestamp;

use crate::{
    Refusal,
    serve::{end, program, read_request},
    stdout::Stdout,
};

pub use self::{logins::Logins, question::ImageQuestion};

/// An image credential provider: returns logins for registries. This is the whole contract;
/// [`serve_image`] does the rest.
///
/// Closures that take an [`ImageQuestion`] implement it.
pub trait ImageProvider {
    /// The logins for the image, or why there are none.
    ///
    /// Called once. No prompt is possible; the kubelet waits for a minute at most. An unknown image is not
    /// an error: return [`Logins::none`]. After a [`Refusal`] the pull continues without a login, and
    /// the reason is in the node's log.
    fn logins(&self, question: &ImageQuestion) -> Result<Logins, Refusal>;
}

impl<F> ImageProvider for F
where
    F: Fn(&ImageQuestion) -> Result<Logins, Refusal>,
{
    fn logins(&self, question: &ImageQuestion) -> Result<Logins, Refusal> {
        self(question)
    }
}

/// Answers the kubelet, or another program that pulls an image: the whole `main` of a provider.
///
/// Reads the question from stdin, asks the provider, and prints the answer in the version of the
/// question, or in the form of the original proposal where the question has that. Until then
/// stdout is redirected, as by [`serve`](crate::serve()). The exit codes are those of
/// [`serve`](crate::serve()).
///
/// Logins that no registry could accept (empty, expired, a colon in the user's name) are not
/// printed; they become a failure that explains why.
#[expect(clippy::needless_pass_by_value, reason = "`serve_image(Provider)` is the whole `main`")]
pub fn serve_image(provider: impl ImageProvider) -> ExitCode {
    end(answer(&provider))
}

#[expect(clippy::disallowed_methods, reason = "a plugin lives by the real clock")]
fn answer(provider: &impl ImageProvider) -> Result<(), Refusal> {
    let mut stdout = Stdout::take()?;
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(Refusal::BadConfig(by_hand()));
    }
    let bytes = read_request(stdin.lock())?
        .ok_or_else(|| Refusal::bad_config("the request on stdin is too long"))?;
    if bytes.trim_ascii().is_empty() {
        return Err(Refusal::BadConfig(by_hand()));
    }
    let question = ImageQuestion::from_bytes(&bytes)?;
    let logins = provider.logins(&question)?;
    let answer = logins.answer(&question, Timestamp::now())?;
    stdout.print(answer.expose())
}

/// The message if there is no request: most likely a person tries the provider in a shell.
fn by_hand() -> String {
    let name = program();
    format!(
        "there is no request on stdin: `{name}` is an image credential provider, which the kubelet \
         starts\n\n\
         hint: to try it by hand\n  \
         echo '{{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\
         \"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"registry.example/team/app\"}}' | \
         {name}\n\
         or check it all with `keyward plugin test --image registry.example/team/app -- {name}`"
    )
}
