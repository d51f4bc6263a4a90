//! `keyward whoami`, beside `kubectl auth whoami`.

use std::process::{Command, Stdio};

use http::StatusCode;
use keyward_testing::{
    kubectl,
    server::{Deed, Fault, Server, User},
};
use serde_json::json;

use crate::stage::Stage;

fn scene() -> (Stage, Server) {
    let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
    let mut user = User::new("anna").group("dev").group("ops");
    "0f3a".clone_into(&mut user.uid);
    let extra = |key: &str, values: &[&str]| {
        (key.to_owned(), values.iter().map(ToString::to_string).collect())
    };
    user.extra = vec![extra("scopes", &["read", "write"]), extra("example.org/team", &["a"])];
    server.users().token("good", user);
    stage.kubeconfig(&server.kubeconfig(&json!({ "token": "good" })));
    (stage, server)
}

/// What kubectl prints; `None` when it is too old to know the command.
fn kubectl(stage: &Stage, args: &[&str]) -> Option<String> {
    let output = Command::new(&kubectl::installed().path)
        .args(["auth", "whoami"])
        .args(args)
        .env("HOME", stage.path("home"))
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if !output.status.success() && said.contains("unknown") {
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_text_is_what_kubectl_prints() {
    let (stage, _server) = scene();
    let ours = stage.run("whoami");
    assert_eq!(
        ours.good(),
        "ATTRIBUTE                 VALUE\n\
         Username                  anna\n\
         UID                       0f3a\n\
         Groups                    [dev ops system:authenticated]\n\
         Extra: example.org/team   [a]\n\
         Extra: scopes             [read write]\n"
    );
    if let Some(theirs) = kubectl(&stage, &[]) {
        assert_eq!(ours.stdout, theirs);
    }
    let ours = stage.run("whoami --as dora --as-group test");
    assert_eq!(
        ours.good(),
        "ATTRIBUTE   VALUE\n\
         Username    dora\n\
         Groups      [test system:authenticated]\n"
    );
    if let Some(theirs) = kubectl(&stage, &["--as", "dora", "--as-group", "test"]) {
        assert_eq!(ours.stdout, theirs);
    }
}

#[test]
fn the_json_is_the_servers_own_object() {
    let (stage, _server) = scene();
    let review = stage.run("whoami -o json").json();
    assert_eq!(review["kind"], "SelfSubjectReview");
    assert_eq!(review["apiVersion"], "authentication.k8s.io/v1");
    let user = &review["status"]["userInfo"];
    assert_eq!(user["username"], "anna");
    assert_eq!(user["extra"]["scopes"], json!(["read", "write"]));
}

#[test]
fn a_certificates_user_is_its_common_name() {
    let (stage, server) = (Stage::new(), Server::setup().start().unwrap());
    let issued = server.authority().client("carla").group("ops").issue().unwrap();
    stage.kubeconfig(&server.kubeconfig(&json!({
        "client-certificate": stage.write("cert.pem", issued.certificate_pem()),
        "client-key": stage.write("key.pem", issued.key_pem()),
    })));
    assert!(stage.run("whoami").good().contains("Username    carla\n"));
}

#[test]
fn a_refusal_exits_with_one() {
    let (stage, server) = scene();
    server.users().revoke_tokens();
    let ran = stage.run("whoami");
    assert!(ran.bad(1).contains("401 Unauthorized"), "{ran:?}");
}

#[test]
fn a_server_without_the_api_is_named_as_such_after_every_version_was_tried() {
    let (stage, server) = scene();
    let path = "/apis/authentication.k8s.io/";
    server.faults().add(Fault::on(path, Deed::Answer(StatusCode::NOT_FOUND)));
    let ran = stage.run("whoami");
    assert!(ran.bad(1).contains("does not know the SelfSubjectReview API"), "{ran:?}");
    let asked: Vec<_> =
        server.recorder().all().iter().map(|record| record.uri.path().to_owned()).collect();
    assert_eq!(
        asked,
        ["v1", "v1beta1", "v1alpha1"].map(|version| format!("{path}{version}/selfsubjectreviews"))
    );
}
