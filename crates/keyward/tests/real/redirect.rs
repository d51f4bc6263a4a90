//! Credentials stay with the server they are for.

use std::task::{Context, Poll};

use http::{Request, StatusCode, header::LOCATION};
use keyward::{Body, Client, Kind, Origin, bearer};
use keyward_testing::server::{Deed, Fault, Server, User};
use tower::{Layer, Service, ServiceExt};

use crate::support::{Desk, Plugin, within};

fn scene() -> (Server, Server, Plugin, Desk) {
    let (home, away) = (Server::setup().start().unwrap(), Server::setup().start().unwrap());
    home.users().token("one", User::new("anna"));
    away.users().token("one", User::new("anna"));
    let elsewhere = format!("{}/healthz", away.url());
    home.faults().add(Fault::on("/away", Deed::Redirect(StatusCode::FOUND, elsewhere)));
    let plugin = Plugin::new();
    plugin.answer(Some("one"), None);
    (home, away, plugin, Desk::new())
}

#[tokio::test]
async fn a_client_shows_a_redirect_and_does_not_go_elsewhere() {
    let (home, away, plugin, desk) = scene();
    let client = desk.client(&home, &plugin.user());
    let response = within(client.get("/away")).await.unwrap();
    assert_eq!(response.status(), StatusCode::FOUND);
    let there = response.headers()[LOCATION].to_str().unwrap().to_owned();
    let error = within(client.get(&there)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::OtherOrigin);
    assert_eq!(away.counts().connections, 0);
}

/// A service that goes wherever a request's URI says: one client for each server.
#[derive(Clone)]
struct Anywhere(Vec<Client>);

impl Service<Request<Body>> for Anywhere {
    type Response = http::Response<keyward::Incoming>;
    type Error = keyward::Error;
    type Future = keyward::client::Sending;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.iter().find(|client| client.origin().covers(request.uri()));
        client.unwrap().send(request)
    }
}

#[tokio::test]
async fn the_layer_puts_no_token_on_a_request_for_another_host_or_port() {
    let (home, away, plugin, desk) = scene();
    let source = desk.source(&home.kubeconfig(&plugin.user()));
    let nobody = serde_json::json!({});
    let inner = Anywhere(vec![desk.client(&home, &nobody), desk.client(&away, &nobody)]);
    let service = bearer::Layer::new(source, Origin::parse(&home.url()).unwrap()).layer(inner);

    let send = |uri: String| {
        within(service.clone().oneshot(Request::get(uri).body(Body::empty()).unwrap()))
    };
    let response = send(format!("{}/away", home.url())).await.unwrap();
    assert_eq!(response.status(), StatusCode::FOUND);
    assert_eq!(home.recorder().last().unwrap().header("authorization"), Some("Bearer one"));

    let there = response.headers()[LOCATION].to_str().unwrap().to_owned();
    let response = send(there).await.unwrap();
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(away.recorder().last().unwrap().header("authorization"), None);
    assert_eq!(plugin.runs(), 1, "a refusal from elsewhere renews nothing");
}
