//! Every kind of user that a kubeconfig can have.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::{
    rotation,
    same::{self, Credential},
};
use crate::{
    Outcome,
    cluster::{Cluster, TOKEN},
    config, tools,
    tools::Tools,
};

pub async fn version(cluster: &Cluster) -> Outcome<String> {
    let seen: Value = serde_json::from_str(&cluster.kubectl(&["version", "-o", "json"]).await?)?;
    let (client, server) =
        (&seen["clientVersion"]["gitVersion"], &seen["serverVersion"]["gitVersion"]);
    let pinned = fs::read_to_string(Tools::file("programs/kubernetes/go.mod"))?;
    let pinned = pinned.lines().find_map(|line| line.trim().strip_prefix("k8s.io/kubernetes v"));
    let pinned = pinned.and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    if client != &format!("v{pinned}") || client != server {
        return Err(
            format!("kubectl is {client}, the server {server}, go.mod says {pinned}").into()
        );
    }
    Ok(format!("v{pinned}"))
}

pub async fn token(cluster: &Cluster) -> Outcome<String> {
    same::named(cluster, &json!({ "token": TOKEN }), "tom", Credential::One).await
}

pub async fn token_file(cluster: &Cluster) -> Outcome<String> {
    let file = cluster.path("token");
    config::private(&file, TOKEN)?;
    let user = json!({ "tokenFile": file });
    let before = same::named(cluster, &user, "tom", Credential::One).await?;
    config::private(&file, &cluster.token("builder", &[]).await?)?;
    let after =
        same::named(cluster, &user, "system:serviceaccount:default:builder", Credential::One)
            .await?;
    Ok(format!("{before}; then {after}"))
}

pub async fn certificate_data(cluster: &Cluster) -> Outcome<String> {
    let issued = cluster.authority.client("carla").group("readers").group("night-shift").issue()?;
    same::named(cluster, &config::certificate(&issued), "carla", Credential::One).await
}

pub async fn certificate_files(cluster: &Cluster) -> Outcome<String> {
    let issued = cluster.authority.client("cora").group("readers").issue()?;
    let (certificate, key) = (cluster.path("cora.crt"), cluster.path("cora.key"));
    config::private(&certificate, issued.certificate_pem())?;
    config::private(&key, issued.key_pem())?;
    let user = json!({ "client-certificate": certificate, "client-key": key });
    same::named(cluster, &user, "cora", Credential::One).await
}

pub async fn service_account(cluster: &Cluster) -> Outcome<String> {
    let token = cluster.token("builder", &["--duration", "10m"]).await?;
    same::named(
        cluster,
        &json!({ "token": token }),
        "system:serviceaccount:default:builder",
        Credential::One,
    )
    .await
}

/// Both find the service account of a pod at one fixed place, which a mount namespace gives them.
pub async fn pod(cluster: &Cluster) -> Outcome<String> {
    let account = cluster.path("serviceaccount");
    fs::create_dir_all(&account)?;
    config::private(&account.join("token"), &cluster.token("builder", &[]).await?)?;
    config::private(&account.join("ca.crt"), cluster.authority.pem())?;
    config::private(&account.join("namespace"), "default")?;
    let mut seen = Vec::new();
    for program in [cluster.tools.kubernetes("kubectl"), cluster.tools.own("keyward")] {
        let ours = program.ends_with("keyward");
        let mut command = tools::command("unshare", &cluster.path("nobody"));
        command.args(["--user", "--map-root-user", "--mount", "sh", "-euc", IN_POD, "sh"]);
        command.arg(&account).arg(&program);
        command.args(if ours { &["whoami"][..] } else { &["auth", "whoami"] }).args(["-o", "json"]);
        let (host, port) =
            cluster.address.trim_start_matches("https://").split_once(':').unwrap_or_default();
        command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", port);
        let ran = tools::run(&mut command).await?;
        let review = ran.json().map_err(|e| format!("{}: {e}", program.display()))?;
        seen.push(same::review(&review, Credential::One));
    }
    let user = &seen[1]["status"]["userInfo"];
    if seen[0] != seen[1] || user["username"] != "system:serviceaccount:default:builder" {
        return Err(format!("kubectl says {}, keyward says {}", seen[0], seen[1]).into());
    }
    Ok(same::line(user))
}

/// `/var/run` may be a link to `/run`; what is mounted over it is seen by this one process only.
const IN_POD: &str = r#"
mount -t tmpfs none "$(readlink -f /var/run)"
mkdir -p /var/run/secrets/kubernetes.io
cp -r "$1" /var/run/secrets/kubernetes.io/serviceaccount
shift
exec "$@"
"#;

