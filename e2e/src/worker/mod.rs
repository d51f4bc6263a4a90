//! A machine that runs pods: a real kubelet with containerd, and registries that want a login.
//!
//! There is no network for pods, so the node never becomes ready: pods use the host's network, and tolerate it or name
//! their node. containerd, the kubelet and all containers run in their own process and mount namespace and end with it,
//! whatever happens to us.

mod image;
mod registry;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::geteuid;
use serde_json::{Value, json};

use self::registry::Registries;
pub use self::registry::{AUDIENCE, CLOUDS, PASSWORD};
use crate::{
    Outcome,
    child::Server,
    cluster::Cluster,
    config, outside,
    tools::{self, Tools},
};

/// The node's name. It must resolve to an address of this machine.
pub const NAME: &str = "localhost";
/// The user name at the registry with passwords.
pub const USER: &str = "node";

/// What pods' sandboxes are made of. containerd has it before anybody asks.
const SANDBOX: &str = "keyward.invalid/sandbox:1";
/// The directories that the kubelet writes to whatever it is told, replaced by empty ones that only it and containerd
/// see.
const KUBELET: &str =
    "for dir in /var/log /var/lib; do mountpoint -q $dir || mount -t tmpfs none $dir; done
                       exec \"$0\" \"$@\"";

/// A node with its registries.
pub struct Worker {
    /// Where images come from.
    pub registries: Registries,
    kubelet: Mutex<Server>,
    containerd: Server,
    dir: PathBuf,
}

/// The kubelet's flags about providers.
pub struct ProviderFlags {
    /// The configuration.
    pub config: PathBuf,
    /// The programs.
    pub bin_dir: PathBuf,
}

