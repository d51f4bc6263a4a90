//! The example against a real server.

use keyward_testing::server::{Server, User};

use crate::support::{Desk, Plugin, within};

#[allow(dead_code, reason = "its `main` reads the arguments of a process")]
#[path = "../../examples/get.rs"]
mod get;

#[tokio::test]
async fn the_example_returns_what_the_server_answers_to_the_plugins_token() {
    let server = Server::setup().start().unwrap();
    server.users().token("one", User::new("anna"));
    let plugin = Plugin::new();
    plugin.answer(Some("one"), None);
    let client = Desk::new().client(&server, &plugin.user());
    assert_eq!(within(get::get(&client, "/healthz")).await.unwrap(), "ok");
    let missing = within(get::get(&client, "/nowhere")).await.unwrap_err();
    assert_eq!(missing.to_string(), "the server answered 404 Not Found");
    assert_eq!(plugin.runs(), 1);
}
