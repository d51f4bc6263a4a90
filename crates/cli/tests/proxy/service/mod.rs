//! `keyward proxy start`: a proxy in the background, under a kubeconfig that stays.

mod container;
mod dashboard;
mod edges;
mod errors;
mod grants;
mod stage;
mod storm;

use std::{fs, net::TcpListener, os::unix::fs::MetadataExt as _, path::PathBuf};

use keyward_testing::{pty::Pty, signer::Token};
use serde_json::json;

use self::stage::{Stage, addresses, eventually, kill, prints, read, said};

#[test]
fn a_proxy_that_was_stopped_is_started_by_the_next_client_at_the_same_address() {
    let stage = Stage::new(&["east", "west"]);
    let kubeconfig = stage.start(&[]);
    assert!(kubeconfig.starts_with(stage.path(".local/state/keyward/proxy")), "{kubeconfig:?}");
    let first = addresses(&kubeconfig);
    let text = fs::read_to_string(&kubeconfig).unwrap();
    assert!(!text.contains("PRIVATE") && !text.contains("client-key"), "no key is in it: {text}");
    assert_eq!(fs::metadata(&kubeconfig).unwrap().mode() & 0o777, 0o600);
    for _ in 0..2 {
        for context in ["east", "west"] {
            assert_eq!(stage.whoami(&kubeconfig, context), context);
        }
        stage.keyward_prints(&["proxy", "stop"]);
        assert_eq!(stage.status(), [] as [serde_json::Value; 0]);
    }
    // The whole of it: no agent, no proxy.
    stage.keyward_prints(&["agent", "stop"]);
    assert_eq!(stage.whoami(&kubeconfig, "west"), "west");
    assert_eq!((addresses(&kubeconfig), stage.start(&[])), (first, kubeconfig));
}

#[test]
fn contexts_come_and_go_and_what_users_set_stays() {
    let mut stage = Stage::new(&["east", "west"]);
    stage.add_server("north");
    let kubeconfig = stage.start(&[]);
    let before = addresses(&kubeconfig);
    let set = |args: &[&str]| prints(&mut stage.kubectl(&kubeconfig, args));
    set(&["config", "use-context", "west"]);
    set(&["config", "set-context", "west", "--namespace", "mine"]);
    set(&["config", "set-cluster", "other", "--server", "https://other.example"]);
    stage.write_config(&["north", "west", "east"]);
    eventually("the new context is there", || addresses(&kubeconfig).len() == 4);
    assert_eq!(stage.whoami(&kubeconfig, "north"), "north");
    let now = addresses(&kubeconfig);
    assert!(before.iter().all(|one| now.contains(one)), "{before:?} {now:?}");
    stage.write_config(&["north", "west"]);
    let names = || addresses(&kubeconfig).into_iter().map(|one| one.0).collect::<Vec<_>>();
    eventually("the old context is gone", || names() == ["north", "other", "west"]);
    let config = read(&kubeconfig);
    assert_eq!(config["current-context"], "west");
    let west = config["contexts"].as_array().unwrap().iter().find(|one| one["name"] == "west");
    assert_eq!(west.unwrap()["context"]["namespace"], "mine");
    // Back again, it has its address again.
    stage.write_config(&["north", "west", "east"]);
    eventually("it is back", || before.iter().all(|one| addresses(&kubeconfig).contains(one)));
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
    // Who has set nothing follows the kubeconfig that is served.
    stage.write_config(&["east"]);
    eventually("the context that was set is gone", || {
        read(&kubeconfig)["current-context"] == "east"
    });
}

#[test]
fn a_client_is_served_after_the_agent_or_the_proxy_was_killed() {
    let stage = Stage::new(&["east", "west"]);
    let kubeconfig = stage.start(&[]);
    let first = (addresses(&kubeconfig), stage.proxy());
    kill(stage.agent());
    assert_eq!(stage.whoami(&kubeconfig, "west"), "west");
    assert_eq!((addresses(&kubeconfig), stage.proxy()), first, "the proxy found the next agent");
    kill(stage.proxy());
    eventually("the agent has noticed", || {
        let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
        output.status.success()
    });
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
    assert_eq!(addresses(&kubeconfig), first.0);
    assert_ne!(stage.proxy(), first.1);
}

