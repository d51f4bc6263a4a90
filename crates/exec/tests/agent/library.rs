//! Programs that use the library, `keyward get` and the proxy: one login with whoever uses
//! `keyward-exec`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
};

use keyward::{Client, agent::Agent};
use keyward_host::{Kubeconfig, NoopObserver, Overrides, Sources, rules::Rules};
use keyward_process::{
    clock::SystemClock,
    surroundings::{Fixed, Surroundings},
};
use keyward_testing::{
    kubectl,
    server::{Server, User},
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{Stage, VERSION, eventually, exec, said, signal};

/// A server, and a kubeconfig for it whose plugin is wrapped or not.
struct Scene {
    stage: Stage,
    server: Server,
}

impl Scene {
    fn new(wrapped: bool) -> Self {
        let (stage, server) = (Stage::unregistered(), Server::setup().start().unwrap());
        server.users().token("t0ken", User::new("ann"));
        let scene = Self { stage, server };
        scene.write(&scene.kubeconfig(wrapped));
        if wrapped {
            scene.stage.register_for(&scene.server.url());
        }
        scene
    }

    fn kubeconfig(&self, wrapped: bool) -> Value {
        let [command, script] = self.stage.words();
        let (command, args) = if wrapped {
            (exec().to_str().unwrap().to_owned(), vec!["--".to_owned(), command, script])
        } else {
            (command, vec![script])
        };
        let user = json!({ "exec": {
            "apiVersion": VERSION,
            "command": command,
            "args": args,
            "interactiveMode": "IfAvailable",
        }});
        serde_json::from_str(&self.server.kubeconfig(&user)).unwrap()
    }

    fn write(&self, kubeconfig: &Value) {
        let path = self.stage.dir.path().join("home/.kube/config");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, kubeconfig.to_string()).unwrap();
    }

    /// The server accepts this token from now on, and no other.
    fn accept(&self, token: &str) {
        self.server.users().replace_tokens([(token, User::new("ann"))]);
    }

    fn get(&self) -> Command {
        let mut command = self.stage.command(keyward_testing::plugin::keyward());
        command.args(["get", "--raw", "/api"]);
        command
    }

    /// A program that uses the library: one that is given nothing but the agent.
    fn program(&self, vars: &[(&str, &str)]) -> Program {
        let own = self.stage.vars.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let vars = own.chain(vars.iter().copied()).map(|(n, v)| (n.into(), v.into()));
        let surroundings = Surroundings::fixed(Fixed {
            vars: vars.collect(),
            cwd: "/".into(),
            ..Fixed::default()
        });
        let target = Kubeconfig::load(&surroundings, None)
            .and_then(|config| config.resolve(&Overrides::default(), &surroundings))
            .unwrap();
        let rules = Rules::load(&surroundings, None).unwrap();
        // A registry of its own, as another process has one.
        let sources = Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver));
        let builder = Client::builder().surroundings(surroundings).agent(Agent::shared());
        let client = builder.open(&target, &rules, &sources).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Program { client, runtime }
    }
}

