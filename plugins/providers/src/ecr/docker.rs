//! Docker's protocol.

use keyward_plugin::{DockerLogin, Refusal};

use super::{api, registry::Registry};
use crate::{Call, aws::Aws, explain::Explain};

/// The login for a server; `None` if it is no registry of Amazon ECR.
pub(super) fn login(call: &Call, server: &str) -> Result<Option<DockerLogin>, Refusal> {
    let Some(registry) = Registry::parse(server) else { return Ok(None) };
    let explain = Explain::default();
    let aws = Aws::open(call, call.question()?, &explain, None, Some(registry.region()))?;
    let keys = aws.keys()?;
    let login = api::token(&aws, &registry, &keys, call.clock.now())?;
    Ok(Some(DockerLogin::new(login.user, login.password.expose())))
}
