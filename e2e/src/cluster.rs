//! The cluster: etcd, kube-apiserver, kube-controller-manager and a node on loopback.

mod control;

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use keyward_testing::authority::Authority;
use rcgen::KeyPair;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{
    Outcome,
    child::Server,
    config,
    node::Node,
    outside::Outside,
    tools::{self, Ran, Tools},
    worker::Worker,
};

/// A static token, and whose it is: `token,user,uid,"group,group"`.
const TOKENS: &str = "static-token-of-tom,tom,uid-of-tom,\"readers,old-timers\"\n";
/// The token of that line.
pub const TOKEN: &str = "static-token-of-tom";

/// A running cluster. Dropping it ends its processes and removes its files.
pub struct Cluster {
    /// The API server's address.
    pub address: String,
    /// Signs clients and servers.
    pub authority: Authority,
    /// The administrator's kubeconfig.
    pub admin: PathBuf,
    /// Who says who somebody is.
    pub outside: Outside,
    /// Where its pods run.
    pub node: Node,
    /// The programs.
    pub tools: Tools,
    /// The address of etcd.
    store: String,
    /// Started by the first step that needs it; ends before the API server does.
    worker: OnceCell<Worker>,
    /// What the running step waits for.
    waits_for: Mutex<String>,
    // In the order in which they end.
    servers: Mutex<Vec<Server>>,
    folder: TempDir,
}

impl Cluster {
    /// Starts everything and waits until it is ready.
    pub async fn start(tools: Tools) -> Outcome<Self> {
        let folder = TempDir::with_prefix("keyward-e2e-")?;
        let path = folder.path();
        let authority = Authority::new("keyward-e2e")?;
        let outside = Outside::start(&tools, &authority, path).await?;
        write(path, &authority, &outside)?;
        let node = Node::start(path)?;

        let mut servers = Vec::new();
        let store = control::etcd(path, &mut servers).await?;
        let address =
            control::api(&tools, path, &store, ("kube-apiserver", &[]), &mut servers).await?;
        let user = authority.client("admin").group("system:masters").issue()?;
        let admin = config::text(&address, authority.pem(), &config::certificate(&user));
        let admin = config::write(path, &admin)?;
        let user = authority.client("system:kube-controller-manager").issue()?;
        let manager = config::text(&address, authority.pem(), &config::certificate(&user));
        let manager = config::write(path, &manager)?;

        let servers = Mutex::new(servers);
        let cluster = Self {
            address,
            authority,
            admin,
            outside,
            node,
            tools,
            store,
            worker: OnceCell::new(),
            waits_for: Mutex::default(),
            servers,
            folder,
        };
        tokio::time::timeout(control::READY, cluster.ready(&cluster.admin))
            .await
            .map_err(|_| "not ready in time")??;
        let command = control::manager(&cluster.tools, cluster.folder.path(), &manager);
        cluster.push(Server::start("kube-controller-manager", &command, cluster.folder.path())?);
        cluster.furnish().await?;
        Ok(cluster)
    }

    /// Starts another API server with a store of its own and the same authorities. Its address; it ends with
    /// the cluster.
    pub async fn second(&self) -> Outcome<String> {
        let audit = self.path("audit-of-second.log");
        let audit = audit.to_string_lossy();
        let args = ["--etcd-prefix=/second", "--audit-log-path", &audit];
        let mut servers = Vec::new();
        let started = ("kube-apiserver-second", &args[..]);
        let address =
            control::api(&self.tools, self.folder.path(), &self.store, started, &mut servers)
                .await?;
        for server in servers {
            self.push(server);
        }
        let admin = self.authority.client("admin").group("system:masters").issue()?;
        let text = config::text(&address, self.authority.pem(), &config::certificate(&admin));
        let admin = config::write(self.folder.path(), &text)?;
        tokio::time::timeout(control::READY, self.ready(&admin))
            .await
            .map_err(|_| "the second API server is not ready in time")??;
        Ok(address)
    }

    /// The machine that runs pods.
    pub async fn worker(&self) -> Outcome<&Worker> {
        self.worker.get_or_try_init(|| Worker::start(self)).await
    }

    /// Starts the scheduler, for pods that name no node. It ends with the cluster.
    pub fn start_scheduler(&self) -> Outcome<()> {
        let user = self.authority.client("system:kube-scheduler").issue()?;
        let kubeconfig = self.kubeconfig(&config::certificate(&user))?;
        let command = control::scheduler(&self.tools, &kubeconfig);
        self.push(Server::start("kube-scheduler", &command, self.folder.path())?);
        Ok(())
    }

    /// Runs kubectl as the administrator; it must succeed.
    pub async fn kubectl(&self, args: &[&str]) -> Outcome<String> {
        let mut command = tools::command(self.tools.kubernetes("kubectl"), self.folder.path());
        tools::succeed(command.arg("--kubeconfig").arg(&self.admin).args(args)).await
    }

    /// Applies an object as the administrator.
    pub async fn apply(&self, object: &Value) -> Outcome<()> {
        let file = config::write(self.folder.path(), &object.to_string())?;
        self.kubectl(&["apply", "-f", &file.to_string_lossy()]).await?;
        Ok(())
    }

