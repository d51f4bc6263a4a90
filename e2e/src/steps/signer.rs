//! A key that never leaves its token, and the cluster's certificate for it.

use std::{fs, path::PathBuf, process::Stdio};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::Command,
};

use super::{
    proxy::Proxy,
    same::{self, Credential},
};
use crate::{Outcome, cluster::Cluster, config, tools};

const PIN: &str = "739125";

/// By the plugin's own commands: the key is made in the token, the cluster signs its request, and
/// the certificate is stored beside it.
pub async fn commands(cluster: &Cluster) -> Outcome<String> {
    let token = Token::new(cluster, "jo").await?;
    token.keygen().await?;
    let mut csr = token.command("keyward-pkcs11");
    csr.args(["csr", "--user", "jo", "--group", "readers", &token.uri]);
    let request = tools::succeed(&mut csr).await?;
    cluster
        .apply(&json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": { "name": "jo" },
            "spec": {
                "request": BASE64_STANDARD.encode(request),
                "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth"],
            },
        }))
        .await?;
    cluster.kubectl(&["certificate", "approve", "jo"]).await?;
    cluster
        .kubectl(&["wait", "csr/jo", "--for=jsonpath={.status.certificate}", "--timeout=60s"])
        .await?;
    let signed =
        cluster.kubectl(&["get", "csr", "jo", "-o", "jsonpath={.status.certificate}"]).await?;
    let file = cluster.path("jo.crt");
    fs::write(&file, BASE64_STANDARD.decode(signed.trim())?)?;
    let mut import = token.command("keyward-pkcs11");
    tools::succeed(import.arg("import").arg(&file).arg(&token.uri)).await?;
    token.prove("jo").await
}

/// By `keyward enroll` and one approval.
pub async fn enrolment(cluster: &Cluster) -> Outcome<String> {
    let token = Token::new(cluster, "jane").await?;
    token.keygen().await?;
    let mut enroll = token.command("keyward");
    enroll.arg("--kubeconfig").arg(&token.kubeconfig).args(["enroll", "--bootstrap-user", "admin"]);
    enroll.args(["--name", "jane", "--group", "readers"]).stderr(Stdio::piped());
    let mut enrolling = enroll.stdout(Stdio::null()).spawn()?;
    let mut said = BufReader::new(enrolling.stderr.take().ok_or("no stderr")?);
    let mut line = String::new();
    said.read_line(&mut line).await?;
    let request = line.split('`').nth(1).ok_or_else(|| format!("enroll says: {line}"))?;
    cluster.kubectl(&["certificate", "approve", request]).await?;
    let mut rest = String::new();
    said.read_to_string(&mut rest).await?;
    let status = enrolling.wait().await?;
    if !status.success() {
        return Err(format!("enroll: {status}, {line}{rest}").into());
    }
    token.prove("jane").await
}

/// A software token, and a kubeconfig whose user has its key.
struct Token<'a> {
    cluster: &'a Cluster,
    name: &'static str,
    settings: PathBuf,
    uri: String,
    kubeconfig: PathBuf,
}

impl<'a> Token<'a> {
    async fn new(cluster: &'a Cluster, name: &'static str) -> Outcome<Self> {
        let file = |end: &str| cluster.path(&format!("{name}-{end}"));
        let (folder, settings, pin) = (file("tokens"), file("softhsm2.conf"), file("pin"));
        fs::create_dir(&folder)?;
        config::private(&pin, PIN)?;
        config::private(
            &settings,
            &format!("directories.tokendir = {}\nlog.level = ERROR\n", folder.display()),
        )?;
        let module = module()?;
        let uri = format!(
            "pkcs11:token=lab;object={name}?module-path={module}&pin-source=file:{}",
            pin.display()
        );
        let mut text: Value = serde_json::from_slice(&fs::read(&cluster.admin)?)?;
        let mut admin = text["users"][0].take();
        admin["name"] = json!("admin");
        text["users"] = json!([admin, { "name": "e2e", "user": { "auth-provider": {
            "name": "externalSigner",
            "config": { "pathExec": cluster.tools.own("keyward-pkcs11"), "uri": uri },
        } } }]);
        let kubeconfig = config::write(&cluster.path("."), &text.to_string())?;
        let token = Self { cluster, name, settings, uri, kubeconfig };
        let mut init = tools::command("softhsm2-util", &cluster.path("."));
        init.args(["--init-token", "--free", "--label", "lab", "--pin", PIN, "--so-pin", PIN]);
        tools::succeed(init.env("SOFTHSM2_CONF", &token.settings)).await?;
        Ok(token)
    }

    async fn keygen(&self) -> Outcome<()> {
        let mut keygen = self.command("keyward-pkcs11");
        tools::succeed(keygen.args(["keygen", "--kind", "p256", &self.uri])).await?;
        Ok(())
    }

    /// The key in the token is this user, for keyward and, through the proxy, for kubectl, which
    /// knows no signers.
    async fn prove(&self, user: &str) -> Outcome<String> {
        let mut whoami = self.command("keyward");
        whoami.arg("--kubeconfig").arg(&self.kubeconfig).args(["whoami", "-o", "json"]);
        let ours = same::review(&tools::run(&mut whoami).await?.json()?, Credential::One);
        let env = [("SOFTHSM2_CONF", self.settings.clone())];
        let name = format!("proxy-{}", self.name);
        let proxy = Proxy::start(self.cluster, &name, &self.kubeconfig, &env).await?;
        let theirs =
            self.cluster.theirs(&proxy.kubeconfig, &["auth", "whoami", "-o", "json"]).await?;
        let theirs = same::review(&theirs.json()?, Credential::One);
        let seen = &ours["status"]["userInfo"];
        if ours != theirs || seen["username"] != user {
            return Err(format!("keyward says {ours}, kubectl through the proxy {theirs}").into());
        }
        Ok(format!("{}; the same for kubectl through the proxy", same::line(seen)))
    }

    /// A program of ours that sees the token.
    fn command(&self, name: &str) -> Command {
        let mut command = tools::command(self.cluster.tools.own(name), &self.cluster.path("."));
        command.env("SOFTHSM2_CONF", &self.settings);
        command
    }
}

fn module() -> Outcome<&'static str> {
    const PLACES: [&str; 3] = [
        "/usr/lib/softhsm/libsofthsm2.so",
        "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
        "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
    ];
    let place = PLACES.into_iter().find(|place| fs::exists(place).unwrap_or(false));
    Ok(place.ok_or("`libsofthsm2.so` is missing: Debian package softhsm2")?)
}
