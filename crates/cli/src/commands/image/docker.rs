//! Logins as docker's `config.json`.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use keyward_image::Lookup;
use keyward_protocol::image::Login;
use serde::Serialize;
use zeroize::Zeroizing;

use super::answer::basic;

/// The format that docker, podman, skopeo and pull secrets understand.
#[derive(Serialize)]
pub(super) struct Docker {
    auths: BTreeMap<String, Auth>,
}

#[derive(Serialize)]
struct Auth {
    #[serde(serialize_with = "text")]
    auth: Zeroizing<String>,
}

/// The key of Docker Hub's login in `config.json`.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// The best login of each image, keyed by its registry. If two images of one registry have
/// different logins, the later one is keyed by its full name, which podman, skopeo and the kubelet
/// understand.
pub(super) fn config(found: &[Arc<Lookup>]) -> Docker {
    let mut chosen: BTreeMap<String, &Login> = BTreeMap::new();
    for found in found {
        let Some(best) = found.best() else { continue };
        let registry = found.image.split('/').next().unwrap_or(&found.image);
        let key = if registry == "docker.io" { DOCKER_HUB } else { registry };
        let login = &best.login;
        if *chosen.entry(key.to_owned()).or_insert(login) != login {
            chosen.insert(found.image.clone(), login);
        }
    }
    let auth = |login: &Login| Auth { auth: Zeroizing::new(STANDARD.encode(&*basic(login, ""))) };
    Docker { auths: chosen.into_iter().map(|(key, login)| (key, auth(login))).collect() }
}

fn text<S: serde::Serializer>(text: &Zeroizing<String>, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(text)
}
