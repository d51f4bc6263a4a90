//! `keyward-acr`: logins for Azure Container Registry, for the kubelet and for docker, in place of
//! `acr-credential-provider` and `docker-credential-acr-env`.
//!
//! ```text
//! managed identity, pod's token, secret ──► azure ──► Token ──► exchange.rs ──► login of one registry
//! ```

mod config;
mod docker;
mod exchange;
mod kubelet;
mod registry;

use std::process::ExitCode;

use keyward_plugin::{DockerVerb, Refusal};

use self::{config::Config, registry::Mirrors};
use crate::{
    Call,
    docker::{serve, verbs},
    flags::{Flag, HELP, KLOG, Kind, LOG, flag, short},
};

/// The name of the helper for docker, podman and others.
const HELPER: &str = "docker-credential-acr-env";

/// The user of tokens.
const USER: &str = "00000000-0000-0000-0000-000000000000";

/// The scope of tokens for registries.
const SCOPE: &str = "https://containerregistry.azure.net/.default";

const BINDINGS: &str = "identity bindings are a preview of AKS; use the token of the pod's service account with the annotations \
     `kubernetes.azure.com/acr-client-id` and `kubernetes.azure.com/acr-tenant-id`";

const FLAGS: &[Flag] = &[
    short('r', "registry-mirror", Kind::List),
    flag("ib-sni-name", Kind::Refused(BINDINGS)),
    flag("ib-default-client-id", Kind::Refused(BINDINGS)),
    flag("ib-default-tenant-id", Kind::Refused(BINDINGS)),
    flag("ib-apiserver-ip", Kind::Refused(BINDINGS)),
    HELP,
    flag("version", Kind::Switch),
    flag("log-flush-frequency", Kind::Ignored(LOG)),
    flag("logging-format", Kind::Ignored(LOG)),
];

const USAGE: &str = "\
Prints logins for Azure Container Registry, for the kubelet and for docker, podman and skopeo.

Usage: keyward-acr CONFIG [flags]                as the kubelet's credential provider: the request is on stdin
       keyward-acr get|store|erase|list|version  as docker's credential helper: the server is on stdin
       keyward-acr --explain IMAGE [CONFIG]      show where the login for an image comes from: for the kubelet with
                                                 CONFIG, for docker without it

CONFIG is the node's file, usually /etc/kubernetes/azure.json. docker's helper uses AZURE_TENANT_ID and AZURE_CLIENT_ID
with AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE; without a secret or file, it uses the machine's managed
identity. A pod pulls with its own identity if the kubelet passes the token of its service account, with the annotations
kubernetes.azure.com/acr-client-id and kubernetes.azure.com/acr-tenant-id.

  -r, --registry-mirror FROM:TO,...  get the login of the registry TO for images of FROM, such as
                                     mcr.microsoft.com:abc.azurecr.io; FROM may have a port and a path
";

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let Some(flags) = call.flags(&[FLAGS, KLOG], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    if flags.is_set("version") {
        return call.print(&format!("{}\n", call.version()));
    }
    let mirrors = Mirrors::parse(flags.list("registry-mirror"))?;
    let words = flags.words();
    let verb = words.first().and_then(|word| DockerVerb::parse(word));
    match (words.as_slice(), verb) {
        ([image], _) if call.explains => docker::explain(call, image),
        ([image, config], _) if call.explains => kubelet::explain(call, &mirrors, image, config),
        ([_], Some(verb)) => Ok(serve(call, verb, |server| docker::login(call, server))),
        ([config], None) if call.name != HELPER => Ok(kubelet::run(call, &mirrors, config)),
        _ => Err(Refusal::BadConfig(format!(
            "`{}` needs one file, such as `/etc/kubernetes/azure.json`, or one of docker's words `{}`",
            call.name,
            verbs()
        ))),
    }
}
