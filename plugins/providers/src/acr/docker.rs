//! Docker's protocol. Who asks is in the environment, or is the machine.

use std::{path::Path, process::ExitCode};

use keyward_plugin::{DockerLogin, Refusal};
use keyward_protocol::{Secret, image::Login, text::inline};

use super::{SCOPE, exchange, registry};
use crate::{
    Call,
    azure::{Authority, Azure, Id, Proof, Token, authority_of_cloud, file_token},
};

/// Shows where the login for a registry comes from.
pub(super) fn explain(call: &Call, image: &str) -> Result<ExitCode, Refusal> {
    call.explain(|| {
        let login = find(call, image)?;
        login.map(drop).ok_or_else(|| {
            Refusal::BadConfig(format!(
                "`{}` is in no registry of Azure, so it gets no token",
                inline(image)
            ))
        })
    })
}

/// The login for a server; `None` if it is no registry of Azure.
pub(super) fn login(call: &Call, server: &str) -> Result<Option<DockerLogin>, Refusal> {
    let login = find(call, server)?;
    Ok(login.map(|login| DockerLogin::new(login.username, login.password.expose())))
}

fn find(call: &Call, server: &str) -> Result<Option<Login>, Refusal> {
    let Some(host) = registry::host(server, None) else { return Ok(None) };
    let azure = Azure::new(call);
    exchange::login(&azure, host, &token(&azure)?).map(Some)
}

/// A token for who the environment names: an application with a secret, a pod, or the machine.
fn token(azure: &Azure<'_>) -> Result<Token, Refusal> {
    let var = |name: &str| azure.call.var(name);
    let (tenant, client) = (var("AZURE_TENANT_ID"), var("AZURE_CLIENT_ID"));
    let secret = var("AZURE_CLIENT_SECRET").map(Secret::new);
    let proof = match (secret, var("AZURE_FEDERATED_TOKEN_FILE")) {
        (Some(secret), _) => Some(("secret", Proof::Secret(secret))),
        (None, Some(path)) => {
            let path = azure.call.surroundings.absolute(Path::new(&path));
            Some(("federated token", Proof::Assertion(file_token(&path)?)))
        }
        (None, None) => None,
    };
    let Some((what, proof)) = proof else {
        azure.call.skipped(
            "environment",
            "neither `AZURE_CLIENT_SECRET` nor `AZURE_FEDERATED_TOKEN_FILE` is set",
        );
        return azure.identity_token(&client.map_or(Id::System, Id::Client), SCOPE);
    };
    let (Some(tenant), Some(client)) = (tenant, client) else {
        return Err(Refusal::BadConfig(format!(
            "the {what} in the environment needs `AZURE_TENANT_ID` and `AZURE_CLIENT_ID`"
        )));
    };
    let host = match (var("AZURE_AUTHORITY_HOST"), var("AZURE_ENVIRONMENT")) {
        (Some(host), _) => host,
        (None, cloud) => {
            authority_of_cloud(cloud.as_deref().unwrap_or("AzurePublicCloud"))?.to_owned()
        }
    };
    azure.token_by(what, &Authority::new(&host, &tenant)?, &client, SCOPE, &proof)
}