#[test]
fn our_own_client_gets_a_certificate_of_each_new_proxy() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = stage.start(&[]);
    let whoami = || {
        let mut command = stage.keyward(&["whoami", "--context", "east", "-o", "json"]);
        prints(command.env("KUBECONFIG", &kubeconfig))
    };
    assert!(whoami().contains("east"));
    let (agent, proxy) = (stage.agent(), stage.proxy());
    stage.keyward_prints(&["proxy", "stop"]);
    assert!(whoami().contains("east"));
    assert_ne!(stage.proxy(), proxy);
    assert_eq!(stage.agent(), agent, "the agent could have kept the first certificate");
}

#[test]
fn a_port_that_another_program_took_is_explained_and_used_when_it_is_free() {
    let stage = Stage::new(&["east", "west"]);
    let kubeconfig = stage.start(&[]);
    let first = addresses(&kubeconfig);
    stage.keyward_prints(&["proxy", "stop"]);
    let address = first[0].1.strip_prefix("https://").unwrap().to_owned();
    let taken = TcpListener::bind(&address).unwrap();
    assert_eq!(stage.whoami(&kubeconfig, "west"), "west", "others are served");
    let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
    let port = address.rsplit(':').next().unwrap();
    let process = std::process::id();
    let named = format!("port {port}, which belongs to context `east` of the proxy, is used by");
    assert!(said(&output).contains(&named), "{}", said(&output));
    assert!(said(&output).contains(&format!("process {process}")), "{}", said(&output));
    drop(taken);
    eventually("the port is used", || {
        let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
        output.status.success()
    });
    assert_eq!(addresses(&kubeconfig), first);
}

#[test]
fn a_port_that_clients_know_stays_when_the_list_of_ports_is_lost() {
    let stage = Stage::new(&["east", "west"]);
    let kubeconfig = stage.start(&[]);
    let first = addresses(&kubeconfig);
    stage.keyward_prints(&["proxy", "stop"]);
    let address = first[0].1.strip_prefix("https://").unwrap().to_owned();
    let port = address.rsplit(':').next().unwrap();
    let taken = TcpListener::bind(&address).unwrap();
    assert_eq!(stage.whoami(&kubeconfig, "west"), "west", "others are served");
    let list = stage.path(".local/state/keyward/proxy-ports.json");
    fs::remove_file(&list).unwrap();
    eventually("the port is stored again", || {
        fs::read_to_string(&list).is_ok_and(|text| text.contains(port))
    });
    let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
    let named = format!("port {port}, which belongs to context `east` of the proxy, is used by");
    assert!(said(&output).contains(&named), "no other port is used: {}", said(&output));
    drop(taken);
    eventually("the port is used", || {
        let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
        output.status.success()
    });
    assert_eq!(addresses(&kubeconfig), first);
}

#[test]
fn a_proxy_that_nobody_uses_ends_and_so_does_not_one_that_is_used() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = stage.start(&["--idle-timeout", "1s"]);
    let mut watch = stage.kubectl(&kubeconfig, &["get", "pods", "-w", "-o", "name"]);
    let mut watch = watch.stdout(std::process::Stdio::null()).spawn().unwrap();
    eventually("the watch is open", || {
        // It may end before kubectl comes, which starts it again.
        stage.status().first().is_some_and(|one| one["contexts"][0]["open"] == 1)
    });
    assert_eq!(stage.status().len(), 1);
    watch.kill().unwrap();
    watch.wait().unwrap();
    // It waits for clients that have a certificate and are not here yet.
    let asked = std::time::Instant::now();
    eventually("it has ended", || stage.status().is_empty());
    assert!(asked.elapsed().as_secs() < 120);
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
}

