//! Other ways to be somebody, beside a plugin.

use keyward_testing::server::{Server, User};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Desk, Plugin, status, write};

/// A user of the kubeconfig with an `exec` block as well. The plugin must not run.
async fn wins_over_the_plugin(server: &Server, mut user: Value) {
    let plugin = Plugin::new();
    plugin.answer(Some("of-the-plugin"), None);
    user["exec"] = plugin.user()["exec"].clone();
    let client = Desk::new().client(server, &user);
    assert_eq!(status(&client, "/healthz").await, 200, "{user}");
    assert_eq!(plugin.runs(), 0, "{user}");
}

#[tokio::test]
async fn what_stands_in_the_kubeconfig_wins_and_no_plugin_runs() {
    let server = Server::setup().start().unwrap();
    server.users().token("one", User::new("anna"));
    server.users().password("anna", "secret");
    let pair = server.authority().client("anna").issue().unwrap();
    let folder = TempDir::new().unwrap();
    let file = write(folder.path(), "token", "one");
    let certificate = write(folder.path(), "tls.crt", pair.certificate_pem());
    let key = write(folder.path(), "tls.key", pair.key_pem());

    wins_over_the_plugin(&server, json!({ "token": "one" })).await;
    wins_over_the_plugin(&server, json!({ "tokenFile": file })).await;
    wins_over_the_plugin(&server, json!({ "username": "anna", "password": "secret" })).await;
    let files = json!({ "client-certificate": certificate, "client-key": key });
    wins_over_the_plugin(&server, files).await;
}

#[tokio::test]
async fn a_static_token_that_is_refused_is_the_callers_business() {
    let server = Server::setup().start().unwrap();
    let client = Desk::new().client(&server, &json!({ "token": "unknown" }));
    assert_eq!(status(&client, "/healthz").await, 401);
    assert_eq!(server.counts().requests, 1);
}
