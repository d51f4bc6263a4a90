//! A home with a plugin, registered as `keyward wrap` does, and its agent.

use std::{
    error::Error,
    ffi::OsString,
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use keyward_agent::registration::{Registration, Registrations};
use keyward_host::kubeconfig::{ApiVersion, Exec, InteractiveMode};
use keyward_process::surroundings::{Fixed, Surroundings};
use rustix::process::{Pid, Signal, kill_process};

pub(super) const VERSION: &str = "client.authentication.k8s.io/v1";

/// How long anything may take before it is called hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes down who runs it, takes a moment, and answers.
pub(super) const PLUGIN: &str = r#"here=$(dirname "$0")
read -r parent </proc/$PPID/comm
echo "$parent" >>"$here/runs"
sleep 0.05
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t0ken"}}'
"#;

pub(super) struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    /// With copies of the programs of its own, so that its processes can be told from others.
    pub(super) fn new(plugin: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let dir = tempfile::Builder::new().prefix("kw").tempdir()?;
        for name in ["run", "home", "plugin", "bin"] {
            fs::DirBuilder::new().mode(0o700).create(dir.path().join(name))?;
        }
        let scene = Self { dir };
        scene.install()?;
        fs::write(scene.path("plugin/plugin"), plugin)?;
        Ok(scene)
    }

    /// Puts the programs in place, or new ones in their place.
    pub(super) fn install(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let built = std::env::current_exe()?;
        for program in ["keyward", "keyward-agent", "keyward-exec"] {
            let (from, to) = (built.with_file_name(program), self.path("bin").join(program));
            let new = to.with_extension("new");
            fs::copy(&from, &new).map_err(|e| format!("cannot copy `{}`: {e}", from.display()))?;
            fs::rename(new, to)?;
        }
        Ok(())
    }

    /// Registers the plugin, for a server, with files that select an identity.
    pub(super) fn register(
        &self,
        server: &str,
        files: Vec<PathBuf>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let surroundings = Surroundings::fixed(Fixed {
            vars: self.vars().map(|(name, value)| (name.into(), value.into())).to_vec(),
            cwd: "/".into(),
            ..Fixed::default()
        });
        let exec = Exec {
            command: "sh".into(),
            args: vec![self.path("plugin/plugin").display().to_string()],
            api_version: ApiVersion::parse(VERSION),
            interactive_mode: InteractiveMode::Never,
            ..Exec::default()
        };
        let mut registration = Registration::new(&exec, &self.kubeconfig(), "ann", &surroundings)?;
        registration.identity_files = files;
        registration.server = server.into();
        registration.contexts = vec!["test".into()];
        let directory = Registrations::directory(&surroundings).ok_or("there is no home")?;
        Ok(Registrations::new(directory).add(&registration)?)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path("home/config")
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn vars(&self) -> [(&'static str, String); 3] {
        let path = |name: &str| self.path(name).display().to_string();
        [
            ("HOME", path("home")),
            ("XDG_RUNTIME_DIR", path("run")),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ]
    }

    /// A command in this scene.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().envs(self.vars()).current_dir("/").stdin(Stdio::null());
        command
    }

    /// What kubectl starts. Its parent is new too, as each kubectl is.
    pub(super) fn client(&self) -> Command {
        let mut command = self.command("/bin/sh");
        command.args(["-c", "\"$@\"; exit $?", "kubectl"]).arg(self.path("bin/keyward-exec"));
        command.args(["--", "sh"]).arg(self.path("plugin/plugin"));
        command.env("KUBERNETES_EXEC_INFO", request());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(super) fn runs(&self) -> usize {
        self.runners().lines().count()
    }

    /// Who ran the plugin, a line each.
    pub(super) fn runners(&self) -> String {
        fs::read_to_string(self.path("plugin/runs")).unwrap_or_default()
    }

    /// The processes of this scene that run one of its programs.
    pub(super) fn processes(&self, program: &str) -> Vec<Pid> {
        let wanted: OsString = self.path("bin").join(program).into();
        let wanted = [wanted.as_encoded_bytes(), b"\0"].concat();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id: &i32| {
            fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|words| words.starts_with(&wanted))
        })
        .filter_map(Pid::from_raw)
        .collect()
    }

    /// The agent's socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.path("run/keyward/agent.sock")
    }

    pub(super) fn agents(&self) -> Vec<Pid> {
        self.processes("keyward-agent")
    }

    /// Kills what runs one of its programs.
    pub(super) fn signal(&self, program: &str, signal: Signal) {
        for process in self.processes(program) {
            let _ = kill_process(process, signal);
        }
    }

    /// Ends the agent, and forgets its runs.
    pub(super) fn begin_anew(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut stop = self.command(self.path("bin/keyward"));
        let stopped = stop.args(["agent", "stop"]).output()?;
        if !stopped.status.success() {
            return Err(String::from_utf8_lossy(&stopped.stderr).into());
        }
        // Also one that nobody can reach any more.
        until("the agent has ended", || self.agents().is_empty())?;
        match fs::remove_file(self.path("plugin/runs")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.signal("keyward-agent", Signal::KILL);
    }
}

/// What kubectl tells a plugin.
pub(super) fn request() -> String {
    format!(
        r#"{{"kind":"ExecCredential","apiVersion":"{VERSION}","spec":{{"interactive":false}}}}"#
    )
}

/// The token that a client printed, or what it said instead.
pub(super) fn token(output: &Output) -> Result<String, String> {
    let read = serde_json::from_slice::<serde_json::Value>(&output.stdout);
    let token = read.ok().and_then(|read| read["status"]["token"].as_str().map(str::to_owned));
    token.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Waits for something that no event tells.
pub(super) fn until(
    what: &str,
    done: impl Fn() -> bool,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let begun = Instant::now();
    while !done() {
        if begun.elapsed() > PATIENCE {
            return Err(format!("it never came true that {what}").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
