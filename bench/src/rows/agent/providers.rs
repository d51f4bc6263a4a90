//! Providers with a warm agent. Their services are gone when the rows are measured, so nobody can have asked them.

use std::{
    os::unix::{fs::symlink, process::CommandExt as _},
    process::Command,
    rc::Rc,
};

use serde_json::{Value, json};

use super::{
    super::{
        providers::{AWS_KEYS, STARTS, providers},
        stand_in::StandIn,
        startup::starts,
    },
    BARE, KUBELOGIN, Shared,
    kubelogin::{self, TOKEN},
    stage,
    stage::{Stage, exec_program},
    variant,
};
use crate::measure::{Bar, Row};

/// A token of an OpenID provider: kubelogin has one in a file, and ours in the agent.
pub fn oidc() -> Row {
    const OIDC: &str = "ours: keyward-oidc, token in the agent";
    let warm = warm_oidc();
    let stage: Shared = warm.as_ref().map(|(stage, _)| Rc::clone(stage)).map_err(Clone::clone);
    let issuer = warm.map(|(_, issuer)| issuer).unwrap_or_default();
    Row {
        unit: "ms",
        variants: vec![
            variant(BARE, &stage, |stage| starts(STARTS, &mut stage.command(BARE))),
            variant(KUBELOGIN, &stage, |stage| starts(STARTS, &mut stage.kubelogin()?)),
            variant(OIDC, &stage, move |stage| starts(STARTS, &mut keyward_oidc(stage, &issuer))),
        ],
        bars: vec![Bar {
            promise: "a token in the agent takes no longer than one in kubelogin's cache",
            judge: |r| (r.ratio(OIDC, KUBELOGIN), 1.0),
        }],
    }
}

/// A stage whose agent has the token of an issuer.
fn warm_oidc() -> Result<(Rc<Stage>, String), String> {
    let stage = stage(None)?;
    let server = StandIn::start(|url, path| {
        match path {
            "/token" => {
                json!({ "access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600 })
            }
            "/jwks" => json!({ "keys": [] }),
            _ => json!({
                "issuer": url, "authorization_endpoint": format!("{url}/auth"),
                "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/jwks"),
                "response_types_supported": ["code"], "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }),
        }
        .to_string()
    })?;
    let issuer = server.url();
    if token(&mut keyward_oidc(&stage, &issuer))? != TOKEN {
        return Err("`keyward-oidc` gave another token than the issuer's".to_owned());
    }
    Ok((stage, issuer))
}

/// Ours with the arguments of kubelogin. An access token is wanted, because an ID token would need a signature.
fn keyward_oidc(stage: &Stage, issuer: &str) -> Command {
    let mut command = stage.command(providers());
    command.arg0("keyward-oidc").args(kubelogin::args_for(issuer, &stage.path("unused")));
    command.arg("--oidc-use-access-token");
    command
}

/// A token for an EKS cluster with the session of a role, in the agent itself and made of a session in the agent.
pub fn eks() -> Row {
    const WRAPPED: &str = "ours: keyward-exec -- keyward-eks, warm";
    const EKS: &str = "ours: keyward-eks, session in the agent";
    let warm = warm_eks();
    let stage: Shared = warm.as_ref().map(|(stage, _)| Rc::clone(stage)).map_err(Clone::clone);
    let sts = warm.map(|(_, sts)| sts).unwrap_or_default();
    let own = sts.clone();
    Row {
        unit: "ms",
        variants: vec![
            variant(BARE, &stage, |stage| starts(STARTS, &mut stage.command(BARE))),
            variant(WRAPPED, &stage, move |stage| starts(STARTS, &mut wrapped_eks(stage, &sts))),
            variant(EKS, &stage, move |stage| starts(STARTS, &mut keyward_eks(stage, &own))),
        ],
        bars: vec![Bar {
            promise: "a token in the agent adds at most 1 ms to /bin/true",
            judge: |r| (r.middle([BARE, WRAPPED], |[bare, ours]| ours - bare), 1.0),
        }],
    }
}

/// A stage whose agent has the session of a role and a token made of it, and the address of STS.
fn warm_eks() -> Result<(Rc<Stage>, String), String> {
    let stage = stage(None)?;
    symlink(providers(), stage.path("keyward-eks")).map_err(|e| e.to_string())?;
    stage.wrap("eks", &stage.path("keyward-eks"), &eks_args())?;
    let server = StandIn::start(|_, _| {
        "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult><Credentials>\
         <AccessKeyId>ASIAIOSFODNN7EXAMPLE</AccessKeyId><SecretAccessKey>bench</SecretAccessKey>\
         <SessionToken>bench</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>\
         </Credentials></AssumeRoleResult></AssumeRoleResponse>".to_owned()
    })?;
    let sts = server.url();
    // The agent asks the server whether a token is accepted if one process asks for it often.
    stage.accept(&token(&mut wrapped_eks(&stage, &sts))?);
    token(&mut keyward_eks(&stage, &sts))?;
    Ok((stage, sts))
}

fn wrapped_eks(stage: &Stage, sts: &str) -> Command {
    let mut command = with_sts(stage.command(exec_program()), sts);
    command.arg("--").arg(stage.path("keyward-eks")).args(eks_args());
    command
}

fn keyward_eks(stage: &Stage, sts: &str) -> Command {
    let mut command = with_sts(stage.command(stage.path("keyward-eks")), sts);
    command.args(eks_args());
    command
}

fn with_sts(mut command: Command, sts: &str) -> Command {
    command.envs(AWS_KEYS).env("AWS_ENDPOINT_URL_STS", sts);
    command
}

fn eks_args() -> Vec<String> {
    let role = "arn:aws:iam::123456789012:role/bench";
    ["--cluster-name", "bench", "--role-arn", role].map(str::to_owned).to_vec()
}

/// The token that a command prints.
fn token(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|e| format!("`{name}`: {e}"))?;
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let token = printed["status"]["token"].as_str().map(str::to_owned);
    token.ok_or_else(|| format!("`{name}`: {}", String::from_utf8_lossy(&output.stderr)))
}
