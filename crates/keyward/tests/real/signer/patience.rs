//! Slow signers: who waits for them, and who does not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use keyward::Client;
use keyward_host::Observer;
use keyward_testing::{authority::KeyKind, server::Server};

use super::scene;
use crate::support::{Desk, status, until};

/// A ticker that ticks every 5 ms for as long as the runtime lets it.
fn ticker() -> (Arc<AtomicUsize>, tokio::task::JoinHandle<()>) {
    let ticks = Arc::new(AtomicUsize::new(0));
    let counted = ticks.clone();
    let task = tokio::spawn(async move {
        let mut interval = tokio::time::interval(Duration::from_millis(5));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    (ticks, task)
}

#[tokio::test(flavor = "current_thread")]
async fn a_signer_that_takes_its_time_does_not_stop_the_runtime() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    token.set("delay", "2000");
    let client = Desk::new().client(&server, &token.user());
    let request = tokio::spawn(async move { status(&client, "/api").await });
    until("the signer at work", || token.asked("SignRequest") == 1).await;
    let (ticks, task) = ticker();
    assert_eq!(request.await.unwrap(), 200);
    task.abort();
    let ticks = ticks.load(Ordering::Relaxed);
    assert!(ticks >= 100, "{ticks} ticks while the signer took 2 s");
}

/// Counts signatures that failed.
#[derive(Default)]
struct Failures(AtomicUsize);

impl Observer for Failures {
    fn signed(&self, _took: Duration, came: bool) {
        self.0.fetch_add(usize::from(!came), Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_cancelled_request_leaves_no_process_and_is_no_failure() {
    let failures = Arc::new(Failures::default());
    for (resident, at) in [
        ("false", "certificate"),
        ("false", "sign"),
        ("true", "certificate"),
        ("true", "unlock"),
        ("true", "sign"),
    ] {
        let (server, mut token) = scene(Server::setup(), KeyKind::P256);
        token.set("resident", resident).set("fault", "hang").set("faultAt", at);
        let client = Desk::observed(failures.clone()).client(&server, &token.user());
        let asked = match at {
            "certificate" => "CertificateRequest",
            "unlock" => "UnlockRequest",
            _ => "SignRequest",
        };
        let request = client.get("/api");
        let request = tokio::spawn(request);
        until("the signer at work", || token.asked(asked) == 1 && !token.alive().is_empty()).await;
        request.abort();
        until("the end of the signer", || token.alive().is_empty()).await;
        drop(client);
    }
    assert_eq!(failures.0.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn one_of_two_who_gives_up_does_not_take_the_signature_from_the_other() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    token.set("delay", "700");
    let client = Desk::new().client(&server, &token.user());
    let first = tokio::spawn(client.get("/api"));
    let other = client.clone();
    let second = tokio::spawn(async move { status(&other, "/api").await });
    until("the signer at work", || token.asked("SignRequest") == 1).await;
    first.abort();
    assert_eq!(second.await.unwrap(), 200);
    assert_eq!(token.asked("SignRequest"), 1);
}

#[tokio::test]
async fn the_time_for_a_connection_stands_still_while_the_signer_works() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    token.set("delay", "4000");
    // Enough for a busy machine's handshake, and not for the signature.
    let builder = Client::builder().connect_timeout(Duration::from_secs(3));
    let client = Desk::new().client_with(&server, &token.user(), builder);
    assert_eq!(status(&client, "/api").await, 200);
}

#[tokio::test]
async fn a_runtime_that_goes_away_takes_the_signer_along() {
    let (server, mut token) = scene(Server::setup(), KeyKind::P256);
    token.set("fault", "hang");
    let client = Desk::new().client(&server, &token.user());
    let (done, ended) = tokio::sync::oneshot::channel();
    let (leave, told) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.spawn(client.get("/api"));
        runtime.block_on(async {
            while told.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        drop(runtime);
        let _ = done.send(());
    });
    until("the signer at work", || !token.alive().is_empty() && token.asked("SignRequest") == 1)
        .await;
    leave.send(()).unwrap();
    crate::support::within(ended).await.unwrap();
    until("the end of the signer", || token.alive().is_empty()).await;
}
