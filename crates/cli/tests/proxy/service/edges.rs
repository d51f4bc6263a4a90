//! What happens around a background proxy when its agent, its files or its program are not as usual.

use std::fs;

use super::stage::{Stage, addresses, eventually, kill, prints, said};

#[test]
fn a_proxy_that_lost_its_agent_is_locked_and_gets_new_settings_too() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = stage.start(&[]);
    kill(stage.agent());
    let output = stage.keyward(&["agent", "lock"]).output().unwrap();
    assert!(said(&output).contains("no agent is running"), "{}", said(&output));
    eventually("the proxy has ended", || stage.status().is_empty());
    stage.start(&[]);
    let first = stage.proxy();
    kill(stage.agent());
    assert_eq!(stage.start(&["--allow-impersonation"]), kubeconfig);
    eventually("only a proxy with the new settings runs", || {
        let status = stage.status();
        status.len() == 1 && status[0]["pid"] != first
    });
    let args = ["--as", "anna", "auth", "whoami"];
    let output = stage.kubectl(&kubeconfig, &args).output().unwrap();
    assert!(!said(&output).contains("proxy"), "{}", said(&output));
}

#[test]
fn who_waits_for_a_proxy_is_told_when_the_agent_is_locked() {
    let stage = Stage::new(&["east"]);
    let kubeconfig = stage.start(&[]);
    stage.keyward_prints(&["proxy", "stop"]);
    // Nothing can serve while this lock is held, so clients wait.
    let lock = fs::File::open(kubeconfig.with_file_name("lock")).unwrap();
    lock.lock().unwrap();
    let mut client = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]);
    let client = client.stderr(std::process::Stdio::piped()).spawn().unwrap();
    eventually("it waits", || {
        let metrics = stage.keyward_prints(&["agent", "metrics"]);
        metrics.lines().any(|line| line == "keyward_agent_connections_open 1")
    });
    stage.keyward_prints(&["agent", "lock"]);
    let output = client.wait_with_output().unwrap();
    assert!(said(&output).contains("locked"), "{}", said(&output));
    drop(lock);
    stage.keyward_prints(&["agent", "unlock"]);
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
}

#[test]
fn streams_of_a_program_that_was_replaced_end_when_the_agent_is_locked() {
    let mut stage = Stage::new(&["east"]);
    stage.install();
    let kubeconfig = stage.start(&[]);
    let first = stage.proxy();
    let mut watch = stage.kubectl(&kubeconfig, &["get", "pods", "-w", "-o", "name"]);
    let mut watch = watch.stdout(std::process::Stdio::null()).spawn().unwrap();
    eventually("the watch is open", || stage.status()[0]["contexts"][0]["open"] == 1);
    stage.install();
    eventually("a new proxy serves", || {
        let _ = stage.keyward(&["agent", "status"]).output();
        stage.status().iter().any(|one| one["pid"] != first)
    });
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
    assert!(watch.try_wait().unwrap().is_none(), "the stream goes on");
    stage.keyward_prints(&["agent", "lock"]);
    eventually("nothing is open", || stage.status().is_empty());
    watch.wait().unwrap();
}

#[test]
fn entries_of_users_stay_although_a_context_has_their_name() {
    let mut stage = Stage::new(&["east"]);
    stage.add_server("north");
    stage.add_server("south");
    let kubeconfig = stage.start(&[]);
    let mine = ["config", "set-cluster", "north", "--server", "https://mine.example"];
    prints(&mut stage.kubectl(&kubeconfig, &mine));
    stage.write_config(&["east", "north", "south"]);
    let named = |name: &str| addresses(&kubeconfig).into_iter().find(|one| one.0 == name);
    eventually("the new context is there", || named("south").is_some());
    assert_eq!(named("north").unwrap().1, "https://mine.example");
    // Without it, there is room for the context.
    prints(&mut stage.kubectl(&kubeconfig, &["config", "delete-cluster", "north"]));
    stage.write_config(&["north", "east", "south"]);
    eventually("it is served", || named("north").is_some());
    assert_eq!(stage.whoami(&kubeconfig, "north"), "north");
}

#[test]
fn a_kubeconfig_of_clients_that_is_broken_is_kept_and_replaced() {
    let mut stage = Stage::new(&["east"]);
    stage.add_server("west");
    let kubeconfig = stage.start(&[]);
    fs::write(&kubeconfig, "{ half").unwrap();
    stage.write_config(&["east", "west"]);
    eventually("it is replaced", || {
        fs::read_to_string(&kubeconfig).unwrap().contains("https://127.0.0.1")
    });
    assert_eq!(stage.whoami(&kubeconfig, "west"), "west");
    let kept = kubeconfig.with_file_name("kubeconfig.broken");
    assert_eq!(fs::read_to_string(kept).unwrap(), "{ half");
}

#[test]
fn authorities_of_the_environment_are_those_of_the_shell_that_started_the_proxy() {
    let stage = Stage::new(&["east"]);
    let mut config = stage.config(&["east"]);
    let cluster = config["clusters"][0]["cluster"].as_object_mut().unwrap();
    cluster.remove("certificate-authority-data").unwrap();
    stage.write_own(&config.to_string());
    let file = stage.path("authority.pem");
    fs::write(&file, stage.server("east").authority().pem()).unwrap();
    // The agent runs without the variable.
    let kubeconfig = stage.start(&[]);
    let output = stage.kubectl(&kubeconfig, &["get", "--raw", "/healthz"]).output().unwrap();
    assert!(!output.status.success(), "nobody vouches for the server");
    let start =
        |stage: &Stage| prints(stage.keyward(&["proxy", "start"]).env("SSL_CERT_FILE", &file));
    assert!(start(&stage).contains(kubeconfig.to_str().unwrap()));
    assert_eq!(stage.whoami(&kubeconfig, "east"), "east");
}
