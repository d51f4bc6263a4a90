//! The processes of the control plane, and what they are told.

use std::{fs, net::TcpListener, path::Path, process::Command, time::Duration};

use crate::{Outcome, child::Server, tools::Tools};

/// How long the API server may take to be ready on a busy machine.
pub const READY: Duration = Duration::from_secs(300);

/// Starts the store; its address.
pub async fn etcd(folder: &Path, servers: &mut Vec<Server>) -> Outcome<String> {
    // The address is told on the command line, so another program may take the port in between.
    for _ in 0..3 {
        let (client, peer) = (address("http")?, address("http")?);
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(folder.join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}"), "--unsafe-no-fsync"]);
        let mut server = Server::start("etcd", &command, folder)?;
        if listens(&client, &mut server).await? {
            servers.insert(0, server);
            return Ok(client);
        }
        let _ = fs::remove_dir_all(folder.join("etcd"));
    }
    Err("etcd found no port".into())
}

/// Starts an API server with this name and these arguments; its address.
pub async fn api(
    tools: &Tools,
    folder: &Path,
    store: &str,
    (name, args): (&str, &[&str]),
    servers: &mut Vec<Server>,
) -> Outcome<String> {
    for _ in 0..3 {
        let address = address("https")?;
        let port = address.rsplit(':').next().unwrap_or_default().to_owned();
        let mut command = Command::new(tools.kubernetes("kube-apiserver"));
        command.args(API).args(["--etcd-servers", store, "--secure-port", &port]);
        for (flag, file) in API_FILES {
            command.arg(flag).arg(folder.join(file));
        }
        // Last, because of a flag given twice the last one counts.
        command.args(args);
        let mut server = Server::start(name, &command, folder)?;
        if listens(&address, &mut server).await? {
            servers.insert(0, server);
            return Ok(address);
        }
    }
    Err("kube-apiserver found no port".into())
}

/// The scheduler's command, with this kubeconfig.
pub fn scheduler(tools: &Tools, kubeconfig: &Path) -> Command {
    let mut command = Command::new(tools.kubernetes("kube-scheduler"));
    command.args(["--leader-elect=false", "--secure-port=0"]).arg("--kubeconfig").arg(kubeconfig);
    command
}

/// The controller manager's command, with this kubeconfig.
pub fn manager(tools: &Tools, folder: &Path, kubeconfig: &Path) -> Command {
    let mut command = Command::new(tools.kubernetes("kube-controller-manager"));
    command.args(MANAGER).arg("--kubeconfig").arg(kubeconfig);
    for (flag, file) in MANAGER_FILES {
        command.arg(flag).arg(folder.join(file));
    }
    command
}

/// Waits until somebody listens; not, if the process ended because its port was taken.
async fn listens(address: &str, server: &mut Server) -> Outcome<bool> {
    let place = address.rsplit('/').next().unwrap_or_default();
    let connect = async {
        loop {
            if tokio::net::TcpStream::connect(place).await.is_ok() {
                return Ok(true);
            }
            if let Err(error) = server.alive() {
                let taken = error.to_string().contains("address already in use");
                return if taken { Ok(false) } else { Err(error) };
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(READY, connect).await.map_err(|_| format!("nobody listens at {place}"))?
}

/// An address whose port nobody uses just now.
fn address(scheme: &str) -> Outcome<String> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(format!("{scheme}://127.0.0.1:{port}"))
}

const API: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    "--service-cluster-ip-range=10.0.0.0/24",
    "--authorization-mode=Node,RBAC",
    "--authentication-token-webhook-version=v1",
    "--authentication-token-webhook-cache-ttl=1s",
    "--enable-bootstrap-token-auth",
    // It asks for a watch's progress, which Debian's etcd does not tell.
    "--feature-gates=SizeBasedListCostEstimate=false",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--kubelet-preferred-address-types=InternalIP",
];

const API_FILES: &[(&str, &str)] = &[
    ("--cert-dir", "."),
    ("--client-ca-file", "ca.crt"),
    ("--tls-cert-file", "server.crt"),
    ("--tls-private-key-file", "server.key"),
    ("--token-auth-file", "tokens.csv"),
    ("--authentication-config", "login.json"),
    ("--authentication-token-webhook-config-file", "reviewer.conf"),
    ("--service-account-signing-key-file", "accounts.key"),
    ("--service-account-key-file", "accounts.pub"),
    ("--audit-policy-file", "audit.json"),
    ("--audit-log-path", "audit.log"),
    ("--kubelet-certificate-authority", "kubelets.crt"),
    ("--kubelet-client-certificate", "kubelet-client.crt"),
    ("--kubelet-client-key", "kubelet-client.key"),
];

const MANAGER: &[&str] = &[
    "--leader-elect=false",
    "--secure-port=0",
    "--use-service-account-credentials",
    "--controllers=certificatesigningrequest-signing-controller,certificatesigningrequest-approving-controller,\
     serviceaccount-controller,root-ca-certificate-publisher-controller,namespace-controller,\
     garbage-collector-controller,token-cleaner-controller,bootstrap-signer-controller,\
     daemonset-controller,job-controller",
];

const MANAGER_FILES: &[(&str, &str)] = &[
    ("--cluster-signing-cert-file", "ca.crt"),
    ("--cluster-signing-key-file", "ca.key"),
    ("--service-account-private-key-file", "accounts.key"),
    ("--root-ca-file", "ca.crt"),
];
