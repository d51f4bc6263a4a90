//! What `keyward-provider-node` adds to a provider that the kubelet would otherwise start itself.

use std::{
    fs::{self, DirBuilder, File},
    io::{BufRead as _, BufReader},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    rc::Rc,
    time::Instant,
};

use serde_json::json;

use super::startup::keyward;
use crate::measure::{Bar, Row, Variant};

/// Starts in one round; the figure is their mean.
const STARTS: u32 = 40;

const ALONE: &str = "the provider alone";
const WARM: &str = "ours, with a warm agent";
/// The variable with the socket of the node's agent.
const SOCKET: &str = "KEYWARD_SYSTEM_AGENT_SOCK";
const HOST: &str = "registry.example:5000";

/// A directory with a provider, its configuration and a request.
struct Node {
    dir: tempfile::TempDir,
    agent: Option<Child>,
}

/// One request to a provider, by itself and behind the bridge, without and with an agent that has the answer.
pub fn row() -> Row {
    let mut node = Node::new();
    node.start_agent();
    let node = Rc::new(node);
    let (cold, warm) = (Rc::clone(&node), Rc::clone(&node));
    let alone = node.path("bin/provider");
    let args = [
        ("--config", "providers.json"),
        ("--bin-dir", "bin"),
        ("--state", "state"),
        ("--metrics", "keyward.prom"),
    ];
    let args: Vec<PathBuf> =
        args.iter().flat_map(|(flag, file)| [PathBuf::from(flag), node.path(file)]).collect();
    let more = args.clone();
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: ALONE, run: Box::new(move || node.ask(&mut Command::new(&alone))) },
            Variant {
                label: "ours",
                run: Box::new(move || cold.ask(cold.bridge(&args).env("KEYWARD_AGENT", "off"))),
            },
            Variant { label: WARM, run: Box::new(move || warm.ask(&mut warm.bridge(&more))) },
        ],
        bars: vec![
            Bar {
                promise: "keyward-provider-node adds at most 3 ms to a provider",
                judge: |r| (r.middle([ALONE, "ours"], |[alone, ours]| ours - alone), 3.0),
            },
            Bar {
                promise: "keyward-provider-node with a warm agent takes at most 1 ms longer than a provider",
                judge: |r| (r.middle([ALONE, WARM], |[alone, ours]| ours - alone), 1.0),
            },
        ],
    }
}

impl Node {
    fn new() -> Self {
        let node = Self { dir: tempfile::tempdir().expect("a temporary directory"), agent: None };
        let version = "credentialprovider.kubelet.k8s.io/v1";
        let answer = json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": version,
            "cacheKeyType": "Registry",
            "auth": { HOST: { "username": "puller", "password": "a-password" } },
        });
        fs::create_dir(node.path("bin")).expect("a directory");
        let provider = node.path("bin/provider");
        write(&provider, &format!("#!/bin/sh\nread -r request\necho '{answer}'\n"));
        fs::set_permissions(&provider, fs::Permissions::from_mode(0o755)).expect("a mode");
        let config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1",
            "kind": "CredentialProviderConfig",
            "providers": [{
                "name": "provider",
                "apiVersion": version,
                "matchImages": [HOST],
                "defaultCacheDuration": "1h",
            }],
        });
        write(&node.path("providers.json"), &config.to_string());
        let request = json!({
            "kind": "CredentialProviderRequest",
            "apiVersion": version,
            "image": format!("{HOST}/team/app"),
        });
        write(&node.path("request"), &format!("{request}\n"));
        // As it is shipped; `cargo xtask bench` builds it.
        let program = keyward().with_file_name("../exec/keyward-provider-node");
        symlink(program, node.path("keyward-provider-node")).expect("a link");
        node
    }

    /// Starts the node's agent, and returns when it listens.
    fn start_agent(&mut self) {
        DirBuilder::new().mode(0o700).create(self.path("run")).expect("a directory");
        let mut command = Command::new(keyward());
        command.args(["agent", "--system"]).env(SOCKET, self.path("run/agent.sock"));
        let mut agent =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("keyward");
        let mut said = String::new();
        let stderr = agent.stderr.take().expect("a pipe");
        BufReader::new(stderr).read_line(&mut said).expect("what the agent says");
        assert!(said.contains("listening"), "{said}");
        self.agent = Some(agent);
    }

    fn bridge(&self, args: &[PathBuf]) -> Command {
        let mut command = Command::new(self.path("keyward-provider-node"));
        command.args(args).env(SOCKET, self.path("run/agent.sock"));
        command
    }

    fn ask(&self, command: &mut Command) -> Result<f64, String> {
        ask(command, &self.path("request"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(agent) = &mut self.agent {
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
}

/// Milliseconds for one request, output thrown away.
fn ask(command: &mut Command, request: &Path) -> Result<f64, String> {
    let name = command.get_program().display().to_string();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let begin = Instant::now();
    for _ in 0..STARTS {
        let request = File::open(request).map_err(|e| format!("the request: {e}"))?;
        let status = command.stdin(request).status().map_err(|e| format!("`{name}`: {e}"))?;
        if !status.success() {
            return Err(format!("`{name}` ended with {status}"));
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e3 / f64::from(STARTS))
}
