//! With an external signer: kubectl uses a key that it never sees.

use std::fs;

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
