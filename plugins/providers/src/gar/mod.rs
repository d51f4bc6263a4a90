//! `keyward-gar`: logins for Google Artifact Registry and gcr.io, for the kubelet and for docker, in place of
//! `auth-provider-gcp`, `docker-credential-gcr` and `docker-credential-gcloud`.

mod docker;
mod flags;
mod kubelet;
mod registry;

use std::process::ExitCode;

use keyward_plugin::{DockerVerb, ImageQuestion, Refusal, serve_image};
use keyward_protocol::text::inline;

use self::flags::{FLAGS, USAGE};
use crate::{
    Call,
    docker::{HELPER, no_verb, serve},
    flags::KLOG,
};

/// The kubelet's provider, which uses the machine's account and nothing else.
const PROVIDER: &str = "auth-provider-gcp";

/// Commands of `docker-credential-gcr` that this program does not have, and what to do instead.
const REFUSED: [(&str, &str); 5] = [
    ("gcr-login", "this program stores no logins: run `gcloud auth application-default login`"),
    (
        "gcr-logout",
        "this program stores no logins: delete `~/.config/gcloud/docker_credentials.json`",
    ),
    ("clear", "this program stores no logins: delete `~/.config/gcloud/docker_credentials.json`"),
    (
        "config",
        "this program writes no settings: change `TokenSources` in `~/.config/gcloud/docker_credential_gcr_config.json`",
    ),
    (
        "configure-docker",
        "this program writes no settings: add the registries to `credHelpers` in `~/.docker/config.json`",
    ),
];

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let first = call.args.first().and_then(|word| word.to_str());
    match first {
        Some("--help" | "-h" | "help") => return call.print(USAGE),
        Some("--version") => return call.print(&format!("{}\n", call.version())),
        _ if call.explains => return explain(call, first),
        _ => {}
    }
    if let Some(verb) = first.and_then(DockerVerb::parse).filter(|_| call.name != PROVIDER) {
        return Ok(serve(call, verb, |server| docker::login(call, server)));
    }
    if let Some((word, why)) = REFUSED.iter().find(|(word, _)| Some(*word) == first) {
        return Err(Refusal::BadConfig(format!("there is no command `{word}`: {why}")));
    }
    if call.name.starts_with(HELPER) {
        return Err(no_verb(call));
    }
    let Some(flags) = call.flags(&[FLAGS, KLOG], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    match flags.words().as_slice() {
        [] | ["get-credentials"] => {
            Ok(serve_image(|question: &ImageQuestion| kubelet::logins(call, &flags, question)))
        }
        ["get-credentials", more, ..] => Err(Refusal::BadConfig(format!(
            "`get-credentials` takes no word, but there is `{}`",
            inline(more)
        ))),
        [word, ..] => Err(Refusal::BadConfig(format!(
            "there is no command `{}`: it is get-credentials, or one of docker's: get, store, erase, list, version",
            inline(word)
        ))),
    }
}

/// Shows how a login for this host would be found.
fn explain(call: &Call, host: Option<&str>) -> Result<ExitCode, Refusal> {
    let host = host
        .ok_or_else(|| Refusal::bad_config("give a registry, such as `europe-docker.pkg.dev`"))?;
    registry::parse(host).ok_or_else(|| not_ours(host))?;
    call.explain(|| docker::token(call).map(drop))
}

fn not_ours(host: &str) -> Refusal {
    Refusal::BadConfig(format!("`{}` is no registry of Google, so it gets no token", inline(host)))
}

fn no_credentials() -> Refusal {
    Refusal::bad_config(
        "no Google credentials are configured: no application default credentials, no metadata server and no \
         login of gcloud\n\n\
         hint: run `gcloud auth application-default login`; `keyward-gar --explain gcr.io` shows every source",
    )
}