struct Program {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Program {
    fn get(&self) -> Result<u16, keyward::Error> {
        let response = self.runtime.block_on(self.client.get("/api"))?;
        Ok(response.status().as_u16())
    }
}

fn succeeds(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn all_programs_share_one_run() {
    for wrapped in [true, false] {
        let scene = Scene::new(wrapped);
        let stage = &scene.stage;
        assert_eq!(stage.token(), "t0ken");
        assert_eq!(scene.program(&[]).get().unwrap(), 200);
        succeeds(scene.get());
        let mut command = stage.command(keyward_testing::plugin::keyward());
        command.arg("credential");
        let answer: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        assert_eq!(answer["status"]["token"], "t0ken");
        assert_eq!(stage.token(), "t0ken");
        assert_eq!(stage.runs(), 1, "wrapped: {wrapped}");
        let kept = stage.kept();
        assert_eq!(kept["hits"], 4, "{kept}");
        let clients = kept["clients"].as_str().unwrap();
        assert!(clients.contains("keyward"), "{clients}");
    }
}

#[test]
fn the_first_run_may_be_a_programs_own() {
    // Not registered: the agent starts nothing, the program runs the plugin for everybody.
    let scene = Scene::new(false);
    scene.stage.start_agent();
    assert_eq!(scene.program(&[]).get().unwrap(), 200);
    assert_eq!(scene.program(&[]).get().unwrap(), 200);
    succeeds(scene.get());
    assert_eq!(scene.stage.token(), "t0ken");
    assert_eq!(scene.stage.runs(), 1);
}

#[test]
fn a_401_in_a_program_makes_one_new_run_for_all() {
    for wrapped in [true, false] {
        let scene = Scene::new(wrapped);
        assert_eq!(scene.stage.token(), "t0ken");
        let programs = [(); 3].map(|()| scene.program(&[]));
        for program in &programs {
            assert_eq!(program.get().unwrap(), 200);
        }
        assert_eq!(scene.stage.runs(), 1);
        scene.accept("new");
        scene.stage.answer("new");
        for program in &programs {
            assert_eq!(program.get().unwrap(), 200);
        }
        assert_eq!(scene.stage.token(), "new");
        succeeds(scene.get());
        assert_eq!(scene.stage.runs(), 2, "wrapped: {wrapped}");
    }
}

#[test]
fn a_server_that_refuses_everything_costs_programs_few_runs() {
    let scene = Scene::new(true);
    scene.accept("another");
    for _ in 0..10 {
        assert!(!scene.get().output().unwrap().status.success());
    }
    let runs = scene.stage.runs();
    assert!((2..=4).contains(&runs), "{runs} runs");
}

#[test]
fn programs_that_ask_often_are_not_taken_for_ones_that_were_refused() {
    let scene = Scene::new(true);
    // All are children of this process, as programs of one shell are.
    for _ in 0..5 {
        succeeds(scene.get());
        assert_eq!(scene.program(&[]).get().unwrap(), 200);
    }
    assert_eq!(scene.stage.runs(), 1);
}

#[test]
fn there_is_no_agent_in_continuous_integration_or_where_it_is_switched_off() {
    for vars in [("CI", "true"), ("KEYWARD_AGENT", "off")] {
        let scene = Scene::new(true);
        for expected in [2, 4] {
            let mut get = scene.get();
            get.env(vars.0, vars.1);
            succeeds(get);
            assert_eq!(scene.program(&[vars]).get().unwrap(), 200);
            assert_eq!(scene.stage.runs(), expected, "{vars:?}");
        }
        assert!(scene.stage.agents().is_empty(), "{vars:?}");
    }
}

#[test]
fn only_a_command_starts_the_agent_and_only_for_a_wrapped_kubeconfig() {
    let scene = Scene::new(false);
    succeeds(scene.get());
    assert!(scene.stage.agents().is_empty(), "nobody asked for an agent");
    let scene = Scene::new(true);
    assert_eq!(scene.program(&[]).get().unwrap(), 200);
    assert!(scene.stage.agents().is_empty(), "a library starts none");
    succeeds(scene.get());
    succeeds(scene.get());
    scene.stage.agent();
    assert_eq!(scene.stage.runs(), 2);
}

#[test]
fn an_agent_that_dies_or_stops_on_the_way_is_done_without() {
    for how in [Signal::KILL, Signal::STOP] {
        let scene = Scene::new(true);
        succeeds(scene.get());
        scene.accept("new");
        scene.stage.answer("new");
        // The agent runs the plugin when it dies.
        scene.stage.set("hold", "");
        let program = scene.program(&[]);
        let stage = &scene.stage;
        let status = std::thread::scope(|threads| {
            threads.spawn(move || {
                eventually("the plugin runs for the program", || stage.runs() == 2);
                signal(stage.agent(), how);
                stage.unset("hold");
            });
            program.get()
        });
        assert_eq!(status.unwrap(), 200, "{how:?}");
        assert!(stage.runs() >= 3, "{how:?}");
    }
}

#[test]
fn a_policy_holds_though_the_agent_has_the_credential() {
    let scene = Scene::new(true);
    succeeds(scene.get());
    let kuberc = scene.stage.dir.path().join("home/.kube/kuberc");
    let policy = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n";
    fs::write(&kuberc, policy).unwrap();
    let output = scene.get().output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(scene.stage.runs(), 1);
}

#[test]
fn a_command_that_needs_a_login_ends_with_3_and_says_how_to_log_in() {
    let scene = Scene::new(true);
    scene.stage.set("fail", "open https://idp.example/device and enter ABCD\n");
    for words in [&["get", "--raw", "/api"][..], &["credential"], &["whoami"]] {
        let output: Output = scene.stage.keyward(words);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(said(&output).contains("`keyward login --context test`"), "{output:?}");
    }
    assert_eq!(scene.stage.runs(), 1);
    let error = scene.program(&[]).get().unwrap_err();
    let why = error.credential().unwrap();
    assert_eq!(why.kind(), keyward_host::Kind::NeedsTerminal, "{why:?}");
    assert_eq!(scene.stage.runs(), 1);
}

#[test]
fn a_failure_of_the_plugin_reaches_every_program_with_what_the_plugin_said() {
    let scene = Scene::new(true);
    scene.stage.set("fail", "the moon is in the way\n");
    for _ in 0..2 {
        let output = scene.get().output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output).contains("the moon is in the way"), "{output:?}");
        assert!(said(&output).contains("failed with exit code 1"), "{output:?}");
    }
    assert_eq!(scene.stage.runs(), 1);
}