#[test]
fn a_new_program_takes_the_place_of_the_old_one() {
    let mut stage = Stage::new(&["east"]);
    stage.install();
    let kubeconfig = stage.start(&[]);
    let first = (addresses(&kubeconfig), stage.proxy(), stage.agent());
    stage.install();
    eventually("a new proxy serves", || {
        // An agent that nobody asks looks at its program once a minute.
        let _ = stage.keyward(&["agent", "status"]).output();
        let status = stage.status();
        status.len() == 1 && status[0]["pid"] != first.1
    });
    eventually("a new agent serves", || stage.agent() != first.2);
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
    assert_eq!(addresses(&kubeconfig), first.0);
}

#[test]
fn a_kubeconfig_that_is_broken_or_gone_is_explained_in_each_context() {
    let stage = Stage::new(&["east", "west"]);
    let kubeconfig = stage.start(&[]);
    let first = fs::read_to_string(&kubeconfig).unwrap();
    stage.keyward_prints(&["proxy", "stop"]);
    fs::remove_file(stage.path(".kube/config")).unwrap();
    let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
    assert!(said(&output).contains(".kube/config` does not exist"), "{}", said(&output));
    assert_eq!(fs::read_to_string(&kubeconfig).unwrap(), first, "nothing is forgotten");
    // One context that cannot be used is no reason not to serve the other.
    let mut config = stage.config(&["east", "west"]);
    config["users"][0]["user"] = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "no-such-plugin",
    } });
    stage.write_own(&config.to_string());
    eventually("the other is served", || {
        let args = ["--context", "west", "get", "--raw", "/healthz"];
        stage.kubectl(&kubeconfig, &args).output().unwrap().status.success()
    });
    let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
    assert!(said(&output).contains("context `east`"), "{}", said(&output));
    assert!(said(&output).contains("no-such-plugin"), "{}", said(&output));
}

#[test]
fn a_shell_evaluates_what_is_printed_and_never_waits() {
    let stage = Stage::new(&["east"]);
    let test = r#"eval "$(keyward proxy env)"; echo "$KUBECONFIG""#;
    let sh = prints(stage.command("sh").args(["-c", test]));
    let fish = prints(stage.command("fish").args(["-c", test]));
    let kubeconfig = stage.start(&[]);
    assert_eq!([sh.trim(), fish.trim()], [kubeconfig.to_str().unwrap(); 2]);
    let own = prints(
        stage
            .command("fish")
            .args(["-c", r#"eval "$(keyward proxy env --shell fish)"; echo "$KUBECONFIG""#]),
    );
    assert_eq!(own, fish);
    stage.keyward_prints(&["proxy", "stop"]);
    for shell in ["sh", "bash", "fish"] {
        let test = r#"eval "$(keyward proxy)"; echo "$KUBECONFIG""#;
        assert_eq!(prints(stage.command(shell).args(["-c", test])), fish, "{shell}");
    }
    // One that has to run in the foreground says so.
    let test = r#"eval "$(keyward proxy --listen 127.0.0.1:8443)""#;
    let output = stage.command("sh").args(["-c", test]).output().unwrap();
    assert!(said(&output).contains("the shell would wait for this proxy"), "{}", said(&output));
    let test = r#"eval "$(keyward proxy)""#;
    let output = stage.command("sh").args(["-c", test]).env("CI", "1").output().unwrap();
    assert!(said(&output).contains("the agent, which is off here"), "{}", said(&output));
    let shown = stage.keyward_prints(&["proxy", "env", "--shell", "powershell"]);
    assert_eq!(shown, format!("$Env:KUBECONFIG = '{}'\n", kubeconfig.display()));
}

#[test]
fn a_proxy_of_a_proxy_is_refused_and_its_kubeconfig_stands_for_the_own_one() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = stage.start(&[]);
    let with = |args: &[&str]| stage.keyward(args).env("KUBECONFIG", &kubeconfig).output().unwrap();
    for args in [&["proxy", "--", "true"][..], &["proxy"]] {
        let output = with(args);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(
            said(&output).contains("already goes through a Keyward proxy"),
            "{}",
            said(&output)
        );
    }
    // As a profile has it that sets `KUBECONFIG`: they are about the proxy itself.
    for command in ["env", "start"] {
        let output = with(&["proxy", command]);
        let line = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(line, format!("export KUBECONFIG={}\n", kubeconfig.display()), "{output:?}");
    }
    assert_eq!(stage.status().len(), 1);
    assert!(with(&["proxy", "stop"]).status.success());
    assert!(stage.status().is_empty());
    assert!(with(&["whoami"]).status.success(), "our own commands use it like kubectl");
}

#[test]
fn a_client_that_can_run_no_program_has_a_key_in_the_file() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = stage.start(&["--static"]);
    let user = &read(&kubeconfig)["users"][0]["user"];
    assert!(user["client-key-data"].is_string() && user["exec"].is_null(), "{user}");
    assert_eq!(fs::metadata(&kubeconfig).unwrap().mode() & 0o777, 0o600);
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
    // Another start, another key; and back to none.
    stage.keyward_prints(&["proxy", "stop"]);
    let copy = stage.path("copy");
    fs::copy(&kubeconfig, &copy).unwrap();
    assert_eq!(stage.start(&["--static"]), kubeconfig);
    let output = stage.kubectl(&copy, &["get", "--raw", "/healthz"]).output().unwrap();
    assert!(!output.status.success(), "the key of an earlier start admits nobody");
    assert_eq!(stage.start(&[]), kubeconfig);
    assert!(read(&kubeconfig)["users"][0]["user"]["client-key-data"].is_null());
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
}

