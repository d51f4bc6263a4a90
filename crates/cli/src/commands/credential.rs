//! `keyward credential`: gets the planned credential and prints it as an `ExecCredential`.

use keyward_host::{Credential, Sources, Target};
use keyward_protocol::exec::{Answer, Version};

use crate::{exec_request, failure::Failure, globals::Globals, output, waiting::Waiting};

/// Get the credential and print it as an `ExecCredential`
///
/// The output is what a credential plugin prints, so `keyward credential` can itself be the plugin
/// in a kubeconfig. It then answers in the requested version, and prompts only if the request says
/// that a person is present.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # The credential of the current context.
  keyward credential

  # Of another user, in an older version of the protocol.
  keyward credential --user admin --api-version client.authentication.k8s.io/v1beta1

  # As the plugin of another kubeconfig:
  #   users:
  #   - name: admin
  #     user:
  #       exec:
  #         apiVersion: client.authentication.k8s.io/v1
  #         command: keyward
  #         args: [credential, --kubeconfig, /home/ann/real-config, --context, prod]
  #         interactiveMode: IfAvailable")]
pub(crate) struct Args {
    /// Version of the protocol to answer in: v1, v1beta1 or v1alpha1, with or without its group; the
    /// default is what `KUBERNETES_EXEC_INFO` asks for, else v1
    #[arg(long, value_name = "VERSION", value_parser = version)]
    api_version: Option<Version>,

    /// How to print it; `json` is the only one
    #[arg(short, long, value_name = "FORMAT", default_value = "json", value_parser = ["json"])]
    output: String,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    // With an explicit version, the request need not be readable.
    let asked = match (exec_request::read(&globals.surroundings), args.api_version) {
        (Err(_), Some(_)) => None,
        (asked, _) => asked?,
    };
    let version = args.api_version.or(asked.as_ref().map(|asked| asked.version));
    let form = asked.as_ref().map(|asked| asked.form).unwrap_or_default();
    let mut globals = globals.clone();
    globals.asked = asked;
    let target = globals.target()?;
    let plan = globals.plan(target.clone())?;
    if plan.signer().is_some() {
        return Err(unprintable(&target));
    }
    let source = Sources::global().open(&plan);
    let waiting = Waiting::begin(&plan, &source, None);
    let credential = source.credential_blocking()?;
    drop(waiting);
    let answer = answer(version.unwrap_or(Version::V1), &target, &credential)?;
    output::print(answer.to_json(form).expose())
}

/// A key that cannot be exported cannot be printed, and a certificate without its key is no
/// credential.
fn unprintable(target: &Target) -> Failure {
    Failure::failed(
        "the key of an external signer cannot be exported, so there is no credential to print",
    )
    .note("needed by", output::user(target))
    .hint(
        "`keyward get` and `keyward whoami` connect with it, `keyward sign` tries it; a program \
             that is to use it needs a connection that keyward makes",
    )
}

/// The answer of a plugin that returns this credential.
fn answer(version: Version, target: &Target, credential: &Credential) -> Result<Answer, Failure> {
    let needed = |failure: Failure| failure.note("needed by", crate::output::user(target));
    let pair = credential.pair().map(|pair| pair.pem.clone());
    if credential.token().is_none() && credential.authorization().is_some() {
        return Err(needed(Failure::failed(
            "a user name with a password cannot be printed as an `ExecCredential`",
        ))
        .hint("give the user a token or a client certificate"));
    }
    if credential.token().is_none() && pair.is_none() {
        // A warning has already said why.
        return Err(needed(Failure::failed("no credential: the client is anonymous"))
            .hint("`keyward plan` shows how the user was chosen"));
    }
    if !target.user.value.impersonate.user.is_empty() {
        tracing::warn!(
            "the user impersonates another one, which an `ExecCredential` cannot express"
        );
    }
    Ok(Answer { version, token: credential.token().cloned(), pair, expires: credential.expires() })
}

/// Parses a version with or without its group.
fn version(text: &str) -> Result<Version, String> {
    Version::ALL
        .into_iter()
        .find(|version| text == version.api_version() || text == version.name())
        .ok_or_else(|| "use v1, v1beta1 or v1alpha1".to_owned())
}

#[cfg(test)]
mod tests {
    use keyward_protocol::exec::Version;

    use super::version;

    #[test]
    fn a_version_is_taken_with_or_without_its_group() {
        for (text, expected) in [
            ("v1", Some(Version::V1)),
            ("v1beta1", Some(Version::V1Beta1)),
            ("client.authentication.k8s.io/v1alpha1", Some(Version::V1Alpha1)),
            ("v2", None),
            ("client.authentication.k8s.io/", None),
            ("", None),
        ] {
            assert_eq!(version(text).ok(), expected, "{text}");
        }
    }
}
