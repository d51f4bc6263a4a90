//! The command line of `aws eks get-token`, as `keyward-eks`.

use std::process::ExitCode;

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use super::{Wanted, role};
use crate::{
    Call,
    flags::{Flag, Flags, HELP, Kind, flag},
};

const USAGE: &str = "\
Prints a token for an Amazon EKS cluster, as `aws eks get-token` does.

Usage: keyward-eks --cluster-name NAME [--region REGION] [--role-arn ARN] [--profile NAME]
       keyward-eks token -i CLUSTER [FLAGS]      as `aws-iam-authenticator token`

  --cluster-name NAME    the cluster
  --cluster-id ID        the id of a local cluster on AWS Outposts, instead of its name
  --role-arn ARN         assume this role first (also --role)
  --session-name NAME    the name of the role's session; `EKSGetTokenAuth` if not given
  --external-id ID       the external id that the role asks for
  --region REGION        the region of the cluster; else AWS_REGION, AWS_DEFAULT_REGION or the profile's
  --profile NAME         the profile of ~/.aws/config and ~/.aws/credentials
  --token-only           print the token alone (also --query status.token)
  --explain              show where the credentials come from, and print no token

The words `eks get-token` before the flags are accepted, so that in a kubeconfig only `command` has to change.
Credentials are found as the `aws` command finds them. Sessions of roles and of SSO are kept by Keyward's agent, if
one is running.
";

/// Every flag of `aws eks get-token` and its global flags, and ours.
pub(super) const FLAGS: &[Flag] = &[
    flag("cluster-name", Kind::Text),
    flag("cluster-id", Kind::Text),
    flag("role-arn", Kind::Text),
    // `aws eks update-kubeconfig` writes this abbreviation.
    flag("role", Kind::Text),
    flag("session-name", Kind::Text),
    flag("external-id", Kind::Text),
    flag("region", Kind::Text),
    flag("profile", Kind::Text),
    flag("token-only", Kind::Switch),
    flag("query", Kind::Text),
    flag("output", Kind::Text),
    HELP,
    flag("version", Kind::Switch),
    flag("ca-bundle", Kind::Refused("set `AWS_CA_BUNDLE`")),
    flag(
        "no-verify-ssl",
        Kind::Refused("servers are always verified; add their authority with `AWS_CA_BUNDLE`"),
    ),
    flag("no-sign-request", Kind::Refused("a token is a signed request")),
    flag("endpoint-url", Kind::Ignored("`aws eks get-token` ignores it, too")),
    flag("color", Kind::Ignored("JSON has no colours")),
    flag("cli-read-timeout", Kind::Ignored("the limits are fixed")),
    flag("cli-connect-timeout", Kind::Ignored("the limits are fixed")),
    flag("cli-binary-format", Kind::Ignored("no binary data is sent")),
    flag("no-paginate", Kind::IgnoredSwitch("there is one answer")),
    flag("no-cli-pager", Kind::IgnoredSwitch("there is no pager")),
    flag("cli-auto-prompt", Kind::IgnoredSwitch("there is nothing to prompt for")),
    flag("no-cli-auto-prompt", Kind::IgnoredSwitch("nothing prompts")),
    flag("debug", Kind::IgnoredSwitch("`--explain` shows what happens")),
];

pub(super) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let Some(flags) = call.flags(&[FLAGS], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    if flags.is_set("version") {
        return call.print(&format!("{} {}\n", call.name, env!("CARGO_PKG_VERSION")));
    }
    let wanted = read(&flags)?;
    if wants_raw(&flags)? && !call.explains { wanted.print(call) } else { wanted.serve(call) }
}

pub(super) fn read(flags: &Flags) -> Result<Wanted, Refusal> {
    match flags.words().as_slice() {
        [] | ["get-token"] | ["eks", "get-token"] => {}
        words => {
            return Err(Refusal::BadConfig(format!(
                "`{}` is no command of `keyward-eks`\n\nhint: `keyward-eks --help`",
                inline(&words.join(" "))
            )));
        }
    }
    let text = |name: &str| flags.filled(name).map(str::to_owned);
    let cluster = match (text("cluster-name"), text("cluster-id")) {
        (Some(_), Some(_)) => {
            return Err(Refusal::bad_config("give `--cluster-name` or `--cluster-id`, not both"));
        }
        (Some(name), None) | (None, Some(name)) => name,
        (None, None) => {
            return Err(Refusal::bad_config(
                "no cluster is given\n\nhint: `keyward-eks --cluster-name NAME --region REGION`",
            ));
        }
    };
    let role = text("role-arn").or_else(|| text("role")).map(|arn| role(arn, flags));
    Ok(Wanted {
        cluster,
        region: text("region"),
        profile: text("profile"),
        role,
        ..Wanted::default()
    })
}

/// Whether the token is wanted without the rest.
fn wants_raw(flags: &Flags) -> Result<bool, Refusal> {
    let query = match flags.text("query") {
        None => false,
        Some("status.token") => true,
        Some(_) => {
            return Err(Refusal::bad_config("`--query` can only be `status.token`"));
        }
    };
    match flags.text("output") {
        None | Some("json") => {}
        Some("text") if query => {}
        Some(other) => {
            return Err(Refusal::BadConfig(format!(
                "`--output` is `json`, or `text` with `--query status.token`; not `{}`",
                inline(other)
            )));
        }
    }
    Ok(query || flags.is_set("token-only"))
}
