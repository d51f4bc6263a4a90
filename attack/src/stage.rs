//! What an attack finds: a victim with a home and programs, and an attacker with a directory.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use keyward_testing::server::Server;
use serde_json::{Value, json};

use crate::{
    Failure,
    process::{Done, Running, tool, wait_until},
    untried,
};

/// Numbers that no user of the machine should have.
const VICTIM: u32 = 61_337;
const ATTACKER: u32 = 61_338;

/// The programs under attack; the last is this suite's own.
const PROGRAMS: &[&str] =
    &["keyward", "keyward-pkcs11", "docker-credential-keyward", "keyward-provider-docker"];

/// Longer than anything takes that does not hang.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// An attack's own directory: `bin` beside it, `home` of the victim and `logs` in it.
pub struct Stage {
    pub dir: PathBuf,
    pub bin: PathBuf,
    pub attempts: usize,
    pub short: bool,
    root: bool,
}

impl Stage {
    pub fn new(dir: &Path, attempts: usize, short: bool) -> Result<Self, Failure> {
        let bin = dir.parent().unwrap_or(dir).join("bin");
        let root = rustix::process::geteuid().is_root();
        let stage = Self { dir: dir.to_owned(), bin, attempts, short, root };
        fs::create_dir_all(dir)?;
        mode(dir, 0o755)?;
        fs::create_dir(stage.dir.join("logs"))?;
        for name in ["home", "home/run", "home/bin"] {
            fs::create_dir(stage.dir.join(name))?;
            stage.give(&stage.dir.join(name), 0o755)?;
        }
        mode(&stage.home("run"), 0o700)?;
        Ok(stage)
    }

    /// A path in the victim's home.
    pub fn home(&self, name: &str) -> PathBuf {
        self.dir.join("home").join(name)
    }

    /// The victim's user id.
    pub fn victim(&self) -> u32 {
        if self.root { VICTIM } else { rustix::process::geteuid().as_raw() }
    }

    /// The attacker's user id, where we may be somebody else.
    pub fn attacker(&self) -> Result<u32, Failure> {
        if self.root {
            return Ok(ATTACKER);
        }
        untried("it takes a second user id: run as root")
    }

    /// A directory of the attacker's, outside of the victim's home.
    pub fn lair(&self) -> Result<PathBuf, Failure> {
        let attacker = self.attacker()?;
        let path = self.dir.join("attacker");
        if !path.exists() {
            fs::create_dir(&path)?;
            mode(&path, 0o755)?;
            chown(&path, Some(attacker), Some(attacker))?;
        }
        Ok(path)
    }

    /// Makes a file or directory the victim's, with this mode.
    pub fn give(&self, path: &Path, bits: u32) -> Result<(), Failure> {
        mode(path, bits)?;
        if self.root {
            chown(path, Some(VICTIM), Some(VICTIM))?;
        }
        Ok(())
    }

    /// Makes it the attacker's.
    pub fn take(&self, path: &Path, bits: u32) -> Result<(), Failure> {
        let attacker = self.attacker()?;
        mode(path, bits)?;
        Ok(chown(path, Some(attacker), Some(attacker))?)
    }