#[test]
fn a_locked_agent_serves_no_proxy() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = stage.start(&[]);
    stage.keyward_prints(&["agent", "lock"]);
    eventually("the proxy has ended", || stage.status().is_empty());
    let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
    assert!(said(&output).contains("the agent is locked"), "{}", said(&output));
    stage.keyward_prints(&["agent", "unlock"]);
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
}

#[test]
fn a_command_can_name_every_context() {
    let stage = Stage::new(&["east", "west"]);
    let kubectl = keyward_testing::kubectl::installed().path.to_str().unwrap();
    for context in ["east", "west"] {
        let args = ["proxy", "--", kubectl, "--context", context, "auth", "whoami", "-o"];
        let name = "jsonpath={.status.userInfo.username}";
        assert_eq!(stage.keyward_prints(&[&args[..], &[name]].concat()), context);
    }
    // One that cannot be used is there, and says why.
    let mut config = stage.config(&["east", "west"]);
    config["users"][1]["user"] = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "no-such-plugin",
    } });
    stage.write_own(&config.to_string());
    let args = ["proxy", "--", kubectl, "--context", "west", "get", "--raw", "/healthz"];
    let output = stage.keyward(&args).output().unwrap();
    assert!(said(&output).contains("no-such-plugin"), "{}", said(&output));
}

#[test]
fn a_pin_is_typed_once_when_the_proxy_starts() {
    let stage = Stage::new(&["east"]);
    let issued = stage.server("east").authority().client("carla").issue().unwrap();
    let mut token = Token::new(&issued);
    token.set("resident", "true").set("ask", "true").set("rightPin", "1234");
    let mut config = stage.config(&["east"]);
    config["users"][0]["user"] = token.user();
    stage.write_own(&config.to_string());
    let mut terminal = Pty::spawn(&stage.keyward(&["proxy", "start"])).unwrap();
    terminal.wait_for("PIN");
    terminal.type_in("1234\n").unwrap();
    terminal.wait_for("export KUBECONFIG=");
    assert!(terminal.finish().success(), "{}", terminal.screen());
    // The terminal is closed, and the token stays open.
    drop(terminal);
    let line = stage.keyward_prints(&["proxy", "env"]);
    let kubeconfig = PathBuf::from(line.trim_end().strip_prefix("export KUBECONFIG=").unwrap());
    for _ in 0..3 {
        assert_eq!(stage.whoami(&kubeconfig, "east"), "carla");
    }
    let unlocked = token.asked("UnlockRequest");
    assert_eq!(token.alive().len(), 1, "one signer: {unlocked} {:?}", token.log());
    stage.keyward_prints(&["proxy", "stop"]);
    eventually("the signer has ended", || token.alive().is_empty());
}
