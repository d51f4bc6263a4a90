//! The command line of `aws-iam-authenticator`.

use std::process::ExitCode;

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use super::{AUTHENTICATOR, Wanted, WithoutRegion, verify};
use crate::{
    Call,
    aws::Role,
    flags::{Flag, Flags, Kind},
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
    Flag { name: "cluster-id", short: Some('i'), kind: Kind::Text },
    Flag { name: "role", short: Some('r'), kind: Kind::Text },
    Flag { name: "session-name", short: Some('s'), kind: Kind::Text },
    Flag { name: "forward-session-name", short: None, kind: Kind::Switch },
    Flag { name: "external-id", short: Some('e'), kind: Kind::Text },
    Flag { name: "region", short: None, kind: Kind::Text },
    Flag { name: "token-only", short: None, kind: Kind::Switch },
    Flag {
        name: "cache",
        short: None,
        kind: Kind::IgnoredSwitch("Keyward's agent keeps sessions"),
    },
    Flag { name: "token", short: Some('t'), kind: Kind::Text },
    Flag { name: "output", short: Some('o'), kind: Kind::Text },
    Flag { name: "partition", short: None, kind: Kind::Text },
    Flag { name: "help", short: Some('h'), kind: Kind::Switch },
    Flag { name: "config", short: Some('c'), kind: Kind::Ignored("it configures the server") },
    Flag { name: "log-format", short: Some('l'), kind: Kind::Ignored("there is no log") },
    Flag {
        name: "log-verbosity",
        short: Some('v'),
        kind: Kind::Ignored("`--explain` shows what happens"),
    },
    Flag { name: "feature-gates", short: None, kind: Kind::Ignored("they are the server's") },
];

pub(super) fn run(call: &Call) -> ExitCode {
    let flags = match Flags::read(&[FLAGS], &call.args) {
        Ok(flags) => flags,
        Err(refusal) => return call.finish(Err(refusal)),
    };
    let words: Vec<&str> = flags.words().iter().map(String::as_str).collect();
    match words.as_slice() {
        _ if flags.is_set("help") => call.finish(call.print(USAGE)),
        ["help", ..] => call.finish(call.print(USAGE)),
        ["token"] => match read(call, &flags) {
            Err(refusal) => call.finish(Err(refusal)),
            Ok(wanted) if flags.is_set("token-only") && !call.explains => {
                call.finish(wanted.print(call))
            }
            Ok(wanted) => wanted.serve(call),
        },
        ["verify"] => call.finish(verify::run(call, &flags)),
        ["version"] => {
            let version = env!("CARGO_PKG_VERSION");
            call.finish(
                call.print(&format!("{{\"Version\":\"keyward {version}\",\"Commit\":\"\"}}\n")),
            )
        }
        [other @ ("server" | "init" | "add")] => call.finish(Err(Refusal::BadConfig(format!(
            "`{AUTHENTICATOR} {other}` belongs to the server, which this program does not replace"
        )))),
        _ => call.finish(Err(Refusal::BadConfig(format!(
            "`{}` is no command of `{AUTHENTICATOR}`\n\nhint: `{AUTHENTICATOR} --help`",
            inline(&words.join(" "))
        )))),
    }
}

pub(super) fn wanted(call: &Call) -> Result<Wanted, Refusal> {
    read(call, &Flags::read(&[FLAGS], &call.args)?)
}

/// The cluster, by flag or by variable.
pub(super) fn cluster(call: &Call, flags: &Flags) -> Result<String, Refusal> {
    let given = flags.text("cluster-id").filter(|text| !text.is_empty()).map(str::to_owned);
    given.or_else(|| call.var("KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID")).ok_or_else(|| {
        Refusal::BadConfig(format!(
            "no cluster is given\n\nhint: `{AUTHENTICATOR} token -i CLUSTER`"
        ))
    })
}

fn read(call: &Call, flags: &Flags) -> Result<Wanted, Refusal> {
    let text = |name: &str| flags.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let forward_session = flags.is_set("forward-session-name");
    if forward_session && text("session-name").is_some() {
        return Err(Refusal::BadConfig(
            "give `--session-name` or `--forward-session-name`, not both".into(),
        ));
    }
    let role = text("role").or_else(|| call.var("DEFAULT_ROLE")).map(|arn| Role {
        arn,
        session: text("session-name"),
        external_id: text("external-id"),
        ..Role::default()
    });
    Ok(Wanted {
        cluster: cluster(call, flags)?,
        region: text("region"),
        profile: None,
        role,
        forward_session,
        without_region: WithoutRegion::AskInstance,
    })
}
