//! A login as a client would start it: a home, a browser, perhaps an agent.

use std::{
    fs,
    io::Read as _,
    os::unix::{fs::DirBuilderExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use keyward_agent::{Address, End, Server, Settings, Stopper};
use keyward_process::clock::{SharedClock, SystemClock};
use serde_json::Value;
use tempfile::TempDir;

/// The surroundings of a login.
pub(crate) struct Stage {
    dir: TempDir,
    agent: Option<Agent>,
    name: &'static str,
    interactive: bool,
    variables: Vec<(&'static str, String)>,
}

/// How a login ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

struct Agent {
    stopper: Stopper,
    thread: Option<JoinHandle<End>>,
}

impl Stage {
    /// Without an agent, started by a client that forbids prompts.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        fs::DirBuilder::new().mode(0o700).create(run).unwrap();
        Self { dir, agent: None, name: "keyward-oidc", interactive: false, variables: Vec::new() }
    }

    /// With an agent.
    pub(crate) fn with_agent() -> Self {
        Self::with_agent_at(Arc::new(SystemClock))
    }

    /// With an agent that goes by this clock.
    pub(crate) fn with_agent_at(clock: SharedClock) -> Self {
        let mut stage = Self::new();
        let directory = stage.path("run");
        let address = Address { socket: stage.socket(), directory };
        let settings = Settings::new(address, stage.path("entries"), clock);
        let server = Server::bind(settings).unwrap();
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(|| server.run().unwrap()));
        stage.agent = Some(Agent { stopper, thread });
        stage
    }

    /// Started under another name.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Started by a client that allows prompts.
    pub(crate) fn interactive(mut self) -> Self {
        self.interactive = true;
        self
    }

    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// A path of this stage.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("run/agent.sock")
    }

    /// The flag for curl as the browser. What it shows in the end is [`Stage::page`].
    pub(crate) fn browser(&self) -> String {
        let (jar, page) = (self.path("jar"), self.path("page"));
        format!(
            "--browser-command=curl --silent --show-error --insecure --location --cookie-jar {jar} --cookie {jar} \
             --output {page}",
            jar = jar.display(),
            page = page.display()
        )
    }

    /// The page that the browser ended at. It may still be reading the page when the login has ended; curl writes its
    /// cookies last.
    pub(crate) fn page(&self) -> String {
        let begin = Instant::now();
        loop {
            let ended = self.path("jar").exists();
            let page = fs::read_to_string(self.path("page")).unwrap_or_default();
            if ended || page.trim_end().ends_with("</html>") {
                return page;
            }
            assert!(begin.elapsed() < Duration::from_mins(1), "the browser has not ended: {page}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The command of a login; nothing of this process's environment is in it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyward-providers"));
        // A test whose browser does not come back fails soon.
        command
            .arg0(self.name)
            .arg("--authentication-timeout-sec=30")
            .args(args)
            .env_clear()
            .current_dir(self.dir.path());
        command.envs(self.environment());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The variables of a login.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let info = format!(
            r#"{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{{"interactive":{}}}}}"#,
            self.interactive
        );
        let mut variables = vec![
            ("HOME", text(self.dir.path())),
            ("PATH", std::env::var("PATH").unwrap()),
            ("XDG_RUNTIME_DIR", text(&self.path("run"))),
            ("KUBERNETES_EXEC_INFO", info),
        ];
        match self.agent {
            Some(_) => variables.push(("KEYWARD_AGENT_SOCK", text(&self.socket()))),
            None => variables.push(("KEYWARD_AGENT", "off".to_owned())),
        }
        variables.extend(self.variables.iter().cloned());
        variables
    }

    /// Starts a login.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Runs a login to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.start(args))
    }

    /// Runs a login that has to work, and returns the claims of its token.
    pub(crate) fn claims(&self, args: &[&str]) -> Value {
        self.run(args).claims()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Outcome {
    /// Waits for a login.
    pub(crate) fn of(mut child: Child) -> Self {
        let mut stderr = String::new();
        let mut err = child.stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            err.read_to_string(&mut stderr).unwrap();
            stderr
        });
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        let code = child.wait().unwrap().code();
        Self { code, stdout, stderr: reader.join().unwrap() }
    }

    /// The token that was printed.
    pub(crate) fn token(&self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        let answer: Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(answer["kind"], "ExecCredential");
        assert!(answer["status"]["expirationTimestamp"].is_string(), "{answer}");
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    /// The claims of the token that was printed.
    pub(crate) fn claims(&self) -> Value {
        let token = self.token();
        let claims = token.split('.').nth(1).expect("a JWT");
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
    }

    /// The reason why nothing was printed.
    pub(crate) fn refusal(&self, code: i32) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        &self.stderr
    }
}
