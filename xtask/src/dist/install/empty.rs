//! The program in a root that has nothing but what it needs.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use keyward_testing::server::{Server, User};
use serde_json::json;

use super::{Stage, dns, expect, prints};
use crate::dist::write_error;

/// The server's name, which only the name server of this test knows.
const NAME: &str = "api.keyward.test";

/// Starts the rest in a network of its own, where the port of name servers is free.
pub(super) fn works(stage: &Stage<'_>) -> Result<(), String> {
    let program = stage.unpack_tarball("tarball")?.join("bin/keyward");
    let own = std::env::current_exe().map_err(|e| format!("where are we? {e}"))?;
    let mut inner = Command::new("unshare");
    inner.args(["--net", "--fork", "--kill-child"]).arg(own).arg("dist-empty-root");
    prints(inner.arg(program).arg(stage.directory.join("root"))).map(drop)
}

/// `cargo xtask dist-empty-root PROGRAM ROOT`: fills the root and uses the program in it.
pub fn run_empty_root(args: &[String]) -> Result<bool, String> {
    let [program, root] = args else {
        return Err("usage: dist-empty-root PROGRAM ROOT".to_owned());
    };
    prints(Command::new("ip").args(["link", "set", "lo", "up"]))?;
    dns::serve(NAME).map_err(|e| format!("cannot serve names: {e}"))?;
    let server = Server::setup().names(&[NAME]).start().map_err(|e| e.to_string())?;
    server.users().token("good", User::new("anna").group("dev"));
    let root = Root::fill(Path::new(program), root.into(), &server)?;

    expect(&root.prints("/config", &["get", "--raw", "/version"])?, "gitVersion")?;
    expect(&root.prints("/config", &["whoami"])?, "anna")?;
    // Names come from the name server, and from nowhere else.
    let wrong = root.prints("/wrong", &["get", "--raw", "/version"]);
    expect(&wrong.err().ok_or("a name that does not exist was found")?, "unknown.keyward.test")?;

    let before = server.recorder().all().len();
    let mut proxy = root.proxy()?;
    let outcome = ready(&mut proxy).and_then(|kubeconfig| {
        expect(&root.prints(&kubeconfig, &["get", "--raw", "/version"])?, "gitVersion")
    });
    let _ = proxy.kill();
    let _ = proxy.wait();
    outcome?;
    if server.recorder().all().len() == before {
        return Err("the proxy did not ask the server".to_owned());
    }
    Ok(true)
}

struct Root(PathBuf);

impl Root {
    /// The program, its libraries if it has any, a name server, an authority, two kubeconfigs, and a
    /// directory for what the proxy writes.
    fn fill(program: &Path, root: PathBuf, server: &Server) -> Result<Self, String> {
        let copy = |from: &Path, to: &str| {
            let place = root.join(to.trim_start_matches('/'));
            let parent = place.parent().unwrap_or(&root);
            fs::create_dir_all(parent).map_err(write_error(parent))?;
            fs::copy(from, &place).map(drop).map_err(write_error(&place))
        };
        copy(program, "keyward")?;
        // `ldd` fails for static programs.
        if let Ok(libraries) = prints(Command::new("ldd").arg(program)) {
            for path in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
                copy(Path::new(path), path)?;
            }
        }
        fs::create_dir_all(root.join("run")).map_err(write_error(&root))?;
        let write = |to: &str, text: &str| {
            let place = root.join(to);
            let parent = place.parent().unwrap_or(&root);
            fs::create_dir_all(parent).map_err(write_error(parent))?;
            fs::write(&place, text).map_err(write_error(&place))
        };
        write("etc/resolv.conf", "nameserver 127.0.0.1\n")?;
        write("etc/ssl/certs/ca-certificates.crt", server.authority().pem())?;
        let port = server.address().port();
        for (file, name) in [("config", NAME), ("wrong", "unknown.keyward.test")] {
            let config = json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "it",
                "clusters": [{ "name": "it", "cluster": { "server": format!("https://{name}:{port}") } }],
                "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
                "users": [{ "name": "it", "user": { "token": "good" } }],
            });
            write(file, &config.to_string())?;
        }
        Ok(Self(root))
    }

    fn keyward(&self, kubeconfig: &str, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(&self.0).args(["/keyward", "--kubeconfig", kubeconfig]).args(words);
        // chroot looks for itself, not for us.
        command
            .env_clear()
            .env("PATH", super::PATH)
            .env("HOME", "/")
            .env("XDG_RUNTIME_DIR", "/run");
        command
    }

    fn prints(&self, kubeconfig: &str, words: &[&str]) -> Result<String, String> {
        prints(&mut self.keyward(kubeconfig, words))
    }

    fn proxy(&self) -> Result<Child, String> {
        let mut command = self.keyward("/config", &["proxy"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().map_err(|e| format!("cannot start the proxy: {e}"))
    }
}

/// Waits until the proxy is ready; the kubeconfig that it wrote.
fn ready(proxy: &mut Child) -> Result<String, String> {
    let stderr = proxy.stderr.take().ok_or("the proxy has no stderr")?;
    let mut said = String::new();
    for line in BufReader::new(stderr).lines() {
        let line = line.map_err(|e| format!("cannot read what the proxy prints: {e}"))?;
        let ready = line.strip_prefix("ready ").and_then(|rest| rest.split_once(' '));
        if let Some((_, kubeconfig)) = ready {
            return Ok(kubeconfig.to_owned());
        }
        said += &line;
        said.push('\n');
    }
    Err(format!("the proxy ended:\n{said}"))
}
