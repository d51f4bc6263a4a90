//! With an external signer: kubectl uses a key that it never sees.

use std::{
    fs,
    time::{Duration, Instant},
};

use keyward_testing::{server::Server, signer::Token};

use crate::stage::{Stage, signal};

#[test]
fn a_hundred_commands_cost_a_handful_of_signatures() {
    let server = Server::setup().start().unwrap();
    let issued = server.authority().client("carla").group("ops").issue().unwrap();
    let token = Token::new(&issued);
    let stage = Stage::of(server, &token.user());
    let proxy = stage.proxy(&[]);
    for _ in 0..100 {
        assert_eq!(proxy.prints(&["get", "--raw", "/healthz"]), "ok");
    }
    let signatures = token.asked("SignRequest");
    assert!((1..=5).contains(&signatures), "{signatures}: {:?}", token.log());
    assert_eq!(stage.server.recorder().last().unwrap().user.as_deref(), Some("carla"));
    // What kubectl has is of no use without the proxy.
    let text = fs::read_to_string(&proxy.kubeconfig).unwrap();
    let key: String = issued.key_pem().lines().nth(1).unwrap().to_owned();
    assert!(!text.contains(&key) && !text.contains(&stage.server.url()));
    let copy = stage.write("copy", &text);
    let home = stage.folder.path();
    let mut proxy = proxy;
    signal(&proxy.child, "TERM");
    assert!(proxy.child.wait().unwrap().success());
    let late = crate::stage::kubectl(&copy, home, &["get", "--raw", "/healthz"]).output().unwrap();
    assert!(!late.status.success());
    assert_eq!(token.alive(), [] as [u32; 0], "a resident signer ends with the proxy");
}

#[test]
fn a_signer_that_stays_ends_with_a_killed_proxy() {
    let server = Server::setup().start().unwrap();
    let issued = server.authority().client("carla").issue().unwrap();
    let mut token = Token::new(&issued);
    token.set("resident", "true");
    let stage = Stage::of(server, &token.user());
    let mut proxy = stage.proxy(&[]);
    assert_eq!(proxy.prints(&["get", "--raw", "/healthz"]), "ok");
    assert_eq!(token.alive().len(), 1, "it stays while the proxy runs");
    signal(&proxy.child, "KILL");
    proxy.child.wait().unwrap();
    let begin = Instant::now();
    while !token.alive().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it is still there");
        std::thread::yield_now();
    }
}
