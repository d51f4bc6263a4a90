//! `keyward get --raw`: answers, refusals, streams, and what becomes of the credential.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    time::Duration,
};

use http::StatusCode;
use keyward_testing::{
    script::Script,
    server::{Deed, Fault, Server, User},
};
use serde_json::{Value, json};

use crate::stage::{Run, Stage};

/// A server that knows `good`, and a kubeconfig whose user has this token.
fn scene(token: &str) -> (Stage, Server) {
    let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
    server.users().token("good", User::new("anna").group("dev"));
    stage.kubeconfig(&server.kubeconfig(&json!({ "token": token })));
    (stage, server)
}

/// A stage whose plugin returns `token-1`, then `token-2`, and so on.
fn with_counting_plugin() -> (Stage, Server) {
    let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
    let plugin = stage.plugin(
        "counting",
        r#"echo run >> $STAGE/runs
n=$(wc -l < $STAGE/runs | tr -d ' ')
echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"token-'$n'"}}'"#,
    );
    stage.kubeconfig(&server.kubeconfig(&json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": plugin,
        "interactiveMode": "Never",
    } })));
    (stage, server)
}

#[test]
fn a_good_answer_is_printed_as_it_came() {
    let (stage, _server) = scene("good");
    let ran = stage.run("get --raw /healthz");
    assert_eq!((ran.good(), ran.stderr.as_str()), ("ok", ""));
    assert_eq!(stage.run("get --raw /big/3000000").good().len(), 3_000_000);
    let who: Value = stage.run("get --raw /whoami?pretty=true").json();
    assert_eq!(who["username"], "anna");
}

#[test]
fn a_refusal_exits_with_one_and_says_what_the_server_said() {
    let (stage, server) = scene("good");
    let missing = stage.run("get --raw /nothing/here");
    assert_eq!(
        missing.bad(1),
        "error: the server answered 404 Not Found\n  \
         it said: the server could not find the requested resource\n"
    );
    server.faults().add(Fault::on("/healthz", Deed::Answer(StatusCode::FORBIDDEN)));
    let forbidden = stage.run("get --raw /healthz");
    assert!(forbidden.bad(1).contains("the server answered 403 Forbidden"), "{forbidden:?}");
    assert!(forbidden.stderr.contains("User \"anna\" cannot use path"), "{forbidden:?}");
    assert!(forbidden.stderr.contains("hint: `keyward whoami`"), "{forbidden:?}");

    let (stage, _server) = scene("bad-t0ken");
    let unknown = stage.run("get --raw /healthz");
    assert!(unknown.bad(1).contains("401 Unauthorized"), "{unknown:?}");
    assert!(unknown.stderr.contains("hint: `keyward plan`"), "{unknown:?}");
    assert!(!unknown.stderr.contains("bad-t0ken"), "{unknown:?}");
}

/// What was written to stderr as a warning.
fn warnings(ran: &crate::stage::Ran) -> Vec<&str> {
    ran.stderr.lines().filter(|line| line.starts_with("warning:")).collect()
}

#[test]
fn a_credential_that_is_not_sent_is_warned_of_once() {
    let (stage, server) = scene("good");
    let config = stage.read("home/.kube/config");
    let current = serde_json::from_str::<Value>(&config).unwrap();
    let user = current["contexts"][0]["context"]["user"].as_str().unwrap().to_owned();
    let mut lost = current.clone();
    lost["contexts"][0]["context"]["user"] = json!("zz");
    stage.kubeconfig(&lost.to_string());
    for line in ["get --raw /healthz", "whoami", "get --raw /healthz -v", "proxy -- true"] {
        let ran = stage.run(line);
        let found = warnings(&ran);
        assert_eq!(found.len(), 1, "{ran:?}");
        assert!(found[0].contains("names the user `zz`, which does not exist"), "{ran:?}");
        assert_eq!(ran.stderr.matches("`zz`, which").count(), 1, "{ran:?}");
    }
    let strict = stage.run("get --raw /healthz --strict");
    assert!(strict.bad(1).contains("`zz`") && warnings(&strict).is_empty(), "{strict:?}");

    let mut open = current;
    open["clusters"][0]["cluster"]["server"] = json!(format!("http://{}", server.address()));
    stage.kubeconfig(&open.to_string());
    let ran = stage.run("get --raw /healthz");
    let found = warnings(&ran);
    assert_eq!(found.len(), 1, "{ran:?}");
    assert!(found[0].contains(&format!("credentials of user `{user}` are not sent")), "{ran:?}");

    // It asks for a credential only, and says once why there is none.
    let ran = stage.run("credential");
    assert_eq!(ran.bad(1).matches("are not sent").count(), 1, "{ran:?}");
}