#[test]
fn the_proxy_shares_the_runs_of_two_contexts_and_reports_a_401() {
    let scene = Scene::new(true);
    let stage = &scene.stage;
    scene.server.users().token("t1ken", User::new("bea"));
    // Another user whose plugin differs by a variable, and is not registered.
    let mut config = scene.kubeconfig(true);
    let mut user = config["users"][0].clone();
    user["name"] = "bea".into();
    user["user"]["exec"]["env"] = json!([{ "name": "ANSWER", "value": "t1ken" }]);
    let mut context = config["contexts"][0].clone();
    context["name"] = "other".into();
    context["context"]["user"] = "bea".into();
    config["users"].as_array_mut().unwrap().push(user);
    config["contexts"].as_array_mut().unwrap().push(context);
    scene.write(&config);

    let proxy = Proxy::start(stage);
    for context in ["test", "other"] {
        assert_eq!(proxy.get(context).status.code(), Some(0), "{context}");
    }
    assert_eq!(stage.runs(), 2);
    assert_eq!(stage.token(), "t0ken");
    let mut other = stage.kubectl();
    assert_eq!(crate::stage::token(&other.env("ANSWER", "t1ken").output().unwrap()), "t1ken");
    assert_eq!(stage.runs(), 2);
    // Refused at the proxy: one new run, which kubectl's plugin gets too. The other context's
    // credential stays.
    scene.server.users().revoke_token("t0ken");
    scene.server.users().token("new", User::new("ann"));
    stage.answer("new");
    let output = proxy.get("test");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stage.token(), "new");
    assert_eq!(proxy.get("other").status.code(), Some(0));
    assert_eq!(stage.runs(), 3);
}

struct Proxy {
    child: Child,
    kubeconfig: String,
    home: std::path::PathBuf,
}

impl Proxy {
    fn start(stage: &Stage) -> Self {
        let mut command = stage.command(keyward_testing::plugin::keyward());
        command.args(["proxy", "--all-contexts"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ready ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the proxy ended");
        }
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let kubeconfig = line.trim_end().rsplit(' ').next().unwrap().to_owned();
        Self { child, kubeconfig, home: stage.dir.path().into() }
    }

    fn get(&self, context: &str) -> Output {
        let mut command = Command::new(&kubectl::installed().path);
        command.args(["get", "--raw", "/api", "--context", context]);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.env_clear().env("HOME", &self.home).output().unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
