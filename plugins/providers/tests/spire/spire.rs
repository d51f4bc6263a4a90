//! The server and the agent of SPIRE, with everything they need in one directory.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use keyward_testing::authority::Authority;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The workload, which is this test.
pub(crate) const POD: &str = "spiffe://example.org/pod";

/// The agent, under a name that registrations can use.
pub(crate) const NODE: &str = "spiffe://example.org/node";

pub(crate) const ISSUER: &str = "https://spire.example";

/// How long SPIRE may take for a step, on a machine that does other things, too.
const LIMIT: Duration = Duration::from_mins(2);

const SERVER: &str = r#"
server {
  bind_address = "127.0.0.1"
  bind_port = "PORT"
  socket_path = "HOME/server.sock"
  trust_domain = "example.org"
  data_dir = "HOME/server"
  jwt_issuer = "ISSUER"
}
plugins {
  DataStore "sql" {
    plugin_data {
      database_type = "sqlite3"
      connection_string = "HOME/datastore.sqlite3"
    }
  }
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data {} }
  UpstreamAuthority "disk" {
    plugin_data {
      cert_file_path = "HOME/root.pem"
      key_file_path = "HOME/root.key"
    }
  }
}
"#;

const AGENT: &str = r#"
agent {
  server_address = "127.0.0.1"
  server_port = "PORT"
  socket_path = "HOME/agent.sock"
  trust_domain = "example.org"
  trust_bundle_path = "HOME/bundle.pem"
  data_dir = "HOME/agent"
  join_token = "TOKEN"
  log_level = "DEBUG"
}
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data {} }
  WorkloadAttestor "unix" { plugin_data {} }
}
"#;

/// A running SPIRE. It ends when this is dropped.
pub(crate) struct Spire {
    agent: Option<Daemon>,
    _server: Daemon,
    // Goes last, when nobody writes into it.
    directory: TempDir,
}

impl Spire {
    /// Starts a server whose root is this authority, and an agent that joins it.
    pub(crate) fn start(authority: &Authority) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let fill = |text: &str| {
            text.replace("PORT", &port.to_string())
                .replace("HOME", home.to_str().unwrap())
                .replace("ISSUER", ISSUER)
        };
        fs::write(home.join("root.pem"), authority.pem()).unwrap();
        fs::write(home.join("root.key"), authority.key_pem()).unwrap();
        fs::write(home.join("server.conf"), fill(SERVER)).unwrap();
        let server = Daemon::start("spire-server", &home.join("server.conf"));
        // One for agents and one for administrators, in any order.
        for _ in 0..2 {
            server.wait_for(&["Starting Server APIs"]);
        }

        let bundle = admin(home, &["bundle", "show"], &[]);
        fs::write(home.join("bundle.pem"), bundle).unwrap();
        let token = admin(home, &["token", "generate"], &["-spiffeID", NODE]);
        let token = token.trim().strip_prefix("Token: ").unwrap();
        fs::write(home.join("agent.conf"), fill(AGENT).replace("TOKEN", token)).unwrap();
        let agent = Daemon::start("spire-agent", &home.join("agent.conf"));
        agent.wait_for(&["Starting Workload and SDS APIs"]);
        Self { agent: Some(agent), _server: server, directory }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The address of the Workload API.
    pub(crate) fn workload_api(&self) -> String {
        format!("unix://{}", self.directory().join("agent.sock").display())
    }

    pub(crate) fn agent(&self) -> &Daemon {
        self.agent.as_ref().unwrap()
    }

    pub(crate) fn stop_agent(&mut self) {
        self.agent = None;
    }

    /// What a command of the server's administrator prints.
    pub(crate) fn admin(&self, command: &[&str], args: &[&str]) -> String {
        admin(self.directory(), command, args)
    }

    /// What SPIRE's own verifier says about a token.
    pub(crate) fn validate(&self, token: &str, audience: &str) -> String {
        let output = Command::new(program("spire-agent"))
            .args(["api", "validate", "jwt", "-timeout", "60s", "-socketPath"])
            .arg(self.directory().join("agent.sock"))
            .args(["-audience", audience, "-svid", token])
            .output()
            .unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }
}

fn admin(home: &Path, command: &[&str], args: &[&str]) -> String {
    let output = Command::new(program("spire-server"))
        .args(command)
        .arg("-socketPath")
        .arg(home.join("server.sock"))
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Where `cargo xtask spire` has put it.
fn program(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_keyward-providers")).ancestors().nth(2).unwrap();
    let program = target.join("judges/spire").join(name);
    assert!(program.is_file(), "`{name}` does not exist: `cargo xtask spire` builds it, with Go");
    program
}

/// A running program of SPIRE's, and what it logs.
pub(crate) struct Daemon {
    child: Child,
    log: Receiver<String>,
}

impl Daemon {
    fn start(name: &str, config: &Path) -> Self {
        let mut child = Command::new(program(name))
            .args(["run", "-config"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (send, log) = mpsc::channel();
        // Everything it logs is read, so that it never waits for us.
        std::thread::spawn(move || lines.for_each(|line| drop(send.send(line))));
        Self { child, log }
    }

    /// Waits until a line of the log has all of these words.
    pub(crate) fn wait_for(&self, words: &[&str]) {
        let (end, mut seen) = (Instant::now() + LIMIT, String::new());
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let Ok(line) = self.log.recv_timeout(left) else {
                panic!("SPIRE does not log {words:?}:\n{seen}");
            };
            if words.iter().all(|word| line.contains(word)) {
                return;
            }
            seen += &line;
            seen.push('\n');
        }
    }

    /// Lets it do nothing more, though it keeps its sockets.
    pub(crate) fn freeze(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
