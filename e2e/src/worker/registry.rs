//! Registries that want a login: one with a password file, and one that asks the cluster who a service account token
//! belongs to. Both serve the same images.

use std::{fs, path::Path, process::Command};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::USER;
use crate::{
    Outcome,
    child::Server,
    cluster::Cluster,
    config, outside,
    tools::{self, Tools},
};

/// What a token must be for, so that the second registry accepts it.
pub const AUDIENCE: &str = "registry.e2e";
/// The password of all users at the first registry.
pub const PASSWORD: &str = "e2e-password-that-opens-one-registry";

/// Registries of clouds whose images come from the registry with passwords.
pub const CLOUDS: [&str; 2] =
    ["123456789012.dkr.ecr.eu-west-1.amazonaws.com", "europe-west1-docker.pkg.dev"];
/// The users of that registry: the node's own, and those that clouds give logins for.
const USERS: [&str; 3] = [USER, "AWS", "_token"];

/// Both registries.
pub struct Registries {
    /// `host:port` of the one with passwords.
    pub passwords: String,
    /// `host:port` of the one with tokens.
    pub tokens: String,
    /// The address of the services that give logins.
    pub services: String,
    servers: [Server; 3],
}

impl Registries {
    /// Starts both, in this directory.
    pub async fn start(cluster: &Cluster, dir: &Path) -> Outcome<Self> {
        let issued = cluster.authority.server(&["127.0.0.1"])?;
        config::private(&dir.join("registry.crt"), issued.certificate_pem())?;
        config::private(&dir.join("registry.key"), issued.key_pem())?;
        fs::write(dir.join("htpasswd"), "")?;
        for user in USERS {
            let mut htpasswd = tools::command("htpasswd", dir);
            htpasswd.args(["-Bb", "htpasswd", user, PASSWORD]).current_dir(dir);
            tools::succeed(&mut htpasswd).await?;
        }

        let mut logins = logins(cluster, dir)?;
        let realm = logins.line("http://").await?;
        let auth = json!({ "htpasswd": { "realm": "e2e", "path": dir.join("htpasswd") } });
        let mut first = start(dir, "registry-passwords", &auth)?;
        let auth = json!({ "token": {
            "realm": realm,
            "service": AUDIENCE,
            "issuer": "e2e",
            "rootcertbundle": cluster.path("ca.crt"),
        } });
        let mut second = start(dir, "registry-tokens", &auth)?;
        let (passwords, tokens) = (address(&mut first).await?, address(&mut second).await?);
        let services = realm.trim_end_matches("/token").to_owned();
        Ok(Self { passwords, tokens, services, servers: [first, second, logins] })
    }

    /// Stores an image, in skopeo's words, under this name and tag. `dir` is for the files that this takes.
    pub async fn push(
        &self,
        cluster: &Cluster,
        dir: &Path,
        image: &str,
        name: &str,
    ) -> Outcome<()> {
        // In a file: everybody on the machine can see arguments.
        let auth = dir.join("push.json");
        config::private(&auth, &self.docker_config(PASSWORD).to_string())?;
        let trust = dir.join("trust");
        fs::create_dir_all(&trust)?;
        fs::copy(cluster.path("ca.crt"), trust.join("ca.crt"))?;
        let mut skopeo = tools::command("skopeo", dir);
        skopeo.args(["copy", "--quiet", "--insecure-policy", "--dest-authfile"]).arg(&auth);
        skopeo.arg("--dest-cert-dir").arg(&trust).arg(image);
        skopeo.arg(format!("docker://{}/{name}", self.passwords));
        tools::succeed(&mut skopeo).await.map(drop)
    }

    /// Docker's `config.json` with this password for the first registry.
    pub fn docker_config(&self, password: &str) -> Value {
        let login = BASE64_STANDARD.encode(format!("{USER}:{password}"));
        json!({ "auths": { &self.passwords: { "auth": login } } })
    }

    /// How often a registry let containerd in to this repository.
    pub fn admitted(&self, repository: &str) -> Outcome<usize> {
        let name = format!("vars.name={repository} ");
        let parts = ["authorized request", "containerd/", &name];
        let [first, second, _] = &self.servers;
        let count =
            |server: &Server| server.lines_with(|line| parts.iter().all(|p| line.contains(p)));
        Ok(count(first)? + count(second)?)
    }

    /// How often this user logged in with a token.
    pub fn logins(&self, user: &str) -> Outcome<usize> {
        self.servers[2].count(&format!("login {user}"))
    }

    /// How often a service gave a login: `exchange ACCOUNT`, `ecr KEY` or `metadata default`.
    pub fn given(&self, login: &str) -> Outcome<usize> {
        self.servers[2].count(login)
    }

    /// The ends of their logs.
    pub fn logs(&self) -> impl Iterator<Item = String> {
        self.servers.iter().map(Server::tail)
    }
}

fn start(dir: &Path, name: &str, auth: &Value) -> Outcome<Server> {
    let settings = json!({
        "version": "0.1",
        "log": { "level": "info" },
        "storage": { "filesystem": { "rootdirectory": dir.join("images") } },
        "http": {
            "addr": "127.0.0.1:0",
            "secret": "unused",
            "tls": { "certificate": dir.join("registry.crt"), "key": dir.join("registry.key") },
        },
        "auth": auth,
    });
    let file = dir.join(format!("{name}.yml"));
    fs::write(&file, settings.to_string())?;
    let mut command = Command::new("docker-registry");
    Server::start(name, command.arg("serve").arg(file), dir)
}

/// Starts the token service of the second registry, which asks the cluster whose token a password is.
fn logins(cluster: &Cluster, dir: &Path) -> Outcome<Server> {
    let reviewer = cluster.authority.client("registry").group("system:masters").issue()?;
    config::private(&dir.join("reviewer.crt"), reviewer.certificate_pem())?;
    config::private(&dir.join("reviewer.key"), reviewer.key_pem())?;
    let mut command = Command::new("node");
    command.env("REGISTRY_PASSWORD", PASSWORD);
    command.env("AWS_ACCESS_KEY_ID", outside::ACCESS_KEY);
    command.env("AWS_SECRET_ACCESS_KEY", outside::SECRET_KEY);
    command.arg(Tools::file("node/registry-login.mjs")).args([&cluster.address, AUDIENCE]);
    command.arg(cluster.path("ca.crt"));
    command.args(
        ["reviewer.crt", "reviewer.key", "registry.crt", "registry.key"].map(|f| dir.join(f)),
    );
    Server::start("registry-login", &command, dir)
}

async fn address(server: &mut Server) -> Outcome<String> {
    const LISTENS: &str = "listening on ";
    let line = server.first(|line| line.contains(LISTENS)).await?;
    let rest = line.split_once(LISTENS).map_or("", |(_, rest)| rest);
    Ok(rest.split([',', '"', ' ']).next().unwrap_or_default().to_owned())
}
