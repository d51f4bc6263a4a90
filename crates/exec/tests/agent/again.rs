//! Programs that ask more than once although nothing was refused.

use std::fs;

use keyward_testing::{kubectl, server::User};
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::{
    stage::{Stage, exec, request},
    verify::{registered, unregistered},
};

/// Asks like a dispatcher, then becomes the real kubectl, as gcloud's kubectl does to find the version
/// of its server.
fn dispatch(stage: &Stage) {
    let script = "\"$@\" >/dev/null || exit 9; sleep 0.1; exec \"$KUBECTL\" get --raw /healthz";
    let mut command = stage.command("sh");
    command.args(["-c", script, "dispatcher"]).arg(exec()).arg("--").args(stage.words());
    command.env("KUBECTL", &kubectl::installed().path);
    command.env("KUBERNETES_EXEC_INFO", request(false));
    let output = command.output().unwrap();
    assert_eq!(output.stdout, b"ok", "{output:?}");
    assert_eq!(stage.kept()["requests"], 2, "both asked");
}

#[test]
fn a_dispatcher_that_becomes_kubectl_was_refused_nothing() {
    // Nobody can ask the server of a plugin that is not registered.
    for (stage, server) in [registered(), unregistered()] {
        server.users().token("t0ken", User::new("ann"));
        dispatch(&stage);
        assert_eq!(stage.runs(), 1);
        assert_eq!(server.counts().requests, 1, "only kubectl's own");
        let kept = stage.kept();
        assert_eq!((&kept["state"], &kept["lastError"]), (&"good".into(), &().into()), "{kept}");
    }
}

#[test]
fn a_program_with_kube_asks_several_times_and_was_refused_nothing() {
    let (stage, server) = registered();
    server.users().token("t0ken", User::new("ann"));
    let text = fs::read_to_string(stage.dir.path().join("home/.kube/config")).unwrap();
    let mut config = Kubeconfig::from_yaml(&text).unwrap();
    let user = config.auth_infos[0].auth_info.as_mut().unwrap();
    // The variables of this process are the tester's, and so would be the agent.
    let vars = stage.vars.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let vars = vars.chain([("KEYWARD_AGENT", "on"), ("CI", "false")]);
    let pair = |(name, value): (&str, &str)| {
        [("name".to_owned(), name.to_owned()), ("value".to_owned(), value.to_owned())].into()
    };
    user.exec.as_mut().unwrap().env = Some(vars.map(pair).collect());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        client.apiserver_version().await.unwrap();
    });
    assert_eq!(stage.runs(), 1);
    let kept = stage.kept();
    assert!(kept["requests"].as_u64().unwrap() >= 2, "{kept}");
    assert_eq!((&kept["state"], &kept["lastError"]), (&"good".into(), &().into()), "{kept}");
}
