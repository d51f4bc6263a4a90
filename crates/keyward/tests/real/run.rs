//! What requests feel of a plugin's runs.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use keyward::{Client, Kind};
use keyward_host::{Kind as Why, Kubeconfig, Overrides, rules::Rules};
use keyward_process::surroundings::{Fixed, Surroundings};
use keyward_testing::server::{Server, User};

use serde_json::json;

use crate::support::{Desk, Plugin, status, until, within, write};

fn scene() -> (Server, Plugin, Desk) {
    let server = Server::setup().start().unwrap();
    server.users().token("one", User::new("anna"));
    let plugin = Plugin::new();
    plugin.answer(Some("one"), None);
    (server, plugin, Desk::new())
}

#[tokio::test]
async fn ten_clients_of_one_identity_share_one_run_and_building_them_runs_nothing() {
    let (server, plugin, desk) = scene();
    let clients: Vec<_> = (0..10).map(|_| desk.client(&server, &plugin.user())).collect();
    assert_eq!(plugin.runs(), 0);
    assert_eq!(server.counts().connections, 0);
    let seen = join_all(clients.iter().map(|client| status(client, "/healthz"))).await;
    assert_eq!(seen, [200; 10]);
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test]
async fn a_plugin_that_hangs_frees_the_caller_at_its_deadline_and_the_runtime_goes_on() {
    let (server, plugin, desk) = scene();
    plugin.hold(true);
    let client = desk.client(&server, &plugin.user());
    let ticks = Arc::new(AtomicUsize::new(0));
    let ticker = tokio::spawn({
        let ticks = ticks.clone();
        async move {
            let mut every = tokio::time::interval(Duration::from_millis(5));
            loop {
                every.tick().await;
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let waited = tokio::time::timeout(Duration::from_secs(1), client.get("/healthz")).await;
    assert!(waited.is_err(), "the plugin has not answered");
    assert!(ticks.load(Ordering::Relaxed) > 20, "the one thread of this runtime was not blocked");
    ticker.abort();

    // The run goes on for whoever comes next.
    plugin.hold(false);
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 1);
}

#[tokio::test]
async fn the_clients_own_deadline_counts_the_plugin_too() {
    let (server, plugin, desk) = scene();
    plugin.hold(true);
    let builder = Client::builder().response_timeout(Duration::from_millis(50));
    let client = desk.client_with(&server, &plugin.user(), builder);
    let error = within(client.get("/healthz")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::TimedOut);
}

#[tokio::test]
async fn a_failed_plugin_is_asked_again_after_one_step_of_back_off() {
    let (server, plugin, desk) = scene();
    plugin.fail(true);
    let client = desk.client(&server, &plugin.user());
    for _ in 0..10 {
        let error = within(client.get("/healthz")).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Credential);
        assert_eq!(error.credential().unwrap().kind(), Why::Failed);
    }
    assert_eq!(plugin.runs(), 1, "the failure is shared until the back-off is over");
    plugin.fail(false);
    // The first step is a second, give or take a fifth.
    desk.clock.advance(Duration::from_millis(1200));
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 2);
}

#[tokio::test]
async fn a_plugin_that_needs_a_person_is_not_run_where_there_is_none() {
    let (server, plugin, desk) = scene();
    let client = desk.client(&server, &plugin.user_in("Always"));
    let error = within(client.get("/healthz")).await.unwrap_err();
    assert_eq!(error.credential().unwrap().kind(), Why::NeedsTerminal);
    assert_eq!(plugin.runs(), 0);
}

#[tokio::test]
async fn a_client_used_by_two_runtimes_one_after_the_other_works_in_both() {
    let (server, plugin, desk) = scene();
    let client = desk.client(&server, &plugin.user());
    for _ in 0..3 {
        let client = client.clone();
        let other = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(status(&client, "/healthz"))
        });
        assert_eq!(tokio::task::spawn_blocking(|| other.join()).await.unwrap().unwrap(), 200);
    }
    assert_eq!(status(&client, "/healthz").await, 200);
    assert_eq!(plugin.runs(), 1);
    until("only one connection is left", || server.counts().open == 1).await;
}

#[tokio::test]
async fn a_client_is_made_of_the_kubeconfig_that_the_surroundings_name() {
    let (server, plugin, _desk) = scene();
    let folder = tempfile::TempDir::new().unwrap();
    let file = write(folder.path(), "config", &server.kubeconfig(&plugin.user()));
    let surrounded = |file: &Path| {
        let vars = vec![("KUBECONFIG".into(), file.into()), ("HOME".into(), folder.path().into())];
        let fixed = Fixed { vars, cwd: folder.path().to_owned(), ..Fixed::default() };
        Client::builder().surroundings(Surroundings::fixed(fixed))
    };
    let (client, target) = surrounded(&file).for_context(Some("test")).unwrap();
    assert_eq!(target.namespace, "default");
    assert_eq!(status(&client, "/healthz").await, 200);

    let error = surrounded(&file).for_context(Some("other")).unwrap_err();
    assert_eq!(error.kind(), Kind::BadConfig);
    assert!(error.credential().is_some(), "the host says what is wrong");
}

#[tokio::test]
async fn an_error_that_main_returns_tells_user_file_line_plugin_stderr_and_hint() {
    let (server, _, desk) = scene();
    let folder = tempfile::tempdir().unwrap();
    let script = "echo 'run `sso login` first' >&2; exit 3";
    let failing = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh",
        "args": ["-c", script], "interactiveMode": "Never",
    } });
    let missing = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin",
        "interactiveMode": "Never", "installHint": "apt install plugin",
    } });
    for (user, told) in [
        (failing, &["`/bin/sh` failed with exit code 3", "    run `sso login` first"][..]),
        (missing, &["`/no/such/plugin` was not found", "\n\nhint: apt install plugin"]),
    ] {
        let path = write(folder.path(), "config", &server.kubeconfig(&user));
        let surroundings = Surroundings::process();
        let kubeconfig = Kubeconfig::load(&surroundings, Some(&path)).unwrap();
        let target = kubeconfig.resolve(&Overrides::default(), &surroundings).unwrap();
        let client = Client::builder().open(&target, &Rules::default(), &desk.sources);
        let error = match client {
            Ok(client) => within(client.get("/version")).await.map(drop).unwrap_err(),
            Err(error) => error,
        };
        let printed = format!("{error:?}");
        let place = format!("in `{}`, line ", path.display());
        for part in told.iter().copied().chain(["needed by: user `", &place]) {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