    /// A file in the victim's home.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, Failure> {
        let path = self.home(name);
        fs::write(&path, content)?;
        self.give(&path, 0o600)?;
        Ok(path)
    }

    /// A script of the victim's that can be executed.
    pub fn script(&self, name: &str, text: &str) -> Result<PathBuf, Failure> {
        let path = self.home("bin").join(name);
        fs::write(&path, text)?;
        self.give(&path, 0o755)?;
        Ok(path)
    }

    /// A directory in the victim's home.
    pub fn directory(&self, name: &str, bits: u32) -> Result<PathBuf, Failure> {
        let path = self.home(name);
        fs::create_dir_all(&path)?;
        self.give(&path, bits)?;
        Ok(path)
    }

    /// A program as somebody else, in the victim's home and with nothing but the usual variables.
    pub fn command(&self, program: &Path, who: u32) -> Command {
        let mut command = if self.root {
            let mut command = Command::new("setpriv");
            let id = who.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.join("home"))
            .env("XDG_RUNTIME_DIR", self.home("run"))
            // Attacks on the programs themselves; the agent has its own tests.
            .env("KEYWARD_AGENT", "off")
            .env("KUBECONFIG", self.home("config"))
            .current_dir(self.dir.join("home"));
        command
    }

    /// A program under attack, as the victim runs it.
    pub fn program(&self, name: &str, args: &[&str]) -> Command {
        let mut command = self.command(&self.bin.join(name), self.victim());
        command.args(args);
        command
    }

    /// `keyward` as the victim runs it.
    pub fn keyward(&self, args: &[&str]) -> Command {
        self.program("keyward", args)
    }

    /// A shell script that the victim runs; `$KEYWARD` is the program and `$BIN` its directory.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = self.command(Path::new("/bin/sh"), self.victim());
        command.args(["-c", script]);
        command.env("KEYWARD", self.bin.join("keyward")).env("BIN", &self.bin);
        command
    }

    /// A role of this suite's own program, as this user.
    pub fn role(&self, who: u32, args: &[&str]) -> Command {
        let mut command = self.command(&self.bin.join("attack"), who);
        command.arg("role").args(args);
        command
    }

    pub fn start(&self, command: &mut Command) -> Result<Running, Failure> {
        Running::start(command, &self.dir.join("logs"))
    }

    pub fn run(&self, command: &mut Command) -> Result<Done, Failure> {
        self.run_for(command, PATIENCE)
    }

    pub fn run_for(&self, command: &mut Command, limit: Duration) -> Result<Done, Failure> {
        Ok(self.start(command)?.wait(limit))
    }

    /// A proxy of the victim's that is ready, with these arguments.
    pub fn proxy(&self, args: &[&str]) -> Result<Proxy, Failure> {
        self.proxy_of(self.keyward(&[]), args)
    }

    /// A proxy from a prepared command.
    pub fn proxy_of(&self, mut command: Command, args: &[&str]) -> Result<Proxy, Failure> {
        let mut running = self.start(command.arg("proxy").args(args))?;
        let mut ready = None;
        wait_until(PATIENCE, || {
            let said = running.stderr();
            let line = said.lines().find_map(|line| line.strip_prefix("ready "));
            ready = line.and_then(|line| line.split_once(' ')).map(own);
            ready.is_some() || !running.alive()
        });
        match ready {
            Some((url, kubeconfig)) => Ok(Proxy { running, url, kubeconfig: kubeconfig.into() }),
            None => untried(format!("no proxy: {}", running.stderr())),
        }
    }

    /// A user of a kubeconfig whose plugin is this script of the victim's.
    pub fn exec(&self, script: &str) -> Result<Value, Failure> {
        let path = self.script("plugin", script)?;
        Ok(exec(&path, &[]))
    }

    /// A library that leaves a mark when it is loaded: `marker`, in the victim's home.
    pub fn library(&self, path: &Path, marker: &Path) -> Result<(), Failure> {
        let source = self.dir.join("library.c");
        let text = format!(
            "#include <fcntl.h>\n#include <unistd.h>\n\
             __attribute__((constructor)) static void mark(void) {{\n\
             int f = open(\"{}\", O_WRONLY | O_CREAT | O_APPEND, 0644);\n\
             if (write(f, \"loaded\\n\", 7) == 7) close(f);\n}}\n",
            marker.display()
        );
        fs::write(&source, text)?;
        let (out, source) = (path.display().to_string(), source.display().to_string());
        tool("cc", "gcc", &["-shared", "-fPIC", "-o", &out, &source]).map(drop)
    }
}

fn own((one, two): (&str, &str)) -> (String, String) {
    (one.to_owned(), two.trim_end().to_owned())
}

/// A running proxy.
pub struct Proxy {
    pub running: Running,
    pub url: String,
    pub kubeconfig: PathBuf,
}

/// A user with this plugin.
pub fn exec(command: &Path, args: &[&str]) -> Value {
    json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": command,
        "args": args,
        "interactiveMode": "Never",
    } })
}

/// A kubeconfig with one context for a server that nobody asks.
pub fn kubeconfig(user: &Value) -> String {
    cluster(&json!({ "server": "https://127.0.0.1:1" }), user)
}

/// A kubeconfig with one context.
pub fn cluster(cluster: &Value, user: &Value) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "test", "user": user }],
    })
    .to_string()
}

/// What a plugin prints, in a script.
pub fn prints(token: &str) -> String {
    format!(
        "printf '%s' '{{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\
         \"status\":{{\"token\":\"{token}\"}}}}'\n"
    )
}

/// A server that takes the token `good`.
pub fn server() -> Result<Server, Failure> {
    let server = Server::setup().start()?;
    server.users().token("good", keyward_testing::server::User::new("anna"));
    Ok(server)
}

pub fn mode(path: &Path, bits: u32) -> Result<(), Failure> {
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(bits))?)
}

/// Copies the programs to where every user can execute them.
pub fn gather(binary: &Path, bin: &Path) -> Result<(), String> {
    let failed = |what: &Path| {
        let what = what.display().to_string();
        move |error: std::io::Error| format!("cannot copy `{what}`: {error}")
    };
    fs::create_dir(bin).map_err(failed(bin))?;
    fs::set_permissions(bin, fs::Permissions::from_mode(0o755)).map_err(failed(bin))?;
    let from = binary.parent().unwrap_or(Path::new("."));
    let own = std::env::current_exe().map_err(failed(bin))?;
    let mut programs: Vec<(PathBuf, PathBuf)> =
        PROGRAMS.iter().map(|name| (from.join(name), bin.join(name))).collect();
    binary.clone_into(&mut programs[0].0);
    programs.push((own, bin.join("attack")));
    for (source, target) in programs {
        fs::copy(&source, &target).map_err(failed(&source))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).map_err(failed(&target))?;
    }
    Ok(())
}
