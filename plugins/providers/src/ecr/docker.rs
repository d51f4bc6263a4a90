//! Docker's protocol.

use keyward_plugin::{DockerLogin, Refusal};

use super::{api, registry::Registry};
use crate::{Call, aws::Aws};

/// The login for a server; `None` if it is no registry of Amazon ECR.
pub(super) fn login(call: &Call, server: &str) -> Result<Option<DockerLogin>, Refusal> {
    let Some(registry) = Registry::parse(server) else { return Ok(None) };
    let aws = Aws::open(call, call.question()?, None, Some(&registry.region))?;
    let login = api::token(call, &aws, &registry, &aws.keys()?)?;
    Ok(Some(DockerLogin::new(login.user, login.password.expose())))
}