#[test]
fn a_watch_is_printed_event_by_event() {
    let (stage, server) = scene("good");
    let put = |name: &str| {
        let metadata = json!({ "name": name, "namespace": "default" });
        let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
        server.store().put(&object).unwrap();
    };
    put("one");
    let path = "/api/v1/namespaces/default/configmaps?watch=true";
    let mut child = stage
        .command(["get", "--raw", path])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut events = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&events.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["object"]["metadata"]["name"], "one");
    // Only now is there a second one, so the first was not held back for it.
    put("two");
    assert_eq!(next()["object"]["metadata"]["name"], "two");
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    server.cut_connections();
    assert_eq!(child.wait().unwrap().code(), Some(1), "a watch that was cut is no success");
}

#[test]
fn a_stale_token_is_replaced_unseen() {
    let (stage, server) = with_counting_plugin();
    server.users().token("token-2", User::new("anna"));
    let ran = stage.run("get --raw /healthz");
    assert_eq!((ran.good(), ran.stderr.as_str()), ("ok", ""));
    assert_eq!(stage.read("runs").lines().count(), 2);
}

#[test]
fn a_token_that_no_renewal_helps_is_refused_after_two_runs() {
    let (stage, _server) = with_counting_plugin();
    let ran = stage.run("get --raw /healthz");
    assert!(ran.bad(1).contains("401 Unauthorized"), "{ran:?}");
    assert_eq!(stage.read("runs").lines().count(), 2);
    assert!(ran.stderr.contains("  refused is: user `"), "{ran:?}");
    assert!(ran.stderr.contains("was run again, which did not help\n"), "{ran:?}");
}

#[test]
fn a_403_renews_the_credential_where_that_is_asked_for() {
    let (stage, server) = with_counting_plugin();
    server.users().token("token-1", User::new("anna"));
    server.users().token("token-2", User::new("anna").group("admins"));
    let forbid = || {
        server.faults().clear();
        server.faults().add(Fault::always(Deed::Answer(StatusCode::FORBIDDEN)).times(1));
    };
    forbid();
    let ran = stage.run("get --raw /healthz");
    assert!(ran.bad(1).contains("403 Forbidden"), "{ran:?}");
    assert_eq!(stage.read("runs").lines().count(), 1);

    stage.write("runs", "");
    forbid();
    assert_eq!(stage.run("get --refresh-on-403 --raw /healthz").good(), "ok");
    assert_eq!(stage.read("runs").lines().count(), 2);
}

#[test]
fn a_request_has_its_time_and_no_more() {
    let (stage, server) = scene("good");
    server.faults().add(Fault::on("/healthz", Deed::Delay(Duration::from_secs(3600))));
    let ran = stage.run("get --raw /healthz --request-timeout 300ms");
    let server_said = format!("error: server `{}` did not answer within 300ms\n", server.url());
    assert!(ran.bad(1).starts_with(&server_said), "{ran:?}");
    assert!(ran.stderr.contains("hint: `--request-timeout` sets the limit"), "{ran:?}");
    // The time is one for an answer, not for all of a long one.
    server.faults().clear();
    stage.run("get --raw /healthz --request-timeout 30s").good();
}

#[test]
fn a_plugin_that_is_not_waited_for_any_more_ends_with_the_program() {
    let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
    // It says who it is before it waits; a busy machine may not let it do that in the first of these.
    let plugin = stage.plugin("p", "echo $$ > $STAGE/pid; exec sleep 300");
    stage.kubeconfig(&server.kubeconfig(&json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": plugin,
        "interactiveMode": "Never",
    } })));
    for limit in ["300ms", "3s", "30s"] {
        let ran = stage.run(&format!("get --raw /healthz --request-timeout {limit}"));
        let said = format!("error: no credential within {limit}\n  needed by: user `");
        assert!(ran.bad(1).starts_with(&said), "{ran:?}");
        let Ok(pid) = std::fs::read_to_string(stage.path("pid")) else { continue };
        let left = std::path::Path::new("/proc").join(pid.trim());
        assert!(!left.exists(), "the plugin {pid} is still there");
        return;
    }
    panic!("it was not run");
}