impl Worker {
    /// Starts everything and waits until the node has registered.
    pub async fn start(cluster: &Cluster) -> Outcome<Self> {
        if !geteuid().is_root() {
            return Err("containers need root; `--without-nodes` leaves these steps out".into());
        }
        let dir = cluster.path("worker");
        fs::create_dir(&dir)?;
        image::write(&dir.join("image"))?;
        let registries = Registries::start(cluster, &dir).await?;
        let containerd = containerd(cluster, &dir, &registries).await?;
        providers(cluster, &dir, &registries)?;
        settings(cluster, &dir)?;
        let kubelet = kubelet(cluster, &dir, &containerd, &own_providers(&dir))?;
        let worker = Self { registries, kubelet: Mutex::new(kubelet), containerd, dir };
        loop {
            let ran = cluster.theirs(&cluster.admin, &["get", "node", NAME]).await?;
            if ran.status.success() {
                return Ok(worker);
            }
            worker.kubelet().alive()?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Stores an image under this repository, in both registries.
    pub async fn push(&self, cluster: &Cluster, repository: &str) -> Outcome<()> {
        let image = format!("oci:{}", self.dir.join("image").display());
        self.store(cluster, &image, &format!("{repository}:1")).await
    }

    /// Stores an image, in skopeo's words, under this name and tag, in both registries.
    pub async fn store(&self, cluster: &Cluster, image: &str, name: &str) -> Outcome<()> {
        self.registries.push(cluster, &self.dir, image, name).await
    }

    /// Restarts the kubelet with these flags about providers, or with those that it had first.
    pub fn restart_kubelet(&self, cluster: &Cluster, flags: Option<ProviderFlags>) -> Outcome<()> {
        let flags = flags.unwrap_or_else(|| own_providers(&self.dir));
        let mut running = self.kubelet();
        running.stop();
        *running = kubelet(cluster, &self.dir, &self.containerd, &flags)?;
        Ok(())
    }

    fn kubelet(&self) -> MutexGuard<'_, Server> {
        self.kubelet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file of the node, such as `docker.json`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// What `keyward image explain` says about a pull of the service account `puller`, with the kubelet's configuration.
    pub async fn explain(&self, cluster: &Cluster, image: &str) -> Outcome<String> {
        let mut command = tools::command(cluster.tools.own("keyward"), &self.dir);
        command.arg("--kubeconfig").arg(&cluster.admin).args(["--plugin-timeout", "3s"]);
        command.args(["image", "explain", "--config"]).arg(self.path("providers.json"));
        command.arg("--bin-dir").arg(self.path("bin"));
        command.args(["--namespace", "default", "--service-account", "puller", image]);
        // It fails when there is no login, and says so on stdout all the same.
        Ok(tools::run(&mut command).await?.stdout)
    }

    /// The kubelet's process.
    pub fn started(&self) -> u32 {
        self.kubelet().id()
    }

    /// How many lines of the kubelet's log contain all of these.
    pub fn logged(&self, parts: &[&str]) -> Outcome<usize> {
        self.kubelet().lines_with(|line| parts.iter().all(|part| line.contains(part)))
    }

    /// The ends of their logs.
    pub fn logs(&self) -> impl Iterator<Item = String> {
        [self.kubelet().tail(), self.containerd.tail()].into_iter().chain(self.registries.logs())
    }
}

/// Removes the containers, so that nothing of them stays in the system's control groups.
impl Drop for Worker {
    fn drop(&mut self) {
        self.kubelet().stop();
        let ctr = |args: &[&str]| {
            let output = ctr(&self.dir).args(args).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        for task in ctr(&["tasks", "ls", "--quiet"]).unwrap_or_default().lines() {
            let _ = ctr(&["tasks", "rm", "--force", task]);
        }
        // Empty now, unless somebody else runs containers here.
        for controller in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            let _ = fs::remove_dir(controller.path().join("k8s.io"));
        }
    }
}

async fn containerd(cluster: &Cluster, dir: &Path, registries: &Registries) -> Outcome<Server> {
    let own = [&registries.passwords, &registries.tokens].map(|host| (host.as_str(), host));
    let clouds = CLOUDS.map(|name| (name, &registries.passwords));
    for (name, host) in own.into_iter().chain(clouds) {
        let trust = dir.join("registries").join(name);
        fs::create_dir_all(&trust)?;
        let ca = format!("ca = \"{}\"", cluster.path("ca.crt").display());
        // Both, because containerd 1.6 demands an entry for a host and then tries the server, too.
        let server = format!("server = \"https://{host}\"\n{ca}\n");
        let text = format!("{server}[host.\"https://{host}\"]\n{ca}\n");
        fs::write(trust.join("hosts.toml"), text)?;
    }
    let here = dir.display();
    let settings = format!(
        r#"version = 2
root = "{here}/containerd"
state = "{here}/containerd-state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{here}/containerd.sock"
[ttrpc]
address = "{here}/containerd.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{SANDBOX}"
# Lowering it takes a privilege that a container of continuous integration does not have.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "{here}/registries"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{here}/no-network"
conf_dir = "{here}/no-network"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
"#
    );
    let file = dir.join("containerd.toml");
    fs::write(&file, settings)?;
    let mut command = Command::new("unshare");
    command.args(["--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "--"]);
    command.args(["containerd", "--config"]).arg(&file);
    let mut server = Server::start("containerd", &command, dir)?;
    server.first(|line| line.contains("successfully booted")).await?;

    let archive = dir.join("sandbox.tar");
    let mut skopeo = tools::command("skopeo", dir);
    skopeo.args(["copy", "--quiet", "--insecure-policy"]);
    skopeo.arg(format!("oci:{here}/image"));
    skopeo.arg(format!("docker-archive:{}:{SANDBOX}", archive.display()));
    tools::succeed(&mut skopeo).await?;
    let mut import = ctr(dir);
    import.args(["images", "import"]).arg(archive);
    tools::succeed(&mut import.into()).await?;
    Ok(server)
}

/// A command of containerd's client.
fn ctr(dir: &Path) -> Command {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(dir.join("containerd.sock")).args(["--namespace", "k8s.io"]);
    command
}

/// The kubelet's providers: each is asked about one repository.
fn providers(cluster: &Cluster, dir: &Path, registries: &Registries) -> Outcome<()> {
    let bin = dir.join("bin");
    fs::create_dir(&bin)?;
    for name in ["keyward-provider-docker", "keyward-provider-token"] {
        symlink(cluster.tools.own("keyward"), bin.join(name))?;
    }
    let node = "keyward-provider-node";
    symlink(cluster.tools.own(node), bin.join(node))?;
    for name in ["keyward-exchange", "keyward-ecr", "keyward-gar"] {
        symlink(cluster.tools.own("keyward-providers"), bin.join(name))?;
    }
    for name in ["failing", "hanging", "gone"] {
        fs::copy(Tools::file(&format!("plugins/{name}.sh")), bin.join(name))?;
    }
    let behind = dir.join("bin-behind-node");
    fs::create_dir(&behind)?;
    fs::copy(Tools::file("plugins/ecr-creds.sh"), behind.join("ecr-creds"))?;
    symlink(cluster.tools.own("keyward"), behind.join("keyward-provider-docker"))?;
    let (passwords, tokens) = (&registries.passwords, &registries.tokens);
    let provider = |name: &str, image: String, more: Value| {
        let mut provider = json!({
            "name": name,
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "matchImages": [image],
            "defaultCacheDuration": "0s",
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut provider, more) {
            all.extend(more);
        }
        provider
    };
    // Not cached, so that a step never gets the login of the one before.
    let docker = json!({ "args": ["--config", dir.join("docker.json"), "--cache-for", "1ms"] });
    let node = json!({ "args": [
        "--config", dir.join("node.yaml"),
        "--bin-dir", behind,
        "--state", dir.join("node-state"),
        "--metrics", dir.join("node.prom"),
    ] });
    let token = json!({ "tokenAttributes": {
        "serviceAccountTokenAudience": AUDIENCE,
        "cacheType": "Token",
        "requireServiceAccount": true,
    } });
    let services = &registries.services;
    let exchange = json!({
        "args": [
            format!("--token-url={services}/exchange"),
            format!("--registry={passwords}"),
            format!("--username={USER}"),
        ],
        "tokenAttributes": token["tokenAttributes"],
    });
    let ecr = json!({ "env": [
        { "name": "AWS_ENDPOINT_URL_ECR", "value": services },
        { "name": "AWS_ACCESS_KEY_ID", "value": outside::ACCESS_KEY },
        { "name": "AWS_SECRET_ACCESS_KEY", "value": outside::SECRET_KEY },
    ] });
    let gar = json!({ "env": [
        { "name": "GCE_METADATA_HOST", "value": services.trim_start_matches("http://") },
    ] });
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1",
        "kind": "CredentialProviderConfig",
        "providers": [
            provider("keyward-exchange", format!("{passwords}/exchange"), exchange),
            provider("keyward-ecr", CLOUDS[0].to_owned(), ecr),
            provider("keyward-gar", CLOUDS[1].to_owned(), gar),
            provider("keyward-provider-docker", format!("{passwords}/docker"), docker),
            provider("keyward-provider-token", format!("{tokens}/token"), token),
            provider("keyward-provider-node", format!("{passwords}/node"), node),
            provider("failing", format!("{passwords}/failing"), json!({})),
            provider("hanging", format!("{passwords}/hanging"), json!({})),
            provider("gone", format!("{passwords}/gone"), json!({})),
        ],
    });
    config::private(&dir.join("docker.json"), &registries.docker_config(PASSWORD).to_string())?;
    config::private(&dir.join("providers.json"), &config.to_string())
}

/// The providers that the kubelet has unless told otherwise.
fn own_providers(dir: &Path) -> ProviderFlags {
    ProviderFlags { config: dir.join("providers.json"), bin_dir: dir.join("bin") }
}

/// Writes the kubelet's files.
fn settings(cluster: &Cluster, dir: &Path) -> Outcome<()> {
    let user = cluster.authority.client(&format!("system:node:{NAME}")).group("system:nodes");
    let user = config::certificate(&user.issue()?);
    let kubeconfig = config::text(&cluster.address, cluster.authority.pem(), &user);
    config::private(&dir.join("kubelet.conf"), &kubeconfig)?;
    let settings = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": false,
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failSwapOn": false,
        // By default the kubelet refuses pulls beyond five a second.
        "registryPullQPS": 0,
        "containerRuntimeEndpoint": format!("unix://{}", dir.join("containerd.sock").display()),
        "authentication": { "anonymous": { "enabled": false }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        // Nobody but the API server would come, and the steps do not need it to.
        "address": "127.0.0.1",
        "port": free_port()?,
        "healthzPort": 0,
        "podLogsDir": dir.join("pod-logs"),
        "volumePluginDir": dir.join("volume-plugins"),
        // A nearly full disk of the developer's is none of our business.
        "evictionHard": { "memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%" },
        "imageGCHighThresholdPercent": 100,
    });
    Ok(fs::write(dir.join("kubelet.json"), settings.to_string())?)
}

/// Starts the kubelet in the namespaces of containerd, so that both see the volumes that it mounts.
fn kubelet(
    cluster: &Cluster,
    dir: &Path,
    containerd: &Server,
    providers: &ProviderFlags,
) -> Outcome<Server> {
    // `unshare` is in the namespaces that it was started in; its child is in the new ones.
    let pid = containerd.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let child = children.split_whitespace().next().ok_or("containerd has ended")?;
    let mut command = Command::new("nsenter");
    command.args(["--target", child, "--mount", "--pid", "--", "sh", "-c", KUBELET]);
    command.arg(cluster.tools.kubernetes("kubelet"));
    command.arg("--config").arg(dir.join("kubelet.json"));
    command.arg("--kubeconfig").arg(dir.join("kubelet.conf"));
    command
        .arg("--root-dir")
        .arg(dir.join("kubelet"))
        .arg("--cert-dir")
        .arg(dir.join("kubelet-tls"));
    command.args(["--hostname-override", NAME, "--v=2"]);
    command.arg("--image-credential-provider-config").arg(&providers.config);
    command.arg("--image-credential-provider-bin-dir").arg(&providers.bin_dir);
    Server::start("kubelet", &command, dir)
}

/// A port that nobody uses just now.
pub fn free_port() -> Outcome<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
