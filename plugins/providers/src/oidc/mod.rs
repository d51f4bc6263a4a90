//! `keyward-oidc`: tokens of OpenID providers, and the names `kubelogin` and `kubectl-oidc_login`.
//!
//! ```text
//! flags ──► Settings ──► Session ──► agent, refresh token, or login ──► Provider ──► Token
//!                                                          └─ code flow, device flow, password, client
//! ```
//!
//! The protocol is `openidconnect`'s; here are the flags, the listener, the one page per identity, and what
//! is kept in the agent.

mod browser;
mod code;
mod device;
mod flags;
mod gate;
mod kept;
mod loopback;
mod page;
mod provider;
mod reader;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod verify;

use std::process::ExitCode;

use keyward_plugin::{Credential, Question, Refusal};
use keyward_protocol::{jwt::Claims, text::inline};

use self::{
    flags::{FLAGS, USAGE},
    kept::Token,
    session::stated_end,
};
#[cfg(feature = "entra")]
pub(crate) use self::{
    kept::Token as Kept,
    settings::{Endpoints, Grant, Keep, PERSON},
};
pub(crate) use self::{session::Session, settings::Settings};
use crate::{
    Call,
    flags::{Flags, KLOG},
};

/// The name of the family's own link; only other names have kubelogin's mode without a subcommand.
const NAME: &str = "keyward-oidc";

/// The name that two tools have: int128/kubelogin, which this is, and Azure/kubelogin. Their flags differ.
#[cfg(feature = "entra")]
const KUBELOGIN: &str = "kubelogin";

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    #[cfg(feature = "entra")]
    if call.name == KUBELOGIN && crate::entra::is_ours(&call.args) {
        return crate::entra::run(call);
    }
    let Some(flags) = call.flags(&[FLAGS, KLOG], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    match flags.words().as_slice() {
        [] if call.name != NAME && flags.text("oidc-issuer-url").is_none() => {
            Err(Refusal::bad_config(
                "without `get-token`, kubelogin writes tokens into the kubeconfig, which this program never does\n\n\
                 hint: `keyward-oidc --help` shows the commands",
            ))
        }
        // The words of `kubectl oidc-login get-token`, so that in a kubeconfig only `command` has to change.
        [] | ["get-token"] | ["oidc-login", "get-token"] => call.serve(|question| {
            let token = obtain(call, &flags, question)?;
            let end = stated_end(&token, call.clock.now());
            Ok(Credential::token(token.text.expose()).expires_at(end))
        }),
        ["setup"] => setup(call, &flags),
        ["clean"] => clean(call, &flags),
        ["version"] => call.print(&format!("{NAME} {}\n", env!("CARGO_PKG_VERSION"))),
        [word, ..] => Err(Refusal::BadConfig(format!(
            "there is no command `{}`: it is get-token, setup, clean or version",
            inline(word)
        ))),
    }
}

fn obtain(call: &Call, flags: &Flags, question: &Question) -> Result<Token, Refusal> {
    let (settings, trust) = Settings::new(call, flags)?;
    Session::new(call, (&settings, trust), question).token()
}

/// Logs in and shows what the API server and the kubeconfig need.
fn setup(call: &Call, flags: &Flags) -> Result<ExitCode, Refusal> {
    let token = obtain(call, flags, &call.question()?)?;
    let (settings, _) = Settings::new(call, flags)?;
    let subject = Claims::read(token.text.expose());
    let subject = subject.as_ref().and_then(|claims| claims.text("sub")).unwrap_or(&token.subject);
    call.print(&format!(
        "You are logged in as `{who}`.\n\n\
         To the API server, with the issuer `{issuer}`, the audience `{client}` and the claim `sub`,\n\
         you are the user `{issuer}#{subject}`. Allow it something:\n\n\
         \x20 kubectl create clusterrolebinding oidc-cluster-admin --clusterrole=cluster-admin \
         --user='{issuer}#{subject}'\n\n\
         Create the user of the kubeconfig, with the flags that you gave to this command:\n\n\
         \x20 kubectl config set-credentials oidc --exec-api-version=client.authentication.k8s.io/v1 \\\n\
         \x20   --exec-interactive-mode=IfAvailable --exec-command={NAME} --exec-arg=get-token \\\n\
         \x20   --exec-arg=--oidc-issuer-url={issuer} --exec-arg=--oidc-client-id={client}\n",
        who = inline(&token.who),
        issuer = inline(&settings.issuer),
        client = inline(&settings.client),
        subject = inline(subject),
    ))
}

/// Makes the agent, and with `--store keyring` the keyring, forget the login.
fn clean(call: &Call, flags: &Flags) -> Result<ExitCode, Refusal> {
    if flags.text("oidc-issuer-url").is_none() && flags.text("idp-issuer-url").is_none() {
        return Err(Refusal::bad_config(
            "`clean` needs the flags of the login that it should forget; there are no files to delete\n\n\
             hint: `keyward logout --all` makes the agent forget everything",
        ));
    }
    let (settings, trust) = Settings::new(call, flags)?;
    Session::new(call, (&settings, trust), &call.question()?).forget();
    call.print("no token of this login is kept any more\n")
}
