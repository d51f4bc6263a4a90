//! The kubelet's protocol.

use std::{process::ExitCode, time::Duration};

use keyward_plugin::{ImageQuestion, Logins, Refusal, serve_image};
use keyward_protocol::{image::Login, text::inline};

use super::{Config, Mirrors, SCOPE, exchange, registry};
use crate::{
    Call,
    azure::{Authority, Azure, Proof},
};

/// The annotations of a service account that name its client and tenant.
const CLIENT: &str = "kubernetes.azure.com/acr-client-id";
const TENANT: &str = "kubernetes.azure.com/acr-tenant-id";

/// The entry for images that need no login: a kubelet that gets a login does not also try without one.
const ANONYMOUS: &str = "*.azurecr.*";

/// How long the kubelet keeps a login, which lives for about three hours: each exchange counts against a limit.
const KEPT: Duration = Duration::from_hours(1);

pub(super) fn run(call: &Call, mirrors: &Mirrors, config: &str) -> ExitCode {
    serve_image(|question: &ImageQuestion| {
        let config = Config::read(call, config)?;
        logins(&Azure::new(call), &config, mirrors, question)
    })
}

/// Shows where the login for an image comes from, without a pod.
pub(super) fn explain(
    call: &Call,
    mirrors: &Mirrors,
    image: &str,
    config: &str,
) -> Result<ExitCode, Refusal> {
    call.explain(|| {
        let config = Config::read(call, config)?;
        let azure = Azure::new(call);
        let place = place(&azure, &config, mirrors, image).ok_or_else(|| not_ours(image))?;
        node_login(&azure, &config, &place).map(drop)
    })
}

/// The registry that an image comes from.
struct Place {
    host: String,
    /// The part of the image's name that a mirror stands in for.
    mirrored: Option<String>,
}

fn place(azure: &Azure<'_>, config: &Config, mirrors: &Mirrors, image: &str) -> Option<Place> {
    let mirror = mirrors.find(image);
    let (target, mirrored) = match mirror {
        Some((target, from)) => (target, Some(from.to_owned())),
        None => (image.to_owned(), None),
    };
    let host = registry::host(&target, config.domain.as_deref())?.to_owned();
    if let Some(from) = &mirrored {
        azure.call.note("mirror", format!("`{}` for `{}`", inline(&host), inline(from)));
    }
    Some(Place { host, mirrored })
}

fn logins(
    azure: &Azure<'_>,
    config: &Config,
    mirrors: &Mirrors,
    question: &ImageQuestion,
) -> Result<Logins, Refusal> {
    let Some(place) = place(azure, config, mirrors, question.image()) else {
        return Ok(Logins::none());
    };
    let login = match question.token() {
        // Mirrors belong to the node, not to the pod.
        Some(token) if place.mirrored.is_none() => {
            let (client, tenant) =
                (question.require_annotation(CLIENT)?, question.require_annotation(TENANT)?);
            let authority = Authority::new(&config.authority, tenant)?;
            let proof = Proof::Assertion(token.clone());
            let token = azure.token_by("pod's token", &authority, client, SCOPE, &proof)?;
            exchange::login(azure, &place.host, &token)?
        }
        _ => node_login(azure, config, &place)?,
    };
    let Login { username, password } = login;
    // A mirror for a part of a registry must not answer for the rest of it.
    let logins = match place.mirrored {
        Some(from) if from.contains('/') => Logins::for_image(username, password.expose()),
        _ => Logins::for_registry(username, password.expose()),
    };
    Ok(logins.and_anonymous(ANONYMOUS).kept_for(KEPT))
}

/// The login of the node itself.
fn node_login(azure: &Azure<'_>, config: &Config, place: &Place) -> Result<Login, Refusal> {
    if let Some(id) = &config.identity {
        let token = azure.identity_token(id, SCOPE)?;
        return exchange::login(azure, &place.host, &token);
    }
    azure.call.skipped("managed identity", "`useManagedIdentityExtension` is not true");
    let (username, password) = config.principal.clone().ok_or_else(|| {
        Refusal::bad_config(
            "the node's file has neither `useManagedIdentityExtension` nor `aadClientId` with \
             `aadClientSecret`",
        )
    })?;
    azure.call.used("service principal", format!("the client `{}`", inline(&username)));
    if place.mirrored.is_none() {
        return Ok(Login { username, password });
    }
    // The answer names a registry that is not Azure's, which must not see a secret that works everywhere.
    let tenant = config.tenant.as_deref().ok_or_else(|| {
        Refusal::bad_config(
            "the node's file has no `tenantId`, which the login of a mirror needs: the secret of \
             the node's application goes to registries of Azure alone",
        )
    })?;
    let authority = Authority::new(&config.authority, tenant)?;
    let token = azure.client_token(&authority, &username, SCOPE, &Proof::Secret(password))?;
    exchange::login(azure, &place.host, &token)
}

fn not_ours(image: &str) -> Refusal {
    Refusal::BadConfig(format!(
        "`{}` is in no registry of Azure, so no token is sent there",
        inline(image)
    ))
}
