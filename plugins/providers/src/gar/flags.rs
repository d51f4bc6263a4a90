//! The flags of `auth-provider-gcp get-credentials`, and ours.

use crate::flags::{Flag, HELP, Kind, flag, short};

/// All of them, in the order of the help.
pub(super) const FLAGS: &[Flag] = &[
    short('a', "authFlow", Kind::Text),
    flag("identity-provider", Kind::Text),
    flag("project-id", Kind::Text),
    HELP,
    // Ours.
    flag("token-url", Kind::Text),
];

pub(super) const USAGE: &str = "\
Prints logins for Google Artifact Registry and gcr.io, for the kubelet and for docker, podman and skopeo.

Usage: keyward-gar [get-credentials] [flags]     as the kubelet's credential provider: the request is on stdin
       keyward-gar get|store|erase|list|version  as docker's credential helper: the server is on stdin
       keyward-gar --explain HOST                show where the credentials for a registry come from

For the kubelet
  -a, --authFlow FLOW        gcr: a token of the machine's service account; dockercfg and dockercfg-url: logins in
                             the instance's metadata (default gcr)
  --identity-provider URL    issuer of the cluster's tokens: pods whose service account has the annotation
                             iam.gke.io/enable-wi-image-pull=true pull with their own identity
  --project-id NAME          project of the cluster; needed with --identity-provider
  --token-url URL            where the pods' tokens are exchanged (default https://sts.googleapis.com/v1/token)

KUBE_SIDECAR_CACHE_DURATION and KUBE_SIDECAR_CACHE_TYPE (image, registry or global) say how long and for what the
kubelet keeps the answer; by default, it keeps it for the whole registry until the token expires. --explain shows the
sources that docker's helper uses. The program can also be started as auth-provider-gcp, docker-credential-gcr or
docker-credential-gcloud, and then uses the sources of that tool.
";
