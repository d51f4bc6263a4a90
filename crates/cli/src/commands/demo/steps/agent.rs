//! Processes that come one after another, with and without the agent.

use super::{Report, Scene};
use crate::failure::Failure;

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unused_async, reason = "steps are awaited")]
pub(super) async fn run(_scene: &Scene, report: &mut Report) -> Result<(), Failure> {
    report.leave_out(super::Promise::Agent, "the agent exists on Linux only")
}

#[cfg(target_os = "linux")]
pub(super) use linux::run;

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        ffi::OsString,
        fs,
        os::unix::fs::{DirBuilderExt as _, symlink},
        path::{Path, PathBuf},
        time::Duration,
    };

    use keyward_agent::{
        Address,
        registration::{Registration, Registrations},
    };
    use keyward_host::kubeconfig::{ApiVersion, Exec, InteractiveMode};
    use keyward_process::{
        runner::Invocation,
        surroundings::{Fixed, Surroundings},
    };
    use keyward_protocol::exec::{Request, Version};
    use serde_json::{Value, json};

    use super::{
        super::{Promise, Watch, count},
        Failure, Report, Scene,
    };
    use crate::{
        commands::{
            agent,
            demo::scene::{AGENT, printed, whoami_with},
        },
        output, signals,
    };

    const PROCESSES: usize = 10;
    /// How long the plugin takes at least. Those of clouds take half a second and more.
    const PLUGIN: &str = "0.1";
    /// How long one process may take.
    const BUDGET: Duration = Duration::from_secs(5);

    pub(in super::super) async fn run(scene: &Scene, report: &mut Report) -> Result<(), Failure> {
        let home = Home::new(scene)?;
        let alone = home.each(scene, None)?;
        // An agent that is switched off shares nothing.
        let agent = if scene.breaks(Promise::Agent) { "off" } else { "on" };
        let shared = home.each(scene, Some(agent))?;
        let who = match shared.tokens.first() {
            Some(token) => whoami_with(scene, token).await?,
            None => "nobody".to_owned(),
        };
        let (good, runs) = (shared.tokens.len(), shared.runs);
        report.see(
            Promise::Agent,
            good == PROCESSES && runs == 1 && who == AGENT && alone.runs == PROCESSES,
            format!(
                "{PROCESSES} processes that ran the plugin took {} ms; through the agent {} ms, its start included, and {good} got the credential of {} (by {})",
                alone.milliseconds,
                shared.milliseconds,
                count(runs, "plugin run"),
                home.words,
            ),
            json!({
                "processes": PROCESSES,
                "client": home.words,
                "without": { "milliseconds": alone.milliseconds, "pluginRuns": alone.runs },
                "with": { "milliseconds": shared.milliseconds, "pluginRuns": runs, "good": good },
                "user": who,
            }),
        )
    }

    /// A home of its own for the agent, with a runtime directory and a plugin that is registered in
    /// it. The agent ends with it.
    struct Home {
        path: PathBuf,
        vars: Vec<(OsString, OsString)>,
        /// What is started as `keyward-exec`.
        words: &'static str,
    }

    /// What ten processes did.
    struct Seen {
        /// The tokens that were equal.
        tokens: Vec<String>,
        runs: usize,
        milliseconds: f64,
    }

    impl Home {
        fn new(scene: &Scene) -> Result<Self, Failure> {
            let path = scene.folder().join("agent");
            for name in ["", "run", "bin"] {
                fs::DirBuilder::new().mode(0o700).create(path.join(name))?;
            }
            let program = scene.program.clone();
            let beside = program.with_file_name(keyward_exec::NAME);
            let installed = is_ours(&beside);
            let (target, words) = if installed {
                (beside, "`keyward-exec`")
            } else {
                (program.clone(), "this program, started as `keyward-exec`")
            };
            symlink(target, path.join("bin").join(keyward_exec::NAME))?;
            symlink(&program, path.join("bin/keyward"))?;
            let plugin = format!(
                "sleep {PLUGIN}\nexec {} demo-plugin --socket {} --account {AGENT}\n",
                quoted(&program),
                quoted(&scene.socket()),
            );
            fs::write(path.join("plugin"), plugin)?;
            let search = format!("{}:/usr/local/bin:/usr/bin:/bin", path.join("bin").display());
            let vars = vec![
                ("HOME".into(), path.clone().into()),
                ("XDG_RUNTIME_DIR".into(), path.join("run").into()),
                ("PATH".into(), search.into()),
            ];
            let home = Self { path, vars, words };
            home.register(scene)?;
            let address = home.address();
            signals::before_leaving(move || {
                let _ = agent::stop(&address);
            });
            Ok(home)
        }

        /// As `keyward wrap` does.
        fn register(&self, scene: &Scene) -> Result<(), Failure> {
            let surroundings = Surroundings::fixed(Fixed {
                vars: self.vars.clone(),
                cwd: "/".into(),
                ..Fixed::default()
            });
            let exec = Exec {
                command: "sh".to_owned(),
                args: vec![self.plugin()],
                api_version: ApiVersion::Known(Version::V1),
                interactive_mode: InteractiveMode::Never,
                ..Exec::default()
            };
            let registration = Registration::new(&exec, &scene.kubeconfig, AGENT, &surroundings)
                .map_err(Failure::failed)?;
            let directory = Registrations::directory(&surroundings)
                .ok_or_else(|| Failure::failed("the agent of the demo has no home"))?;
            Ok(Registrations::new(directory).add(&registration)?)
        }

        /// Starts ten, each by a shell of its own as each kubectl is a process of its own. They run
        /// the plugin, or the client of the agent with this `KEYWARD_AGENT`.
        fn each(&self, scene: &Scene, agent: Option<&str>) -> Result<Seen, Failure> {
            let before = scene.issuer.runs(AGENT);
            let watch = Watch::start();
            let mut tokens = Vec::new();
            for _ in 0..PROCESSES {
                tokens.push(self.token(agent)?);
            }
            let milliseconds = watch.millis();
            let runs = scene.issuer.runs(AGENT) - before;
            if let (Some(_), Some(first)) = (agent, tokens.first().cloned()) {
                tokens.retain(|token| *token == first);
            }
            Ok(Seen { tokens, runs, milliseconds })
        }

        fn token(&self, agent: Option<&str>) -> Result<String, Failure> {
            let (words, agent) = match agent {
                None => (vec![], "off"),
                Some(agent) => (vec![keyward_exec::NAME, "--"], agent),
            };
            let mut args: Vec<OsString> =
                ["-c", "\"$@\"; exit $?", "client"].map(Into::into).into();
            args.extend(words.into_iter().map(Into::into));
            args.extend(["sh".into(), self.plugin().into()]);
            let request = Request::new(Version::V1).to_json();
            let more = [("KUBERNETES_EXEC_INFO", request), ("KEYWARD_AGENT", agent.to_owned())];
            let mut invocation = Invocation::new("/bin/sh");
            invocation.args = args;
            invocation.env.clone_from(&self.vars);
            invocation.env.extend(more.map(|(name, value)| (name.into(), value.into())));
            invocation.budget = BUDGET;
            let answer: Value = serde_json::from_slice(&printed(&invocation)?)
                .map_err(|_| Failure::failed("a process of the demo printed no credential"))?;
            Ok(answer["status"]["token"].as_str().unwrap_or_default().to_owned())
        }

        fn address(&self) -> Address {
            let directory = self.path.join("run/keyward");
            Address { socket: directory.join("agent.sock"), directory }
        }

        fn plugin(&self) -> String {
            self.path.join("plugin").display().to_string()
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            // Where this is never reached, the agent ends within a minute of its socket's removal.
            let _ = agent::stop(&self.address());
        }
    }

    /// Whether the client installed next to this program has the same version.
    fn is_ours(client: &Path) -> bool {
        let mut invocation = Invocation::new(client);
        invocation.args = vec!["--version".into()];
        invocation.budget = BUDGET;
        let expected = concat!("keyward-exec ", env!("CARGO_PKG_VERSION"), "\n");
        printed(&invocation).is_ok_and(|said| said.as_slice() == expected.as_bytes())
    }

    fn quoted(path: &Path) -> String {
        output::quoted(&path.display().to_string())
    }
}
