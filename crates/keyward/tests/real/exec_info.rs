//! A plugin calls the cluster of its request with one call.

use http::{Request, header::AUTHORIZATION};
use keyward::{Client, Kind as Why};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_testing::{
    plugin::client_example,
    proxy::{Kind, Proxy},
    server::{Server, User},
};
use serde_json::{Value, json};

use crate::support::{Desk, kubeconfig, status, within};

const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// A request in this version for this server's cluster, with these fields in it.
fn request(version: &str, server: &Server, changes: &Value) -> Value {
    let kubeconfig = kubeconfig(server, &json!({}), changes);
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    json!({
        "kind": "ExecCredential",
        "apiVersion": format!("client.authentication.k8s.io/{version}"),
        "spec": { "interactive": false, "cluster": kubeconfig["clusters"][0]["cluster"] },
    })
}

/// What a plugin that was asked this builds.
fn client(request: &Value) -> Result<Client, keyward::Error> {
    let vars = vec![("KUBERNETES_EXEC_INFO".into(), request.to_string().into())];
    let surroundings = Surroundings::fixed(Fixed { vars, ..Fixed::default() });
    Client::builder().surroundings(surroundings).from_exec_info().map(|(client, _)| client)
}

/// The status of a request that brings this token.
async fn send(client: &Client, token: &str) -> Result<u16, keyward::Error> {
    let request = Request::get("/api/v1/namespaces/default/configmaps")
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .body("")
        .unwrap();
    within(client.send(request)).await.map(|response| response.status().as_u16())
}

fn server() -> Server {
    let server = Server::setup().start().unwrap();
    server.users().token("own", User::new("plugin"));
    server
}

#[tokio::test]
async fn a_request_of_either_version_becomes_a_client_without_a_credential() {
    for version in VERSIONS {
        let server = server();
        let client = client(&request(version, &server, &json!({}))).unwrap();
        assert_eq!(server.counts().connections, 0);
        assert_eq!(status(&client, "/api/v1/namespaces/default/configmaps").await, 401);
        assert_eq!(send(&client, "own").await.unwrap(), 200);
        assert_eq!(server.recorder().last().unwrap().user.as_deref(), Some("plugin"));
    }
}

#[tokio::test]
async fn the_proxy_and_the_server_name_of_the_request_are_used() {
    for kind in [Kind::Http, Kind::Socks5] {
        let server = server();
        let name = "api.nowhere.invalid";
        let proxy = Proxy::setup(kind).name(name, server.address()).start().unwrap();
        let cluster = json!({
            "server": format!("https://{name}:6443"),
            "tls-server-name": "localhost",
            "proxy-url": proxy.url(),
        });
        for version in VERSIONS {
            let client = client(&request(version, &server, &cluster)).unwrap();
            assert_eq!(send(&client, "own").await.unwrap(), 200);
        }
        assert_eq!(proxy.targets(), [format!("{name}:6443"), format!("{name}:6443")]);
    }
}

#[tokio::test]
async fn a_server_of_another_authority_gets_no_request() {
    let (server, other) = (server(), Server::setup().start().unwrap());
    let client = client(&request("v1", &other, &json!({ "server": server.url() }))).unwrap();
    assert_eq!(send(&client, "own").await.unwrap_err().kind(), Why::Connect);
    assert!(server.recorder().last().is_none());
}

#[test]
fn a_request_without_a_cluster_is_a_configuration_error_that_says_what_to_set() {
    for version in VERSIONS {
        let mut request = request(version, &server(), &json!({}));
        request["spec"].as_object_mut().unwrap().remove("cluster");
        let error = client(&request).unwrap_err();
        assert_eq!(error.kind(), Why::BadConfig);
        let shown = format!("{error:#}");
        assert!(
            shown.contains("the request in `KUBERNETES_EXEC_INFO` names no cluster"),
            "{shown}"
        );
        assert!(shown.contains("hint: set `provideClusterInfo: true`"), "{shown}");
    }
}

/// The example is the plugin of a kubeconfig: a client runs it, and it calls the client's server.
#[tokio::test]
async fn the_example_gets_a_token_of_a_service_account_from_the_cluster_of_its_request() {
    for version in VERSIONS {
        let server = server();
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": "deployer", "namespace": "default" },
        });
        server.store().put(&account).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "own\n").unwrap();
        let user = json!({ "exec": {
            "apiVersion": format!("client.authentication.k8s.io/{version}"),
            "command": client_example("keyward", "token_request"),
            "args": [file.path(), "default", "deployer"],
            "interactiveMode": "Never",
            "provideClusterInfo": true,
        } });
        let client = Desk::new().client(&server, &user);
        assert_eq!(status(&client, "/api/v1/namespaces/default/configmaps").await, 200);
        let last = server.recorder().last().unwrap();
        assert_eq!(last.user.as_deref(), Some("system:serviceaccount:default:deployer"));
    }
}
