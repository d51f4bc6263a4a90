//! nginx as a server and as a reverse proxy, `kubectl proxy` and our proxy, each a process that ends with us.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use keyward_testing::authority::Authority;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};

use crate::{
    load::Peer,
    rows::{self, keyward},
};

/// Everybody who is asked.
pub struct Scene {
    pub direct: Peer,
    /// Or why it is not there.
    pub kubectl: Result<Peer, String>,
    pub ours: Peer,
    /// nginx before nginx, with TLS on both sides.
    pub nginx: Peer,
    _running: Vec<Running>,
    _folder: tempfile::TempDir,
}

/// A process that ends when this is dropped.
pub struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Scene {
    pub fn open() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let path = folder.path();
        let authority = Authority::new("bench").map_err(|e| e.to_string())?;
        let (server, port) = nginx(path, &authority, "server", &site(path))?;
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "contexts": [{ "name": "bench", "context": { "cluster": "bench", "user": "bench" } }],
            "clusters": [{ "name": "bench", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": STANDARD.encode(authority.pem()),
            } }],
            "users": [{ "name": "bench", "user": { "token": "bench" } }],
        });
        let kubeconfig = path.join("config");
        fs::write(&kubeconfig, config.to_string()).map_err(|e| e.to_string())?;
        let (kubectl, kubectl_peer) = match kubectl(&kubeconfig) {
            Ok((running, peer)) => (Some(running), Ok(peer)),
            Err(missing) => (None, Err(missing)),
        };
        let mut command = Command::new(keyward());
        command.args(["proxy", "--kubeconfig"]).arg(&kubeconfig);
        command.env("XDG_RUNTIME_DIR", path).env("KEYWARD_AGENT", "off").stdout(Stdio::null());
        let (ours, our_peer) = proxy(&mut command)?;
        let (front, front_peer) = reverse_proxy(path, &authority, "127.0.0.1", port)?;
        let direct = Peer {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            tls: Some((settings(authority.pem().as_bytes(), None)?, name("127.0.0.1")?)),
            token: None,
            pid: server.0.id(),
        };
        Ok(Self {
            direct,
            kubectl: kubectl_peer,
            ours: our_peer,
            nginx: front_peer,
            _running: [server, ours, front].into_iter().chain(kubectl).collect(),
            _folder: folder,
        })
    }
}

/// The server: a small object and a big file.
fn site(folder: &Path) -> String {
    format!(
        "root {}; location /small {{ default_type application/json; return 200 '{SMALL}'; }}",
        folder.display()
    )
}

/// nginx with TLS before the server with TLS of this name and port, as people set it up: connections to the server are kept.
pub fn reverse_proxy(
    folder: &Path,
    authority: &Authority,
    server: &str,
    port: u16,
) -> Result<(Running, Peer), String> {
    fs::write(folder.join("ca.pem"), authority.pem()).map_err(|e| e.to_string())?;
    let root = folder.display();
    let forward = format!(
        "location / {{ proxy_pass https://server; proxy_http_version 1.1; proxy_set_header Connection '';
      proxy_set_header Authorization 'Bearer good'; proxy_ssl_trusted_certificate {root}/ca.pem;
      proxy_ssl_verify on; proxy_ssl_name {server}; proxy_read_timeout 1h; proxy_buffering off; }}
  }}
  upstream server {{ server 127.0.0.1:{port}; keepalive 128;"
    );
    let (running, port) = nginx(folder, authority, "front", &forward)?;
    let peer = Peer {
        address: (Ipv4Addr::LOCALHOST, port).into(),
        tls: Some((settings(authority.pem().as_bytes(), None)?, name("127.0.0.1")?)),
        token: None,
        pid: running.0.id(),
    };
    Ok((running, peer))
}

