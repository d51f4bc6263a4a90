//! What is shown, a sentence each.

mod clients;
mod clouds;
mod fleet;
mod grants;
mod image;
mod plugins;
mod proxy;
mod pulls;
mod rotation;
pub mod same;
mod signer;
mod streams;
mod users;
mod watch;

use std::{future::Future, pin::Pin};

use crate::{Outcome, cluster::Cluster};

type Run = for<'a> fn(&'a Cluster) -> Pin<Box<dyn Future<Output = Outcome<String>> + Send + 'a>>;

/// A sentence, and how it is found out whether it is true. What comes back says what was seen.
pub struct Step {
    /// The sentence.
    pub name: &'static str,
    /// Runs it.
    pub run: Run,
}

macro_rules! steps {
    ($($name:literal => $run:path,)*) => {
        vec![$(Step { name: $name, run: |cluster| Box::pin($run(cluster)) },)*]
    };
}

/// All steps, in the order in which they run.
pub fn all() -> Vec<Step> {
    steps![
        "kubectl and the API server are the pinned version" => users::version,
        "a static token is the same user" => users::token,
        "a token file is the same user, also after the file changed" => users::token_file,
        "a client certificate in the kubeconfig is the same user" => users::certificate_data,
        "a client certificate in files is the same user" => users::certificate_files,
        "a service account's token is the same user" => users::service_account,
        "a pod's own credential is the same user" => users::pod,
        "an OpenID Connect user is the same user" => users::oidc,
        "an OpenID Connect user is renewed by its refresh token" => users::oidc_refresh,
        "an impersonated user is the same user" => users::impersonation,
        "a password is nobody to the server, alike" => users::password,
        "an anonymous user is nobody to the server" => users::anonymous,
        "a wrong token is refused alike" => users::wrong_token,
        "an exec plugin with a service account's token is the same user" => users::exec_token,
        "an exec plugin with a certificate signed by the cluster is the same user" => users::exec_certificate,
        "keyward credential stands in kubectl's kubeconfig" => users::chain,
        "tokens rotate and no request fails" => rotation::tokens,
        "certificates rotate and no request fails" => rotation::certificates,
        "files that change are read again and no request fails" => rotation::files,
        "a certificate that has ended is replaced before the caller sees a 401" => rotation::end,
        "a revoked token is replaced before the caller sees a 401" => rotation::revoked,
        "a reflector keeps its one watch over several rotations of tokens" => watch::tokens,
        "a reflector keeps its one watch over several rotations of certificates" => watch::certificates,
        "a reflector opens its watch again with the newest token" => watch::reopened_tokens,
        "a reflector opens its watch again with the newest certificate" => watch::reopened_certificates,
        "aws eks get-token gives both the same user" => plugins::aws,
        "aws-iam-authenticator gives both the same user" => plugins::authenticator,
        "a forged token of AWS is refused alike" => plugins::forged,
        "kubelogin logs both in as the same user" => plugins::kubelogin,
        "an image credential provider gets a service account's token" => image::account,
        "an image credential provider gets a token that ends with its pod" => image::pod_token,
        "kubectl through the proxy is the user of the plugin" => proxy::user,
        "kubectl through the proxy reads, writes and watches over rotations" => proxy::work,
        "grants allow what roles with the same rules allow" => grants::equal_roles,
        "kubectl through the proxy follows the log of a pod" => streams::logs,
        "kubectl through the proxy runs a command in a pod" => streams::exec,
        "kubectl through the proxy has a terminal in a pod" => streams::terminal,
        "kubectl through the proxy attaches to a pod" => streams::attach,
        "kubectl through the proxy copies 50 MB to a pod and back" => streams::copy,
        "kubectl through the proxy carries 100 MB through a port of a pod" => streams::forward,
        "every client works through the proxy while tokens rotate and every third is revoked" => clients::tokens,
        "every client works through the proxy while certificates rotate" => clients::certificates,
        "every client runs a command in a pod through the proxy" => clients::exec,
        "every client takes keyward credential for its plugin" => clients::chain,
        "clients of two clusters with different kinds get the right answers" => clients::different,
        "k9s through the proxy shows what is made while tokens rotate" => clients::shows,
        "the API server accepts every object of the chart" => fleet::objects,
        "a key that stays in its token signs for a certificate of the cluster" => signer::commands,
        "a key that stays in its token is enrolled by one command and one approval" => signer::enrolment,
    ]
}

/// The steps that run containers, and so need root.
pub fn with_containers() -> Vec<Step> {
    steps![
        "a kubelet pulls with the login of keyward-provider-docker" => pulls::docker,
        "a kubelet pulls as the pod's service account with keyward-provider-token" => pulls::token,
        "a kubelet pulls with the proposal's own sample through keyward-provider-node" => pulls::proposal,
        "providers behind a kubelet are disabled, enabled and replaced during 100 pulls" => pulls::switched,
        "a kubelet pulls with the login that keyward-exchange gets for the pod's service account" => clouds::exchange,
        "a kubelet pulls from Amazon ECR with keyward-ecr" => clouds::ecr,
        "a kubelet pulls from Google Artifact Registry with keyward-gar" => clouds::gar,
        "a kubelet shows a wrong password of a provider, and the right one needs no restart" => pulls::wrong_password,
        "a kubelet logs what is wrong with a provider's file, and where" => pulls::broken_file,
        "a kubelet pulls without a login when a provider fails" => pulls::failing,
        "a kubelet pulls without a login when a provider hangs" => pulls::hanging,
        "a kubelet pulls without a login when a provider is gone" => pulls::gone,
        "the chart installs on a node, upgrades, stops at a broken configuration, rolls back and uninstalls" => fleet::lifecycle,
    ]
}
