//! What putting a credential on a request costs, beside the layer that kube has for it.

use std::{
    future::{Ready, ready},
    hint::black_box,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Request, Response};
use http_body_util::Empty;
use keyward::{Origin, bearer};
use kube::client::ConfigExt;
use tower::{BoxError, Layer, Service};

use super::{
    cached,
    requests::{runtime, theirs},
    scene::Scene,
};
use crate::measure::{Bar, Row, Variant, worked};

/// Requests in one round.
const REQUESTS: u32 = 200_000;

/// Requests whose allocations are counted.
const COUNTED: u32 = 1_000;

/// A request through no layer, through kube's layer and through ours.
pub fn row() -> Row {
    let scene = Scene::new();
    let (ours, bare) = (ours(&scene), ours(&scene).without_replay());
    let peer = peer(&scene);
    let variant = |label, run: Box<dyn FnMut() -> f64>| {
        let mut run = run;
        Variant { label, run: Box::new(move || Ok(run())) }
    };
    Row {
        unit: "ns",
        variants: vec![
            variant("no layer", Box::new(|| per_request(&mut Nothing))),
            variant("kube 5", Box::new(move || per_request(&mut peer.layer(Nothing)))),
            variant("ours", Box::new(move || per_request(&mut ours.layer(Nothing)))),
            variant("ours, without replay", {
                Box::new(move || per_request(&mut bare.layer(Nothing)))
            }),
        ],
        bars: vec![
            Bar {
                promise: "our layer costs a request no more than kube's",
                judge: |r| {
                    let cost = |[none, kube, ours]: [f64; 3]| (ours - none) / (kube - none);
                    (r.middle(["no layer", "kube 5", "ours"], cost), 1.0)
                },
            },
            Bar {
                promise: "allocations of ours for a request, without replay",
                judge: |_| {
                    (count(&mut self::ours(&Scene::new()).without_replay().layer(Nothing)), 0.0)
                },
            },
            Bar {
                promise: "allocations of ours with replay (at most: those of the copy)",
                judge: |_| (count(&mut self::ours(&Scene::new()).layer(Nothing)), copy()),
            },
            Bar {
                promise: "the same (at most: those of kube 5)",
                judge: |_| {
                    let scene = Scene::new();
                    let mut theirs = self::peer(&scene).layer(Nothing);
                    (count(&mut self::ours(&scene).layer(Nothing)), count(&mut theirs))
                },
            },
        ],
    }
}

/// Allocations of a request through our layer, with replay.
pub(super) fn allocations() -> f64 {
    count(&mut ours(&Scene::new()).layer(Nothing))
}

fn ours(scene: &Scene) -> bearer::Layer {
    let source = cached::source(&scene.folder);
    source.credential_blocking().expect("the bench's plugin works");
    bearer::Layer::new(source, Origin::parse(&scene.server.url()).expect("an origin"))
}

fn peer(scene: &Scene) -> impl Layer<Nothing, Service = impl Sends + use<>> + use<> {
    let config = runtime().block_on(theirs(&scene.folder.text()));
    config.auth_layer().expect("the bench's plugin works").expect("a token")
}

/// Answers at once, and allocates nothing.
#[derive(Clone)]
pub(super) struct Nothing;

impl Service<Asked> for Nothing {
    type Response = Response<()>;
    type Error = BoxError;
    type Future = Ready<Result<Response<()>, BoxError>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Asked) -> Self::Future {
        black_box(request);
        ready(Ok(Response::new(())))
    }
}

/// A request of this bench.
pub(super) type Asked = Request<Empty<Bytes>>;

/// As kube's client makes them.
pub(super) fn request() -> Asked {
    let mut request = Request::get("/api/v1/namespaces/default/pods").body(Empty::new()).unwrap();
    for name in ["accept", "user-agent", "accept-encoding"] {
        request.headers_mut().insert(name, HeaderValue::from_static("application/json"));
    }
    request
}

/// What is measured here.
trait Sends: Service<Asked, Response = Response<()>, Error = BoxError> {}

impl<S> Sends for S where S: Service<Asked, Response = Response<()>, Error = BoxError> {}

fn send(service: &mut impl Sends, request: Asked) {
    let context = &mut Context::from_waker(std::task::Waker::noop());
    assert!(service.poll_ready(context).is_ready(), "always ready");
    let response = service.call(request).now_or_never().expect("nobody waits");
    black_box(response.expect("an answer"));
}

/// Nanoseconds of one request, made and sent.
fn per_request(service: &mut impl Sends) -> f64 {
    let begin = worked();
    for _ in 0..REQUESTS {
        send(service, request());
    }
    worked().saturating_sub(begin).as_secs_f64() * 1e9 / f64::from(REQUESTS)
}

/// Allocations for one request, without those of making it.
fn count(service: &mut impl Sends) -> f64 {
    // The first has thread-local storage to set up.
    send(service, request());
    let requests: Vec<_> = (0..COUNTED).map(|_| request()).collect();
    mean(|| requests.into_iter().for_each(|request| send(service, request)))
}

/// Allocations of the copy that a replay is made of.
fn copy() -> f64 {
    let requests: Vec<_> = (0..COUNTED).map(|_| request()).collect();
    mean(|| {
        for request in &requests {
            let headers = request.headers().iter();
            let mut list = Vec::with_capacity(request.headers().len());
            list.extend(headers.map(|(name, value)| (name.clone(), value.clone())));
            black_box((list, request.uri().clone(), request.method().clone()));
        }
    })
}

fn mean(work: impl FnOnce()) -> f64 {
    let info = allocation_counter::measure(work);
    #[expect(clippy::cast_precision_loss, reason = "a few per request")]
    let total = info.count_total as f64;
    total / f64::from(COUNTED)
}