#[test]
fn what_a_server_repeats_of_a_credential_is_not_shown() {
    let (stage, server) = with_counting_plugin();
    server.users().token("token-1", User::new("anna"));
    server.faults().add(Fault::on("/repeat", Deed::Repeat(StatusCode::FORBIDDEN)));
    let ran = stage.run("get --raw /repeat");
    assert!(ran.bad(1).contains("it said: you sent `Bearer [hidden]`"), "{ran:?}");
    server.users().password("anna", "s3cr3t-word");
    stage.kubeconfig(&server.kubeconfig(&json!({ "username": "anna", "password": "s3cr3t-word" })));
    let ran = stage.run("get --raw /repeat");
    assert!(ran.bad(1).contains("it said: you sent `Basic [hidden]`"), "{ran:?}");
}

#[test]
fn an_authority_that_cannot_be_read_does_not_give_way_to_the_systems() {
    let (stage, server) = scene("good");
    let config = server.kubeconfig(&json!({ "token": "good" }));
    let mut config: Value = serde_json::from_str(&config).unwrap();
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster.as_object_mut().unwrap().remove("certificate-authority-data");
    cluster["certificate-authority"] = stage.path("home").display().to_string().into();
    stage.kubeconfig(&config.to_string());
    let trusting = stage.write("system.pem", server.authority().pem());
    for line in ["get --raw /healthz", "plan"] {
        let ran = stage.command(line.split(' ')).env("SSL_CERT_FILE", &trusting).ran();
        assert_eq!(ran.code, Some(1), "{line}: {ran:?}");
        assert!(ran.stderr.contains("`certificate-authority` cannot be read"), "{ran:?}");
    }
    assert_eq!(server.counts().requests, 0);
}

#[test]
fn the_plugins_time_counts_and_the_plugin_does_not_stay() {
    let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
    let plugin = Script::new();
    plugin.hold(true);
    stage.kubeconfig(&server.kubeconfig(&plugin.user()));
    // A busy machine may not let it write down that it runs in the first of these.
    for limit in ["300ms", "3s", "30s"] {
        let ran = stage.run(&format!("get --raw /healthz --plugin-timeout {limit}"));
        assert!(ran.bad(1).contains("`/bin/sh`"), "{ran:?}");
        assert_eq!(server.counts().requests, 0);
        if plugin.runs() == 1 {
            return;
        }
    }
    panic!("it was not run, or more than once");
}

#[test]
fn a_plugin_that_needs_a_person_exits_with_three() {
    let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
    let plugin = Script::new();
    stage.kubeconfig(&server.kubeconfig(&plugin.user_in("Always")));
    stage.run("get --raw /healthz").bad(3);
    assert_eq!(plugin.runs(), 0);
}

#[test]
fn impersonation_reaches_the_server() {
    let (stage, _server) = scene("good");
    let who = stage.run("get --raw /whoami --as dora --as-group ops --as-uid 42").json();
    assert_eq!(who["username"], "dora");
    assert_eq!(who["groups"], json!(["ops", "system:authenticated"]));
    assert_eq!(who["uid"], "42");
}

#[test]
fn a_server_that_is_not_there_or_not_the_one_it_says_is_told_apart() {
    let (stage, server) = scene("good");
    let port = format!("port {}", server.address().port());
    let wrong = stage.run("get --raw /healthz --tls-server-name elsewhere.example");
    assert!(wrong.bad(1).contains("cause: "), "{wrong:?}");
    assert_eq!(server.counts().requests, 0, "no token was sent to it");
    server.stop();
    let gone = stage.run("get --raw /healthz");
    assert!(gone.bad(1).contains(&port), "{gone:?}");
}

#[test]
fn a_url_is_no_path() {
    let (stage, server) = scene("good");
    for line in ["get", "get --raw https://elsewhere.example/healthz", "get --raw healthz"] {
        stage.run(line).bad(2);
    }
    assert_eq!(server.counts().connections, 0);
}
