//! The command line of `aws eks get-token`, as `keyward-eks`.

use std::process::ExitCode;

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use super::Wanted;
use crate::{
    Call,
    aws::Role,
    flags::{Flag, Flags, Kind},
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
    Flag { name: "cluster-name", short: None, kind: Kind::Text },
    Flag { name: "cluster-id", short: None, kind: Kind::Text },
    Flag { name: "role-arn", short: None, kind: Kind::Text },
    // `aws eks update-kubeconfig` writes this abbreviation.
    Flag { name: "role", short: None, kind: Kind::Text },
    Flag { name: "session-name", short: None, kind: Kind::Text },
    Flag { name: "external-id", short: None, kind: Kind::Text },
    Flag { name: "region", short: None, kind: Kind::Text },
    Flag { name: "profile", short: None, kind: Kind::Text },
    Flag { name: "token-only", short: None, kind: Kind::Switch },
    Flag { name: "query", short: None, kind: Kind::Text },
    Flag { name: "output", short: None, kind: Kind::Text },
    Flag { name: "help", short: Some('h'), kind: Kind::Switch },
    Flag { name: "version", short: None, kind: Kind::Switch },
    Flag { name: "ca-bundle", short: None, kind: Kind::Refused("set `AWS_CA_BUNDLE`") },
    Flag {
        name: "no-verify-ssl",
        short: None,
        kind: Kind::Refused(
            "servers are always verified; add their authority with `AWS_CA_BUNDLE`",
        ),
    },
    Flag {
        name: "no-sign-request",
        short: None,
        kind: Kind::Refused("a token is a signed request"),
    },
    Flag {
        name: "endpoint-url",
        short: None,
        kind: Kind::Ignored("`aws eks get-token` ignores it, too"),
    },
    Flag { name: "color", short: None, kind: Kind::Ignored("JSON has no colours") },
    Flag { name: "cli-read-timeout", short: None, kind: Kind::Ignored("the limits are fixed") },
    Flag { name: "cli-connect-timeout", short: None, kind: Kind::Ignored("the limits are fixed") },
    Flag { name: "cli-binary-format", short: None, kind: Kind::Ignored("no binary data is sent") },
    Flag { name: "no-paginate", short: None, kind: Kind::IgnoredSwitch("there is one answer") },
    Flag { name: "no-cli-pager", short: None, kind: Kind::IgnoredSwitch("there is no pager") },
    Flag {
        name: "cli-auto-prompt",
        short: None,
        kind: Kind::IgnoredSwitch("there is nothing to prompt for"),
    },
    Flag { name: "no-cli-auto-prompt", short: None, kind: Kind::IgnoredSwitch("nothing prompts") },
    Flag {
        name: "debug",
        short: None,
        kind: Kind::IgnoredSwitch("`--explain` shows what happens"),
    },
];

pub(super) fn run(call: &Call) -> ExitCode {
    let flags = match Flags::read(&[FLAGS], &call.args) {
        Ok(flags) => flags,
        Err(refusal) => return call.finish(Err(refusal)),
    };
    if flags.is_set("help") {
        return call.finish(call.print(USAGE));
    }
    if flags.is_set("version") {
        return call.finish(call.print(&format!("{} {}\n", call.name, env!("CARGO_PKG_VERSION"))));
    }
    match (read(&flags), wants_raw(&flags)) {
        (Err(refusal), _) | (_, Err(refusal)) => call.finish(Err(refusal)),
        (Ok(wanted), Ok(true)) if !call.explains => call.finish(wanted.print(call)),
        (Ok(wanted), _) => wanted.serve(call),
    }
}

pub(super) fn wanted(call: &Call) -> Result<Wanted, Refusal> {
    read(&Flags::read(&[FLAGS], &call.args)?)
}

fn read(flags: &Flags) -> Result<Wanted, Refusal> {
    let words: Vec<&str> = flags.words().iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["get-token"] | ["eks", "get-token"] => {}
        _ => {
            return Err(Refusal::BadConfig(format!(
                "`{}` is no command of `keyward-eks`\n\nhint: `keyward-eks --help`",
                inline(&words.join(" "))
            )));
        }
    }
    let text = |name: &str| flags.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let cluster = match (text("cluster-name"), text("cluster-id")) {
        (Some(_), Some(_)) => {
            return Err(Refusal::BadConfig(
                "give `--cluster-name` or `--cluster-id`, not both".into(),
            ));
        }
        (Some(name), None) | (None, Some(name)) => name,
        (None, None) => {
            return Err(Refusal::BadConfig(
                "no cluster is given\n\nhint: `keyward-eks --cluster-name NAME --region REGION`"
                    .into(),
            ));
        }
    };
    let arn = text("role-arn").or_else(|| text("role"));
    let role = arn.map(|arn| Role {
        arn,
        session: text("session-name"),
        external_id: text("external-id"),
        ..Role::default()
    });
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
            return Err(Refusal::BadConfig("`--query` can only be `status.token`".into()));
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
