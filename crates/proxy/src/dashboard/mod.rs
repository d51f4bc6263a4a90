//! A page about the running proxy, for the browser of its owner.
//!
//! ```text
//! keyward proxy dashboard ──admin.sock──► link ──browser──► /open/TOKEN ──cookie──► /SESSION/
//! ```
//!
//! The page shows what `keyward proxy status` shows (`report`), and who each server takes the user for
//! (`identity`). It runs no script and needs nothing from elsewhere. `access` decides who may see it.

mod access;
mod grants;
mod html;
mod identity;
mod page;
mod sections;
mod timeline;
mod words;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    sync::Arc,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, SET_COOKIE,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::Incoming;
use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::Secret;
use tokio::{net::TcpListener, sync::Mutex, task::JoinSet};

use self::{
    access::{Access, Rights, Session},
    identity::Identities,
    page::View,
};
use crate::{
    http_server::{HttpServer, response},
    refusal::Refusal,
    report::Report,
};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = include_str!("style.css");

/// The longest form that a browser sends.
const FORM: usize = 4096;

/// Headers of every response: no scripts, nothing from elsewhere, no frames, no copies.
const HEADERS: [(HeaderName, &str); 7] = [
    (CACHE_CONTROL, "no-store"),
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    // With `no-referrer`, browsers would send forms without their origin.
    (REFERRER_POLICY, "same-origin"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The dashboard of a proxy. Nothing listens until somebody asks for a link.
pub(crate) struct Dashboard {
    report: Arc<Report>,
    identities: Identities,
    listening: Mutex<Option<Listening>>,
}

/// A listener that serves until it is dropped.
struct Listening {
    access: Arc<Access>,
    _serving: JoinSet<()>,
}

impl Dashboard {
    pub(crate) fn new(report: Arc<Report>) -> Arc<Self> {
        let (identities, listening) = (Identities::default(), Mutex::default());
        Arc::new(Self { report, identities, listening })
    }

    /// A link that opens the dashboard once, soon.
    pub(crate) async fn link(self: &Arc<Self>) -> io::Result<Secret> {
        if !cfg!(target_os = "linux") {
            let why = "the dashboard needs Linux, which knows whose browser connects";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let mut listening = self.listening.lock().await;
        if listening.is_none() {
            *listening = Some(self.listen().await?);
        }
        match &*listening {
            Some(listening) => listening.access.link(),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    async fn listen(self: &Arc<Self>) -> io::Result<Listening> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let own = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let access = Arc::new(Access::new(own));
        let mut serving = JoinSet::new();
        // Not the dashboard itself, which ends the task.
        let dashboard = Arc::downgrade(self);
        let known = access.clone();
        serving.spawn(async move {
            let server = HttpServer::new();
            loop {
                let accepted = listener.accept().await;
                let peer = accepted.as_ref().ok().map(|(_, peer)| *peer);
                let (dashboard, access) = (dashboard.clone(), known.clone());
                let answer = move |request| {
                    let (dashboard, access) = (dashboard.upgrade(), access.clone());
                    async move {
                        let mut response = match dashboard {
                            Some(dashboard) => dashboard.answer(&access, peer, request).await,
                            None => refused(&access::ENDED),
                        };
                        guard(response.headers_mut());
                        response
                    }
                };
                server.accept(accepted.map(|(stream, _)| stream), answer).await;
            }
        });
        Ok(Listening { access, _serving: serving })
    }

    async fn answer(
        &self,
        access: &Access,
        peer: Option<SocketAddr>,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        // Before anything of the request counts.
        if let Err(refusal) = access.check_peer(peer).await {
            return refused(&refusal);
        }
        match access.admit(&request) {
            Err(refusal) => refused(&refusal),
            Ok(Rights::Opened(session)) => opened(&session),
            Ok(Rights::Inside(session, path)) => self.inside(&session, &path, request).await,
        }
    }

    /// Answers a request of a browser that has opened a link.
    async fn inside(
        &self,
        session: &Session,
        path: &str,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        match (request.method(), path) {
            (&Method::GET | &Method::HEAD, "") => {
                let query = request.uri().query().unwrap_or_default().to_owned();
                self.page(session, &query).await
            }
            (&Method::GET | &Method::HEAD, "style.css") => {
                response(StatusCode::OK, "text/css; charset=utf-8", STYLE)
            }
            (&Method::POST, path) => {
                let path = path.to_owned();
                let form = Limited::new(request.into_body(), FORM).collect().await;
                let form = form.map(Collected::to_bytes).unwrap_or_default();
                match session.check_form(&form) {
                    Ok(()) => self.act(session, &path).await,
                    Err(refusal) => refused(&refusal),
                }
            }
            (&Method::GET | &Method::HEAD, _) => refused(&access::NO_PAGE),
            _ => refused(&access::OTHER_METHOD),
        }
    }

    async fn page(&self, session: &Session, query: &str) -> Response<Full<Bytes>> {
        let status = self.report.status();
        let identities = self.identities.ask(&self.report.contexts.all()).await;
        let view = View { status: &status, identities: &identities, session, query };
        response(StatusCode::OK, HTML, view.page(SystemClock.now()))
    }

    /// Does what a form asks for.
    async fn act(&self, session: &Session, path: &str) -> Response<Full<Bytes>> {
        let grant = path.strip_prefix("grants/").and_then(|rest| rest.strip_suffix("/revoke"));
        let Some(name) = grant.map(str::to_owned) else { return refused(&access::NO_PAGE) };
        let grants = self.report.grants.clone();
        let revoked = tokio::task::spawn_blocking(move || grants.revoke(&name)).await;
        match revoked {
            // Also one that is gone already is what was asked for.
            Ok(Ok(_)) => {
                let mut response = response(StatusCode::SEE_OTHER, HTML, "");
                locate(&mut response, &format!("{}?revoked", session.path()));
                response
            }
            Ok(Err(error)) => {
                let code = StatusCode::INTERNAL_SERVER_ERROR;
                response(code, HTML, page::refusal(&error.line()))
            }
            Err(_) => refused(&access::ENDED),
        }
    }
}

/// Sends a browser on to its session.
fn opened(session: &Session) -> Response<Full<Bytes>> {
    let mut response = response(StatusCode::SEE_OTHER, HTML, "");
    if let Ok(mut cookie) = HeaderValue::from_str(&session.set_cookie()) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    locate(&mut response, &session.path());
    response
}

fn locate(response: &mut Response<Full<Bytes>>, path: &str) {
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, path);
    }
}

fn refused(refusal: &Refusal) -> Response<Full<Bytes>> {
    response(refusal.code, HTML, page::refusal(&refusal.message))
}

fn guard(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
