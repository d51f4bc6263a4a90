//! Docker's protocol, for the families whose logins are for registries.

use std::process::ExitCode;

use keyward_plugin::{DockerHelper, DockerLogin, DockerVerb, Refusal, serve_docker_verb};

use crate::Call;

/// The names of helpers for docker, podman and others begin so.
pub(crate) const HELPER: &str = "docker-credential-";

/// Answers docker. `get` returns the login for a server, or `None` for a registry whose logins are elsewhere.
///
/// `docker login` stores what it has just got from here, and must not fail: what is stored is ignored.
pub(crate) fn serve(
    call: &Call,
    verb: DockerVerb,
    get: impl Fn(&str) -> Result<Option<DockerLogin>, Refusal>,
) -> ExitCode {
    serve_docker_verb(verb, Helper { call, get })
}

/// The verbs of docker, for messages.
pub(crate) fn verbs() -> String {
    DockerVerb::ALL.map(DockerVerb::name).join("`, `")
}

/// The refusal of a helper that is started without a verb.
pub(crate) fn no_verb(call: &Call) -> Refusal {
    Refusal::BadConfig(format!("`{}` needs one of the words `{}`", call.name, verbs()))
}

struct Helper<'a, F> {
    call: &'a Call,
    get: F,
}

impl<F> DockerHelper for Helper<'_, F>
where
    F: Fn(&str) -> Result<Option<DockerLogin>, Refusal>,
{
    fn get(&self, server: &str) -> Result<Option<DockerLogin>, Refusal> {
        (self.get)(server)
    }

    fn version(&self) -> String {
        self.call.version()
    }
}
