//! Docker's protocol. Who asks is in the environment, or is the machine.

use std::{path::Path, process::ExitCode};

use keyward_plugin::{DockerHelper, DockerLogin, DockerVerb, Refusal, serve_docker_verb};
use keyward_protocol::{Secret, text::inline};

use super::{Login, SCOPE, exchange, registry};
use crate::{
    Call,
    azure::{Authority, Azure, Id, Proof, Token, authority_of_cloud, file_token},
    explain::Explain,
    http::Trust,
};

pub(super) fn run(call: &Call, verb: DockerVerb) -> ExitCode {
    serve_docker_verb(verb, Helper(call))
}

/// Shows where the login for a registry comes from.
pub(super) fn explain(call: &Call, image: &str) -> Result<(), Refusal> {
    let report = Explain::default();
    let host = registry::host(image, None).ok_or_else(|| {
        Refusal::BadConfig(format!(
            "`{}` is in no registry of Azure, so it gets no token",
            inline(image)
        ))
    });
    let outcome =
        host.and_then(|host| login(&Azure::new(call, &report, Trust::default()), host).map(drop));
    call.print(&report.report(outcome.is_ok()))?;
    outcome
}

/// `docker login` stores what it has just got from here, and must not fail: what is stored is ignored.
struct Helper<'a>(&'a Call);

impl DockerHelper for Helper<'_> {
    fn get(&self, server: &str) -> Result<Option<DockerLogin>, Refusal> {
        // Other registries' logins are elsewhere.
        let Some(host) = registry::host(server, None) else { return Ok(None) };
        let explain = Explain::default();
        let login = login(&Azure::new(self.0, &explain, Trust::default()), host)?;
        Ok(Some(DockerLogin::new(login.user, login.password.expose())))
    }

    fn version(&self) -> String {
        self.0.version()
    }
}

fn login(azure: &Azure<'_>, host: &str) -> Result<Login, Refusal> {
    let token = token(azure)?;
    exchange::login(azure, host, &token)
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
        azure.explain.skipped(
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
    let token = azure.client_token(&Authority::new(&host, &tenant)?, &client, SCOPE, &proof)?;
    azure.explain.used(what, format!("a token for the client `{}`", inline(&client)));
    Ok(token)
}
