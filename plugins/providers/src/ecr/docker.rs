//! Docker's protocol.

use std::process::ExitCode;

use keyward_plugin::{
    DockerHelper, DockerLogin, DockerVerb, Question, Refusal, Version, serve_docker_verb,
};

use super::{api, registry::Registry};
use crate::{Call, aws::Aws, explain::Explain};

pub(super) fn run(call: &Call, verb: DockerVerb) -> ExitCode {
    serve_docker_verb(verb, Helper(call))
}

/// `docker login` stores what it has just got from here, and must not fail: what is stored is ignored.
struct Helper<'a>(&'a Call);

impl DockerHelper for Helper<'_> {
    fn get(&self, server: &str) -> Result<Option<DockerLogin>, Refusal> {
        // Other registries' logins are elsewhere.
        let Some(registry) = Registry::parse(server) else { return Ok(None) };
        let (nobody, explain) = (Question::from_env_or(Version::V1Beta1)?, Explain::default());
        let aws = Aws::open(self.0, &nobody, &explain, None, Some(registry.region()))?;
        let keys = aws.keys()?;
        let login = api::token(&aws, &registry, &keys, self.0.clock.now())?;
        Ok(Some(DockerLogin::new(login.user, login.password.expose())))
    }

    fn version(&self) -> String {
        self.0.version()
    }
}