/// nginx with TLS and HTTP/2, and a server of this content.
fn nginx(
    folder: &Path,
    authority: &Authority,
    called: &str,
    content: &str,
) -> Result<(Running, u16), String> {
    let identity = authority.server(&["127.0.0.1"]).map_err(|e| e.to_string())?;
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).map_err(|e| format!("{name}: {e}"))
    };
    write(&format!("{called}.pem"), identity.certificate_pem())?;
    write(&format!("{called}.key"), identity.key_pem())?;
    let big = fs::File::create(folder.join("big")).map_err(|e| e.to_string())?;
    big.set_len(1 << 30).map_err(|e| e.to_string())?;
    // nginx cannot be given a port of the system's choice: the one that was free a moment ago.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|e| e.to_string())?
        .port();
    let root = folder.display();
    write(
        &format!("{called}.conf"),
        &format!(
            "daemon off; master_process off; worker_processes 1; user root; worker_rlimit_nofile 20000;
pid {root}/{called}.pid; error_log {root}/{called}.log;
events {{ worker_connections 20000; }}
http {{
  access_log off; sendfile on; keepalive_requests 100000000; keepalive_timeout 1h;
  client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3;
  uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
  server {{
    listen 127.0.0.1:{port} ssl http2; http2_max_concurrent_streams 1000;
    ssl_certificate {root}/{called}.pem; ssl_certificate_key {root}/{called}.key;
    {content}
  }}
}}
"
        ),
    )?;
    let child = Command::new("nginx")
        .arg("-c")
        .arg(folder.join(format!("{called}.conf")))
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("nginx (Debian package `nginx-light`): {e}"))?;
    let running = Running(child);
    let begin = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if begin.elapsed() > Duration::from_secs(10) {
            let log = fs::read_to_string(folder.join(format!("{called}.log"))).unwrap_or_default();
            return Err(format!("nginx does not listen: {log}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok((running, port))
}

/// About as long as a small object.
const SMALL: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"0b6d7f0e-6a3c-4f7e-9d5e-0c8f5a0d7b11","resourceVersion":"12345","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"containers":[{"name":"main","image":"none"}]},"status":{"phase":"Running"}}"#;

fn kubectl(kubeconfig: &Path) -> Result<(Running, Peer), String> {
    let mut child = Command::new(rows::kubectl())
        .args(["proxy", "--port=0", "--kubeconfig"])
        .arg(kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("kubectl (Debian package `kubernetes-client`): {e}"))?;
    let stdout = child.stdout.take().ok_or("no stdout")?;
    let running = Running(child);
    let line = BufReader::new(stdout).lines().next().and_then(Result::ok).unwrap_or_default();
    let address = line.rsplit(' ').next().and_then(|word| word.parse().ok());
    let address = address.ok_or_else(|| format!("kubectl said `{line}`"))?;
    let peer = Peer { address, tls: None, token: None, pid: running.0.id() };
    Ok((running, peer))
}

/// Starts our proxy with this command, and returns when it is ready, with the peer for its first context.
pub fn proxy(command: &mut Command) -> Result<(Running, Peer), String> {
    let (running, config) = start_proxy(command)?;
    let peer = context(&config, 0, running.0.id())?;
    Ok((running, peer))
}

/// Starts our proxy with this command, and returns when it is ready, with its kubeconfig.
pub fn start_proxy(command: &mut Command) -> Result<(Running, Value), String> {
    let child = command.stderr(Stdio::piped()).spawn();
    let mut running = Running(child.map_err(|e| format!("{}: {e}", keyward().display()))?);
    let stderr = running.0.stderr.take().ok_or("no stderr")?;
    let line = BufReader::new(stderr).lines().next().and_then(Result::ok).unwrap_or_default();
    let written = line.split(' ').nth(2).ok_or_else(|| format!("the proxy said `{line}`"))?;
    let text = fs::read_to_string(written).map_err(|e| e.to_string())?;
    Ok((running, serde_json::from_str(&text).map_err(|e| e.to_string())?))
}

/// The peer for a context in the kubeconfig of our proxy with this process id.
pub fn context(config: &Value, number: usize, pid: u32) -> Result<Peer, String> {
    let named = |list: &str, name: &Value, key: &str| {
        let entries = config[list].as_array().into_iter().flatten();
        entries.clone().find(|entry| entry["name"] == *name).map(|entry| entry[key].clone())
    };
    let chosen = &config["contexts"][number]["context"];
    let (cluster, user) = (
        named("clusters", &chosen["cluster"], "cluster").ok_or("no cluster")?,
        named("users", &chosen["user"], "user").ok_or("no user")?,
    );
    let bytes = |value: &Value| {
        STANDARD.decode(value.as_str().unwrap_or_default()).map_err(|e| e.to_string())
    };
    let server = cluster["server"].as_str().unwrap_or_default().trim_start_matches("https://");
    let identity = (bytes(&user["client-certificate-data"])?, bytes(&user["client-key-data"])?);
    let settings = settings(&bytes(&cluster["certificate-authority-data"])?, Some(identity))?;
    let tls = Some((settings, name("127.0.0.1")?));
    Ok(Peer { address: address(server)?, tls, token: None, pid })
}

/// An address in words.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is no address"))
}

impl Running {
    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

/// A name in a certificate.
pub fn name(text: &str) -> Result<rustls::pki_types::ServerName<'static>, String> {
    text.to_owned().try_into().map_err(|_| format!("`{text}` is no name"))
}

/// Settings that trust this authority, for a client with this certificate and key.
pub fn settings(
    authority: &[u8],
    identity: Option<(Vec<u8>, Vec<u8>)>,
) -> Result<Arc<ClientConfig>, String> {
    let text = |error: rustls::pki_types::pem::Error| error.to_string();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority).map_err(text)?)
        .map_err(|e| e.to_string())?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots);
    Ok(Arc::new(match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(&certificate).map_err(text)?],
                PrivateKeyDer::from_pem_slice(&key).map_err(text)?,
            )
            .map_err(|e| e.to_string())?,
    }))
}