    /// Runs kubectl with this kubeconfig.
    pub async fn theirs(&self, kubeconfig: &Path, args: &[&str]) -> Outcome<Ran> {
        let mut command = tools::command(self.tools.kubernetes("kubectl"), self.folder.path());
        // A run that another program made would not be the one under test.
        command.env("KEYWARD_AGENT", "off");
        tools::run(command.arg("--kubeconfig").arg(kubeconfig).args(args)).await
    }

    /// Runs keyward with this kubeconfig.
    pub async fn ours(&self, kubeconfig: &Path, args: &[&str]) -> Outcome<Ran> {
        let mut command = tools::command(self.tools.own("keyward"), self.folder.path());
        tools::run(command.arg("--kubeconfig").arg(kubeconfig).args(args)).await
    }

    /// A kubeconfig for this user.
    pub fn kubeconfig(&self, user: &Value) -> Outcome<PathBuf> {
        config::write(self.folder.path(), &config::text(&self.address, self.authority.pem(), user))
    }

    /// A file in the cluster's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A new token of this service account.
    pub async fn token(&self, account: &str, args: &[&str]) -> Outcome<String> {
        let words = [&["create", "token", account], args].concat();
        Ok(self.kubectl(&words).await?.trim().to_owned())
    }

    /// Where the API server writes down who asked for what.
    pub fn audit(&self) -> PathBuf {
        self.path("audit.log")
    }

    /// Keeps a process until the end.
    pub fn push(&self, server: Server) {
        lock(&self.servers).insert(0, server);
    }

    /// Says what the step waits for from now on, in case that it waits for ever.
    pub fn waits_for(&self, what: &str) {
        what.clone_into(&mut lock(&self.waits_for));
    }

    /// What the step waits for, and the cluster's pods and events.
    pub async fn why_it_waits(&self) -> String {
        let mut text = lock(&self.waits_for).clone();
        for kind in ["pods,daemonsets,jobs", "events"] {
            let args = ["get", kind, "--all-namespaces", "--output=wide", "--request-timeout=10s"];
            let said = self.kubectl(&args).await.unwrap_or_else(|error| error.to_string());
            let lines: Vec<&str> = said.lines().collect();
            for line in &lines[lines.len().saturating_sub(20)..] {
                text.push('\n');
                text.push_str(line);
            }
        }
        text
    }

    /// Shows the ends of all logs.
    pub fn show_logs(&self) {
        let servers = lock(&self.servers);
        let worker = self.worker.get().into_iter().flat_map(Worker::logs);
        for text in servers.iter().map(Server::tail).chain(self.outside.logs()).chain(worker) {
            eprintln!("--- {text}");
        }
    }

    async fn ready(&self, admin: &Path) -> Outcome<()> {
        loop {
            let ran = self.theirs(admin, &["get", "--raw", "/readyz"]).await?;
            if ran.status.success() {
                return Ok(());
            }
            self.alive().map_err(|error| format!("{error}\n{}", ran.stderr))?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn alive(&self) -> Outcome<()> {
        lock(&self.servers).iter_mut().try_for_each(Server::alive)
    }

    /// What the steps find there: everybody who is somebody may work in `default`.
    async fn furnish(&self) -> Outcome<()> {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let name = json!({ "name": "everybody-works", "namespace": "default" });
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": name,
            "rules": [{ "apiGroups": [""], "resources": ["*"], "verbs": ["*"] }],
        }))
        .await?;
        self.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": name,
            "subjects": [{ "kind": "Group", "apiGroup": GROUP, "name": "system:authenticated" }],
            "roleRef": { "kind": "Role", "apiGroup": GROUP, "name": "everybody-works" },
        }))
        .await?;
        for (account, purpose) in [("builder", "building"), ("puller", "pulling")] {
            self.apply(&json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {
                    "name": account,
                    "namespace": "default",
                    "annotations": { "example.org/purpose": purpose },
                },
            }))
            .await?;
        }
        self.apply(&self.node.objects()).await
    }
}

/// In the order of their start, so that the store ends last.
impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.worker.take());
        let servers = self.servers.get_mut().unwrap_or_else(PoisonError::into_inner);
        servers.drain(..).for_each(drop);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files that the processes read.
fn write(folder: &Path, authority: &Authority, outside: &Outside) -> Outcome<()> {
    let file = |name: &str, text: &str| config::private(&folder.join(name), text);
    let server = authority.server(&["127.0.0.1", "localhost"])?;
    let accounts = KeyPair::generate()?;
    file("ca.crt", authority.pem())?;
    file("ca.key", &authority.key_pem())?;
    file("server.crt", server.certificate_pem())?;
    file("server.key", server.key_pem())?;
    file("accounts.key", &accounts.serialize_pem())?;
    file("accounts.pub", &accounts.public_key_pem())?;
    file("tokens.csv", TOKENS)?;
    file("reviewer.conf", &config::text(&outside.reviewer, authority.pem(), &json!({})))?;
    let login = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {
                "url": outside.issuer,
                "audiences": ["kubernetes"],
                "certificateAuthority": authority.pem(),
            },
            "claimMappings": {
                "username": { "claim": "sub", "prefix": "oidc:" },
                "groups": { "claim": "groups", "prefix": "oidc:" },
            },
        }],
    });
    file("login.json", &login.to_string())?;
    let audit = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{ "level": "Metadata" }],
    });
    file("audit.json", &audit.to_string())
}
