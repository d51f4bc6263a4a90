//! What a proxy adds to the first request of a client: kubectl in a proxy of its own, and a proxy that nobody has asked
//! for a while.

use std::{
    cell::RefCell,
    fs,
    process::{Command, Stdio},
    rc::Rc,
};

use keyward_testing::server::{Server, User};
use serde_json::json;

use super::startup::{keyward, kubectl, starts};
use crate::{
    load,
    measure::{Bar, Row, Variant},
    scene::{self, Running},
};

/// Runs of kubectl in one round; the figure is their mean.
const TIMES: u32 = 4;

/// A cluster that takes a static token, a kubeconfig for it, and a home.
struct Home {
    server: Server,
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let server = Server::setup().records(0).workers(1).start().expect("a server");
        server.users().token("good", User::new("bench"));
        let dir = tempfile::tempdir().expect("a temporary directory");
        let config = server.kubeconfig(&json!({ "token": "good" }));
        fs::write(dir.path().join("config"), config).expect("a file");
        fs::create_dir(dir.path().join("run")).expect("a directory");
        Self { server, dir }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("HOME", self.dir.path())
            .env("XDG_RUNTIME_DIR", self.dir.path().join("run"))
            .env_remove("XDG_STATE_HOME")
            .env("KUBECONFIG", self.dir.path().join("config"))
            .env("KEYWARD_AGENT", "off");
        command
    }
}

/// `kubectl get ns` by itself and in `keyward proxy --`, both with a warm discovery cache.
pub fn kubectl_alone_and_in_a_proxy() -> Row {
    const BARE: &str = "kubectl, static token";
    const OURS: &str = "ours: keyward proxy -- kubectl";
    let home = Rc::new(Home::new());
    let (bare, ours) = (Rc::clone(&home), home);
    Row {
        unit: "ms",
        variants: vec![
            Variant {
                label: BARE,
                run: Box::new(move || starts(TIMES, bare.command(kubectl()).args(["get", "ns"]))),
            },
            Variant {
                label: OURS,
                run: Box::new(move || {
                    let mut command = ours.command(keyward());
                    command.args(["proxy", "--"]).arg(kubectl()).args(["get", "ns"]);
                    starts(TIMES, &mut command)
                }),
            },
        ],
        bars: vec![Bar {
            promise: "the second `keyward proxy -- kubectl get ns` takes at most 25 ms more than kubectl alone",
            judge: |r| (r.middle([BARE, OURS], |[bare, ours]| ours - bare), 25.0),
        }],
    }
}

/// The first answer on a new connection: from the server, and through a proxy that has no connection to it yet.
pub fn first_answer() -> Row {
    const DIRECT: &str = "direct";
    const OURS: &str = "through ours, idle until then";
    const PATH: &str = "/api/v1/namespaces";
    let home = Rc::new(Home::new());
    let (direct, ours) = (Rc::clone(&home), home);
    let ended: Rc<RefCell<Vec<Running>>> = Rc::default();
    Row {
        unit: "ms",
        variants: vec![
            Variant {
                label: DIRECT,
                run: Box::new(move || {
                    let settings =
                        scene::settings(direct.server.authority().pem().as_bytes(), None)?;
                    let url = direct.server.url();
                    let peer = load::Peer {
                        address: scene::address(url.trim_start_matches("https://"))?,
                        tls: Some((settings, scene::name("127.0.0.1")?)),
                        token: Some("good"),
                        pid: std::process::id(),
                    };
                    Ok(load::first(&peer, PATH)? * 1e3)
                }),
            },
            Variant {
                label: OURS,
                run: Box::new(move || {
                    // The proxy of the last round ends here, outside of what is measured.
                    ended.borrow_mut().clear();
                    let mut command = ours.command(keyward());
                    command.arg("proxy").stdout(Stdio::null());
                    let (running, peer) = scene::proxy(&mut command)?;
                    ended.borrow_mut().push(running);
                    Ok(load::first(&peer, PATH)? * 1e3)
                }),
            },
        ],
        bars: vec![Bar {
            promise: "the first answer through an idle proxy takes at most 30 ms more than a direct one",
            judge: |r| (r.middle([DIRECT, OURS], |[direct, ours]| ours - direct), 30.0),
        }],
    }
}
