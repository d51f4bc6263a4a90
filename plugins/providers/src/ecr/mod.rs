//! `keyward-ecr`: logins for Amazon ECR and ECR Public, for the kubelet and for docker, in place of
//! `ecr-credential-provider` and `docker-credential-ecr-login`.

mod api;
mod docker;
mod kubelet;
mod registry;

use std::process::ExitCode;

use keyward_plugin::{DockerVerb, ImageQuestion, Refusal, serve_image};

use self::registry::Registry;
use crate::{
    Call,
    docker::{HELPER, no_verb, serve},
};

const USAGE: &str = "\
Prints logins for Amazon ECR and ECR Public, for the kubelet and for docker, podman and skopeo.

Usage: keyward-ecr                               as the kubelet's credential provider: the request is on stdin
       keyward-ecr get|store|erase|list|version  as docker's credential helper: the server is on stdin
       keyward-ecr config [--pod-identity]       print the kubelet's CredentialProviderConfig for all registries of ECR
       keyward-ecr --explain HOST                show where the credentials for a registry come from

Credentials are found as the `aws` command finds them. For a pod's own identity, the kubelet passes the token of its
service account, and the role is in the annotation `eks.amazonaws.com/ecr-role-arn` or in AWS_ECR_ROLE_ARN.
";

pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let words: Vec<String> =
        call.args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let first = words.first().map(String::as_str);
    let verb = first.and_then(DockerVerb::parse);
    match first {
        Some("--help" | "-h" | "help") => call.print(USAGE),
        Some("--version" | "-v") => call.print(&format!("{}\n", call.version())),
        _ if call.explains => explain(call, first),
        Some("config") => call.print(&config(&words)?),
        _ => match verb {
            Some(verb) => Ok(serve(call, verb, |server| docker::login(call, server))),
            None if call.name.starts_with(HELPER) => Err(no_verb(call)),
            // The kubelet's provider ignores its arguments, as the original does.
            None => Ok(serve_image(|question: &ImageQuestion| kubelet::logins(call, question))),
        },
    }
}

/// The kubelet's configuration. With `--pod-identity`, pods pull with the role of their service account.
fn config(words: &[String]) -> Result<String, Refusal> {
    let tokens = match words {
        [_] => "",
        [_, flag] if flag == "--help" => return Ok(USAGE.to_owned()),
        [_, flag] if flag == "--pod-identity" => {
            "  tokenAttributes:\n    serviceAccountTokenAudience: sts.amazonaws.com\n    cacheType: ServiceAccount\n    \
             requireServiceAccount: false\n    optionalServiceAccountAnnotationKeys: [eks.amazonaws.com/ecr-role-arn]\n"
        }
        _ => {
            return Err(Refusal::bad_config(
                "`keyward-ecr config` takes no argument but `--pod-identity`",
            ));
        }
    };
    let patterns = registry::patterns().join("\"\n  - \"");
    Ok(format!(
        "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: keyward-ecr\n  \
         apiVersion: credentialprovider.kubelet.k8s.io/v1\n  defaultCacheDuration: 12h\n{tokens}  matchImages:\n  - \"{patterns}\"\n"
    ))
}

/// Shows how a login for this host would be found.
fn explain(call: &Call, host: Option<&str>) -> Result<ExitCode, Refusal> {
    let host = host.ok_or_else(|| {
        Refusal::bad_config(
            "give a registry, such as `123456789012.dkr.ecr.eu-west-1.amazonaws.com`",
        )
    })?;
    Registry::parse(host).ok_or_else(|| not_ours(host))?;
    call.explain(|| docker::login(call, host).map(drop))
}

fn not_ours(host: &str) -> Refusal {
    Refusal::BadConfig(format!(
        "`{}` is no registry of Amazon ECR, so it gets no token",
        keyward_protocol::text::inline(host)
    ))
}

/// The host of the API that gives logins for a registry; `None` if the registry is not one of Amazon's.
pub fn api_host(registry: &str) -> Option<String> {
    Registry::parse(registry).map(|registry| registry.host)
}
