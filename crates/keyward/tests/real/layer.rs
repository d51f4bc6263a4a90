//! The layer on services of others.

use std::{
    future::{Ready, ready},
    io,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full};
use keyward::{Origin, bearer};
use keyward_testing::server::{Server, User};
use tower::{Layer, Service, ServiceExt};

use crate::support::{Desk, Plugin, status, within};

/// Accepts one token at a time, and notes what it is asked.
#[derive(Clone, Default)]
struct Picky(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    accepts: String,
    seen: Vec<(String, String)>,
    broken: bool,
    busy: bool,
    waiting: Option<Waker>,
}

impl Service<Request<Full<Bytes>>> for Picky {
    type Response = Response<()>;
    type Error = io::Error;
    type Future = Ready<io::Result<Response<()>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock().unwrap();
        if state.busy {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(if state.broken { Err(io::Error::other("broken")) } else { Ok(()) })
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let mut state = self.0.lock().unwrap();
        let header = &request.headers()[AUTHORIZATION];
        assert!(HeaderValue::is_sensitive(header));
        let header = header.to_str().unwrap().to_owned();
        let body = request.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
        let mut response = Response::new(());
        if header != state.accepts {
            *response.status_mut() = StatusCode::UNAUTHORIZED;
        }
        state.seen.push((header, String::from_utf8(body.into()).unwrap()));
        ready(Ok(response))
    }
}

fn layer(plugin: &Plugin) -> bearer::Layer {
    let server = Server::setup().start().unwrap();
    let source = Desk::new().source(&server.kubeconfig(&plugin.user()));
    bearer::Layer::new(source, Origin::parse(&server.url()).unwrap())
}

fn request() -> Request<Full<Bytes>> {
    Request::post("/").body(Full::from("the same")).unwrap()
}

#[tokio::test]
async fn any_service_is_healed_and_gets_the_whole_body_again() {
    let plugin = Plugin::new();
    plugin.answer(Some("old"), None);
    let picky = Picky::default();
    picky.0.lock().unwrap().accepts = "Bearer old".into();
    let service = layer(&plugin).layer(picky.clone());
    let response = within(service.clone().oneshot(request())).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);

    picky.0.lock().unwrap().accepts = "Bearer new".into();
    plugin.answer(Some("new"), None);
    let response = within(service.oneshot(request())).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let seen = picky.0.lock().unwrap().seen.clone();
    let sent = |token: &str| (format!("Bearer {token}"), "the same".to_owned());
    assert_eq!(seen, [sent("old"), sent("old"), sent("new")]);
}

#[tokio::test]
async fn the_layer_is_ready_although_the_service_is_broken_and_the_plugin_hangs() {
    let plugin = Plugin::new();
    plugin.answer(Some("old"), None);
    plugin.hold(true);
    let picky = Picky::default();
    picky.0.lock().unwrap().broken = true;
    let mut service = layer(&plugin).layer(picky);
    let call = {
        let service = service.ready().now_or_never().expect("at once").unwrap();
        service.call(request())
    };
    plugin.hold(false);
    // What is wrong is for the request to say.
    let error = within(call).await.unwrap_err();
    assert_eq!(error.to_string(), "broken");
    assert!(service.ready().now_or_never().unwrap().is_ok());
}

#[tokio::test]
async fn a_request_waits_for_a_busy_service_and_is_woken() {
    let plugin = Plugin::new();
    plugin.answer(Some("good"), None);
    let picky = Picky::default();
    picky.0.lock().unwrap().accepts = "Bearer good".into();
    let service = layer(&plugin).layer(picky.clone());
    // The next request finds a credential, so that nothing but the service is waited for.
    within(service.clone().oneshot(request())).await.unwrap();

    picky.0.lock().unwrap().busy = true;
    let call = tokio::spawn(service.oneshot(request()));
    while picky.0.lock().unwrap().waiting.is_none() {
        tokio::task::yield_now().await;
    }
    let waiting = {
        let mut state = picky.0.lock().unwrap();
        state.busy = false;
        state.waiting.take().unwrap()
    };
    waiting.wake();
    assert_eq!(within(call).await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_client_and_its_layer_share_one_credential() {
    let server = Server::setup().start().unwrap();
    server.users().token("same", User::new("anna"));
    let plugin = Plugin::new();
    plugin.answer(Some("same"), None);
    let client = Desk::new().client(&server, &plugin.user());
    assert_eq!(status(&client, "/whoami").await, 200);

    let picky = Picky::default();
    picky.0.lock().unwrap().accepts = "Bearer same".into();
    let response = within(client.layer().layer(picky).oneshot(request())).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(plugin.runs(), 1);
}
