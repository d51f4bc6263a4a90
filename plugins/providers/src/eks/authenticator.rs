//! The command line of `aws-iam-authenticator`.

use std::process::ExitCode;

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use super::{AUTHENTICATOR, Wanted, role, verify};
use crate::{
    Call,
    flags::{Flag, Flags, HELP, Kind, flag, short},
};

const USAGE: &str = "\
Prints and checks tokens for Amazon EKS clusters. This is Keyward's replacement of aws-iam-authenticator.

Usage: aws-iam-authenticator token -i CLUSTER [-r ROLE] [-s SESSION] [-e EXTERNAL-ID] [--region REGION]
       aws-iam-authenticator verify -t TOKEN -i CLUSTER [-o json] [--partition PARTITION]
       aws-iam-authenticator version

  -i, --cluster-id ID         the cluster; else KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID
  -r, --role ARN              assume this role first; else DEFAULT_ROLE
  -s, --session-name NAME     the name of the role's session
      --forward-session-name  name it as the session that assumes the role
  -e, --external-id ID        the external id that the role asks for
      --region REGION         the region whose STS the token is for
      --token-only            print the token alone
      --explain               show where the credentials come from, and print no token
";

/// Every flag of `token` and `verify`, and the global ones.
pub(super) const FLAGS: &[Flag] = &[
    short('i', "cluster-id", Kind::Text),
    short('r', "role", Kind::Text),
    short('s', "session-name", Kind::Text),
    flag("forward-session-name", Kind::Switch),
    short('e', "external-id", Kind::Text),
    flag("region", Kind::Text),
    flag("token-only", Kind::Switch),
    flag("cache", Kind::IgnoredSwitch("Keyward's agent keeps sessions")),
    short('t', "token", Kind::Text),
    short('o', "output", Kind::Text),
    flag("partition", Kind::Text),
    HELP,
    short('c', "config", Kind::Ignored("it configures the server")),
    short('l', "log-format", Kind::Ignored("there is no log")),
    short('v', "log-verbosity", Kind::Ignored("`--explain` shows what happens")),
    flag("feature-gates", Kind::Ignored("they are the server's")),
];

pub(super) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let Some(flags) = call.flags(&[FLAGS], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    match flags.words().as_slice() {
        ["help", ..] => call.print(USAGE),
        ["token"] => {
            let wanted = read(call, &flags)?;
            let alone = flags.is_set("token-only") && !call.explains;
            if alone { wanted.print(call) } else { wanted.serve(call) }
        }
        ["verify"] => verify::run(call, &flags),
        ["version"] => {
            let version = env!("CARGO_PKG_VERSION");
            call.print(&format!("{{\"Version\":\"keyward {version}\",\"Commit\":\"\"}}\n"))
        }
        [other @ ("server" | "init" | "add")] => Err(Refusal::BadConfig(format!(
            "`{AUTHENTICATOR} {other}` belongs to the server, which this program does not replace"
        ))),
        words => Err(Refusal::BadConfig(format!(
            "`{}` is no command of `{AUTHENTICATOR}`\n\nhint: `{AUTHENTICATOR} --help`",
            inline(&words.join(" "))
        ))),
    }
}

/// The cluster, by flag or by variable.
pub(super) fn cluster(call: &Call, flags: &Flags) -> Result<String, Refusal> {
    let given = flags.filled("cluster-id").map(str::to_owned);
    given.or_else(|| call.var("KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID")).ok_or_else(|| {
        Refusal::BadConfig(format!(
            "no cluster is given\n\nhint: `{AUTHENTICATOR} token -i CLUSTER`"
        ))
    })
}

pub(super) fn read(call: &Call, flags: &Flags) -> Result<Wanted, Refusal> {
    let text = |name: &str| flags.filled(name).map(str::to_owned);
    let forward_session = flags.is_set("forward-session-name");
    if forward_session && text("session-name").is_some() {
        return Err(Refusal::bad_config(
            "give `--session-name` or `--forward-session-name`, not both",
        ));
    }
    let role = text("role").or_else(|| call.var("DEFAULT_ROLE")).map(|arn| role(arn, flags));
    Ok(Wanted {
        cluster: cluster(call, flags)?,
        region: text("region"),
        profile: None,
        role,
        forward_session,
        asks_instance_for_region: true,
    })
}