pub async fn oidc(cluster: &Cluster) -> Outcome<String> {
    let tokens = login(cluster).await?;
    let before = cluster.outside.grants(REFRESH)?;
    let user = provider(cluster, &tokens["id_token"], &tokens);
    let seen = same::named(cluster, &user, "oidc:ann", Credential::One).await?;
    match cluster.outside.grants(REFRESH)? - before {
        0 => Ok(seen),
        grants => Err(format!("the token was good, and was renewed {grants} times").into()),
    }
}

/// The token in the kubeconfig has ended long ago: each must ask the provider for a new one. kubectl
/// keeps it in its kubeconfig, keyward in memory.
pub async fn oidc_refresh(cluster: &Cluster) -> Outcome<String> {
    let tokens = login(cluster).await?;
    let user = provider(cluster, &json!(ended(&cluster.outside.issuer)), &tokens);
    let kubeconfig = cluster.kubeconfig(&user)?;
    let copy = same::copy(cluster, &kubeconfig)?;
    let mut grants = vec![cluster.outside.grants(REFRESH)?];
    let theirs = same::kubectl(cluster, &copy, &[]).await?;
    grants.push(cluster.outside.grants(REFRESH)?);
    let ours = same::keyward(cluster, &kubeconfig, &[]).await?;
    grants.push(cluster.outside.grants(REFRESH)?);
    let seen = same::compare(&theirs, &ours, Credential::One)?;
    let (client, _) = rotation::client(cluster, &user, "keyward-e2e/oidc")?;
    for _ in 0..3 {
        rotation::whoami(&client).await?;
    }
    grants.push(cluster.outside.grants(REFRESH)?);

    let each: Vec<usize> = grants.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // One for kubectl's two runs, one for each of keyward's, one for a client that lives.
    if each != [1, 2, 1] || seen["username"] != "oidc:ann" {
        return Err(format!("{seen} after {each:?} refresh grants").into());
    }
    if fs::read(&copy)? == fs::read(&kubeconfig)? {
        return Err("kubectl has not kept the new token".into());
    }
    Ok(format!(
        "{}; refresh grants: 1 for kubectl, which writes it down, 1 for each run of keyward, \
         1 for a client of the library",
        same::line(&seen)
    ))
}

const REFRESH: &str = "refresh_token";

pub async fn impersonation(cluster: &Cluster) -> Outcome<String> {
    let admin = cluster.authority.client("admin").group("system:masters").issue()?;
    let mut user = config::certificate(&admin);
    user["as"] = json!("imre");
    user["as-uid"] = json!("uid-of-imre");
    user["as-groups"] = json!(["readers", "actors"]);
    user["as-user-extra"] = json!({ "reason": ["maintenance", "drill"] });
    let kubeconfig = cluster.kubeconfig(&user)?;
    let seen = same::user(cluster, &kubeconfig, &[], Credential::One).await?;
    let extra = &seen["extra"]["reason"];
    if seen["username"] != "imre"
        || seen["uid"] != "uid-of-imre"
        || extra != &user["as-user-extra"]["reason"]
    {
        return Err(format!("the user is {seen}").into());
    }
    let flags = ["--as", "other", "--as-group", "few", "--as-uid", "7"];
    let other = same::user(cluster, &kubeconfig, &flags, Credential::One).await?;
    let groups = other["groups"].as_array().is_some_and(|groups| groups.contains(&json!("few")));
    if other["username"] != "other" || other["uid"] != "7" || !groups {
        return Err(format!("by flags the user is {other}").into());
    }
    Ok(format!("{}; by flags {}", same::line(&seen), same::line(&other)))
}

/// API servers know no passwords any more: who sends one is taken for nobody.
pub async fn password(cluster: &Cluster) -> Outcome<String> {
    let user = json!({ "username": "tom", "password": "secret" });
    let kubeconfig = cluster.kubeconfig(&user)?;
    let theirs = cluster.theirs(&same::copy(cluster, &kubeconfig)?, NAMESPACES).await?;
    let ours = cluster.ours(&kubeconfig, NAMESPACES).await?;
    for (name, ran) in [("kubectl", &theirs), ("keyward", &ours)] {
        if ran.status.code() != Some(1) || !ran.stderr.contains(NOBODY) {
            return Err(format!("{name}: {}, {}{}", ran.status, ran.stdout, ran.stderr).into());
        }
    }
    Ok(format!("both end with 1 and say: {NOBODY}"))
}

