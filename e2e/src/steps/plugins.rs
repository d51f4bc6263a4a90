//! Credential plugins written by others, through our host and through kubectl.

use std::{fs, os::unix::fs::PermissionsExt};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::same::{self, Credential};
use crate::{
    Outcome,
    cluster::Cluster,
    config,
    outside::{ACCESS_KEY, SECRET_KEY},
};

/// Without these the AWS programs would ask the network who they are.
const AWS: [(&str, &str); 5] = [
    ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
    ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
    ("AWS_REGION", "eu-west-1"),
    ("AWS_DEFAULT_REGION", "eu-west-1"),
    ("AWS_EC2_METADATA_DISABLED", "true"),
];
const CLUSTER: &str = "keyward-e2e";

pub async fn aws(cluster: &Cluster) -> Outcome<String> {
    let args = ["eks", "get-token", "--cluster-name", CLUSTER, "--output", "json"];
    let mut seen = String::new();
    for version in ["v1beta1", "v1"] {
        let user = config::exec(version, &cluster.tools.plugin("aws"), &args, &AWS);
        seen = same::named(cluster, &user, &format!("aws:{ACCESS_KEY}"), Credential::Each).await?;
    }
    Ok(format!("{seen}, by v1beta1 and v1"))
}

pub async fn authenticator(cluster: &Cluster) -> Outcome<String> {
    let args = ["token", "-i", CLUSTER];
    let mut seen = String::new();
    for version in ["v1beta1", "v1"] {
        let user =
            config::exec(version, &cluster.tools.plugin("aws-iam-authenticator"), &args, &AWS);
        seen = same::named(cluster, &user, &format!("aws:{ACCESS_KEY}"), Credential::Each).await?;
    }
    Ok(format!("{seen}, by v1beta1 and v1"))
}

/// The reviewer looks at the signature: another secret, and another cluster, are refused.
pub async fn forged(cluster: &Cluster) -> Outcome<String> {
    let mut env = AWS;
    env[1].1 = "another secret";
    let program = cluster.tools.plugin("aws-iam-authenticator");
    let user = config::exec("v1beta1", &program, &["token", "-i", CLUSTER], &env);
    same::refused(cluster, &user, "unauthorized").await?;
    let user = config::exec("v1beta1", &program, &["token", "-i", "another"], &AWS);
    same::refused(cluster, &user, "unauthorized").await
}

/// The whole code flow with a browser, which is a small program here: it follows what the provider
/// says and has no screen. Each of the two logs in by itself, with a token cache of its own, then
/// again from that cache.
pub async fn kubelogin(cluster: &Cluster) -> Outcome<String> {
    let browser = cluster.path("browser");
    fs::write(&browser, BROWSER)?;
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700))?;
    let visits = cluster.path("visits");
    let mut claims = Vec::new();
    for name in ["kubectl", "keyward"] {
        let cache = cluster.path(&format!("login-of-{name}"));
        let kubeconfig = cluster.kubeconfig(&login(cluster, &cache.to_string_lossy()))?;
        for _ in 0..2 {
            let ran = if name == "kubectl" {
                cluster.theirs(&kubeconfig, &["auth", "whoami", "-o", "json"]).await?
            } else {
                cluster.ours(&kubeconfig, &["whoami", "-o", "json"]).await?
            };
            let review = ran.json().map_err(|e| format!("{name}: {e}"))?;
            let user = &review["status"]["userInfo"];
            if user["username"] != "oidc:ann" {
                return Err(format!("{name} is {user}").into());
            }
        }
        claims.push(kept(&cache)?);
    }
    let visits = fs::read_to_string(&visits)?.lines().count();
    if visits != 2 || claims[0] != claims[1] {
        return Err(
            format!("{visits} visits of the browser; {} and {}", claims[0], claims[1]).into()
        );
    }
    // And both from one cache, compared in every field.
    let cache = cluster.path("login-of-keyward");
    let seen = same::named(
        cluster,
        &login(cluster, &cache.to_string_lossy()),
        "oidc:ann",
        Credential::One,
    )
    .await?;
    Ok(format!("{seen}; two logins by browser, the rest from the cache, the same claims"))
}

/// Follows redirects to the end, as a browser does, and keeps cookies on the way.
const BROWSER: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo visit >>"$here/visits"
exec curl --silent --show-error --location --cacert "$here/ca.crt" --cookie-jar "$here/cookies.$$" --cookie '' \
  --output /dev/null "$1"
"#;

fn login(cluster: &Cluster, cache: &str) -> Value {
    let (issuer, authority) = (&cluster.outside.issuer, cluster.path("ca.crt"));
    let args = [
        "get-token",
        "--grant-type=authcode",
        "--listen-address=127.0.0.1:0",
        "--oidc-redirect-url-hostname=127.0.0.1",
        "--oidc-client-id=kubernetes",
        "--oidc-extra-scope=offline_access",
        &format!("--oidc-issuer-url={issuer}"),
        &format!("--certificate-authority={}", authority.display()),
        &format!("--browser-command={}", cluster.path("browser").display()),
        &format!("--token-cache-dir={cache}"),
    ];
    config::exec("v1beta1", &cluster.tools.plugin("kubelogin"), &args, &[])
}

/// The claims of the token that a login left behind, without its times and its nonce.
fn kept(cache: &std::path::Path) -> Outcome<Value> {
    for file in fs::read_dir(cache)? {
        let Ok(kept) = serde_json::from_slice::<Value>(&fs::read(file?.path())?) else { continue };
        let Some(token) = kept["id_token"].as_str() else { continue };
        let body = token.split('.').nth(1).unwrap_or_default();
        let mut claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(body)?)?;
        for name in ["exp", "iat", "auth_time", "nonce", "at_hash", "sid"] {
            claims[name] = json!(null);
        }
        return Ok(claims);
    }
    Err(format!("no token in {}", cache.display()).into())
}