/// kubectl asks for a name and a password where there is no credential, so it is no judge here.
pub async fn anonymous(cluster: &Cluster) -> Outcome<String> {
    let kubeconfig = cluster.kubeconfig(&json!({}))?;
    let version = cluster.ours(&kubeconfig, &["get", "--raw", "/version"]).await?.json()?;
    let ran = cluster.ours(&kubeconfig, NAMESPACES).await?;
    if ran.status.code() != Some(1) || !ran.stderr.contains(NOBODY) {
        return Err(format!("{}, {}{}", ran.status, ran.stdout, ran.stderr).into());
    }
    if !version["gitVersion"].is_string() {
        return Err(format!("the version is {version}").into());
    }
    Ok(format!("may read the version, {}, and nothing else", version["gitVersion"]))
}

const NAMESPACES: &[&str] = &["get", "--raw", "/api/v1/namespaces"];
const NOBODY: &str = "User \"system:anonymous\" cannot list";

pub async fn wrong_token(cluster: &Cluster) -> Outcome<String> {
    same::refused(cluster, &json!({ "token": "nobody's" }), "unauthorized").await
}

pub async fn exec_token(cluster: &Cluster) -> Outcome<String> {
    let user = plugin(cluster, "token", "builder", 600)?.0;
    same::named(cluster, &user, "system:serviceaccount:default:builder", Credential::Each).await
}

pub async fn exec_certificate(cluster: &Cluster) -> Outcome<String> {
    let user = plugin(cluster, "certificate", "celia", 600)?.0;
    same::named(cluster, &user, "celia", Credential::Each).await
}

pub async fn chain(cluster: &Cluster) -> Outcome<String> {
    let mut seen = Vec::new();
    for (kind, account, name) in [
        ("token", "builder", "system:serviceaccount:default:builder"),
        ("certificate", "celia", "celia"),
    ] {
        let inner = cluster.kubeconfig(&plugin(cluster, kind, account, 600)?.0)?;
        let args = ["credential", "--kubeconfig", &inner.to_string_lossy()];
        let outer = config::exec("v1", &cluster.tools.own("keyward"), &args, &[]);
        seen.push(same::named(cluster, &outer, name, Credential::Each).await?);
    }
    Ok(seen.join("; "))
}

/// One of our plugins in `plugins/`, and the file in which it counts its runs.
pub fn plugin(
    cluster: &Cluster,
    kind: &str,
    account: &str,
    seconds: u32,
) -> Outcome<(Value, PathBuf)> {
    let runs = tempfile::NamedTempFile::new_in(cluster.path("."))?.into_temp_path().keep()?;
    let kubectl = cluster.tools.kubernetes("kubectl");
    let env = [
        ("KUBECTL", &*kubectl.to_string_lossy()),
        ("ADMIN", &cluster.admin.to_string_lossy()),
        ("ACCOUNT", account),
        ("LIFETIME", &seconds.to_string()),
        ("RUNS", &runs.to_string_lossy()),
    ];
    let program = Tools::file(&format!("plugins/{kind}.sh"));
    Ok((config::exec("v1", &program, &[], &env), runs))
}

/// The user of kubectl's own `OpenID` Connect provider.
fn provider(cluster: &Cluster, token: &Value, tokens: &Value) -> Value {
    let authority = cluster.path("ca.crt");
    json!({ "auth-provider": { "name": "oidc", "config": {
        "idp-issuer-url": cluster.outside.issuer,
        "idp-certificate-authority": authority,
        "client-id": "kubernetes",
        "id-token": token,
        "refresh-token": tokens["refresh_token"],
    } } })
}

async fn login(cluster: &Cluster) -> Outcome<Value> {
    let mut command = tools::command("curl", &cluster.path("."));
    command
        .args(["--silent", "--show-error", "--fail-with-body", "--cacert"])
        .arg(cluster.path("ca.crt"));
    command.args(["-d", "grant_type=password", "-d", "client_id=kubernetes", "-d", "username=ann"]);
    command.args([
        "--data-urlencode",
        "password=correct horse",
        "-d",
        "scope=openid offline_access",
    ]);
    command.arg(format!("{}/token", cluster.outside.issuer));
    Ok(serde_json::from_str(&tools::succeed(&mut command).await?)?)
}

/// A token that ended in 2001. Nobody looks at its signature before its end.
fn ended(issuer: &str) -> String {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
    let claims = json!({ "iss": issuer, "aud": "kubernetes", "sub": "ann", "exp": 1_000_000_000 });
    let head = BASE64.encode(r#"{"alg":"RS256","kid":"one"}"#);
    format!("{head}.{}.{}", BASE64.encode(claims.to_string()), BASE64.encode("nothing"))
}
