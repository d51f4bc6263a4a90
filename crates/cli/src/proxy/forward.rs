//! One request, from a client to the server and back.

use std::{borrow::Cow, convert::Infallible, error::Error as _, sync::Arc};

use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, HOST, ORIGIN, TE, TRANSFER_ENCODING, UPGRADE},
};
use http_body::Body as _;
use hyper::body::Incoming;
use keyward::{Body, Kind};
use keyward_host::redact::redact;
use keyward_process::clock::{Clock, SystemClock};

use super::{
    body::{Answer, Progress, Upload},
    gate::{self, Gate, wanted_upgrade},
    meter::Flight,
    refusal::{BROKEN_BODY, CHANGED, MIXED, Refusal, UPGRADE_WITH_BODY},
    route::Route,
    served::{Closed, Served, State},
    status, tunnel,
};
use crate::output::inline;

/// How much of a body is kept until the response is there, to be sent again after a 401.
const REPLAY: usize = 256 * 1024;

const UNASKED_CHANGE: &str = "the server changed to a protocol that nobody asked it for";
const AMBIGUOUS: &str = "the server's response says in two ways how long it is";

/// Headers that are about one connection, beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 4] = [
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
    TRANSFER_ENCODING,
];

/// Forwards a request, or answers 403 if contexts were mixed (there is no gate then). Every failure is a
/// response.
pub(crate) async fn forward(
    served: Arc<Served>,
    gate: Option<Arc<Gate>>,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let flight = Flight::begin(&served.meter);
    let begun = SystemClock.elapsed();
    let told = tracing::enabled!(tracing::Level::INFO)
        .then(|| (request.method().clone(), request.uri().path().to_owned()));
    let discovery = matches!(request.uri().path(), "/api" | "/apis");
    // Which says itself where each request ends.
    let http2 = request.version() == Version::HTTP_2;
    let progress = Progress::of(request.body());
    let checked = gate.map_or(Err(MIXED), |gate| gate.check(&request));
    let state = served.state();
    let passed = match (checked, &*state) {
        (Err(refusal), _) => Err(refuse(&served, refusal)),
        (Ok(()), State::Closed(closed)) => Err(close(&served, closed)),
        (Ok(()), State::Open(route)) => pass(&served, route, request, &progress, flight).await,
    };
    let mut response = passed.unwrap_or_else(|(code, message)| {
        if discovery { status::text(code, &message) } else { status::response(code, &message) }
    });
    // What is left of a body could be taken for the next request.
    if !http2 && !progress.is_over() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let took = SystemClock.elapsed().saturating_sub(begun);
    served.meter.answered(response.status(), took);
    if let Some((method, path)) = told {
        // Without its query, which holds the words of commands.
        tracing::info!(
            context = served.name,
            %method,
            path,
            status = response.status().as_u16(),
            seconds = took.as_secs_f64(),
            "request"
        );
    }
    Ok(response)
}

/// Why there is no answer of the server, and the code that stands for it.
type Told = (StatusCode, Cow<'static, str>);

fn refuse(served: &Served, refusal: Refusal) -> Told {
    served.meter.refused(refusal.reason);
    tracing::warn!(context = served.name, reason = refusal.reason, "refused a request");
    (refusal.code, refusal.message.into())
}

/// The kubeconfig or the policy in force does not let it pass.
fn close(served: &Served, closed: &Closed) -> Told {
    served.meter.refused(closed.reason);
    tracing::warn!(context = served.name, reason = closed.reason, "refused a request");
    (StatusCode::FORBIDDEN, closed.message.clone().into())
}

async fn pass(
    served: &Served,
    route: &Route,
    mut request: Request<Incoming>,
    progress: &Progress,
    flight: Flight,
) -> Result<Response<Answer>, Told> {
    let upgrade = wanted_upgrade(request.headers());
    if upgrade.is_some() && !request.body().is_end_stream() {
        return Err(refuse(served, UPGRADE_WITH_BODY));
    }
    let client = upgrade.map(|protocol| (protocol, hyper::upgrade::on(&mut request)));
    let (mut head, body) = request.into_parts();
    let target =
        gate::target(&head.method, &head.uri).map_err(|refusal| refuse(served, refusal))?;
    strip(&mut head.headers);
    // The server's own name is put there instead.
    head.headers.remove(HOST);
    if head.headers.contains_key(ORIGIN)
        && let Ok(origin) = HeaderValue::from_str(&route.client.origin().to_string())
    {
        // It was the address that the client calls: some servers compare it with the host.
        head.headers.insert(ORIGIN, origin);
    }
    if let Some((protocol, _)) = &client {
        head.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        head.headers.insert(UPGRADE, HeaderValue::from_static(protocol));
    }
    let body = if body.is_end_stream() {
        if gate::length(&head.headers).is_some_and(|length| length > 0) {
            return Err(refuse(served, BROKEN_BODY));
        }
        Body::empty()
    } else {
        Body::replayable(Upload::new(body, progress, head.version == Version::HTTP_2), REPLAY)
    };
    let mut passed = Request::new(body);
    *passed.method_mut() = head.method;
    *passed.uri_mut() = target;
    *passed.headers_mut() = head.headers;

    let mut closed = route.closed.subscribe();
    let sent = tokio::select! {
        sent = route.client.send(passed) => sent,
        Ok(_) = closed.wait_for(|closed| *closed) => {
            let State::Closed(closed) = &*served.state() else { return Err(refuse(served, CHANGED)) };
            return Err(close(served, closed));
        }
    };
    let mut response = sent.map_err(|error| match progress.fault() {
        Some(fault) => refuse(served, fault),
        None => lost(served, &error),
    })?;
    if is_ambiguous(response.headers()) {
        return Err(failed(served, AMBIGUOUS.to_owned()));
    }
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // To anything else than what was asked for it could carry whatever it likes.
        let agreed =
            client.filter(|(wanted, _)| wanted_upgrade(response.headers()) == Some(wanted));
        let (protocol, client) = agreed.ok_or_else(|| failed(served, UNASKED_CHANGE.to_owned()))?;
        let upstream = hyper::upgrade::on(&mut response);
        tunnel::open(served, protocol, client, upstream, flight);
        // Both headers of the change belong to it and are passed on.
        return Ok(response.map(|_| Answer::empty()));
    }
    strip(response.headers_mut());
    let (mut head, body) = response.into_parts();
    head.version = Version::HTTP_11;
    head.extensions.clear();
    Ok(Response::from_parts(head, Answer::Server { body, _flight: flight }))
}

/// Whether two readers could disagree about where a response ends. What is read here as one length would be
/// passed on as another, or a coding be lost.
fn is_ambiguous(headers: &HeaderMap) -> bool {
    let coded = headers.contains_key(TRANSFER_ENCODING);
    let measured = headers.contains_key(CONTENT_LENGTH);
    (coded && (measured || !gate::is_chunked(headers)))
        || (measured && gate::length(headers).is_none())
}

/// Takes away what is about the connection a message came on.
fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = gate::named(headers).collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(CONNECTION);
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove(UPGRADE);
    if let Some(te) = headers.get(TE)
        && te != "trailers"
    {
        headers.remove(TE);
    }
}

/// There is no response of the server: says why.
fn lost(served: &Served, error: &keyward::Error) -> Told {
    let code = match error.kind() {
        Kind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(reason) = cause {
        message = format!("{message}: {reason}");
        cause = reason.source();
    }
    let mut words = String::new();
    let mut hint = String::new();
    let mut shown = false;
    if let Some(credential) = error.credential() {
        for (label, note) in credential.notes() {
            message = format!("{message}; {label}: {note}");
        }
        let said = credential.stderr().and_then(last_words);
        words = said.map(|said| format!("; it said: {said}")).unwrap_or_default();
        hint = credential.hint().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
        shown = credential.stderr_shown();
    }
    let safe = |text: &str| inline(&redact(text));
    let told = safe(&format!("{message}{words}{hint}"));
    // The plugin's own words were passed on to whoever reads the log when they came.
    let logged = if shown { safe(&format!("{message}{hint}")) } else { told.clone() };
    note(served, &logged);
    (code, told.into())
}

/// There is no response of the server that can be passed on.
fn failed(served: &Served, message: String) -> Told {
    note(served, &message);
    (StatusCode::BAD_GATEWAY, message.into())
}

/// Clients ask again and again; whoever reads the log need not.
fn note(served: &Served, message: &str) {
    if served.note(message.to_owned()) {
        tracing::warn!(context = served.name, "{message}");
    }
}

/// What a plugin said last, in one line.
fn last_words(stderr: &str) -> Option<String> {
    const LINES: usize = 3;
    let said: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &said[said.len().saturating_sub(LINES)..];
    (!last.is_empty()).then(|| last.join(" / "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_belongs_to_the_connection_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Mine"),
            ("connection", "close"),
            ("x-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("upgrade", "websocket"),
            ("accept", "*/*"),
            ("trailer", "x-sum"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "trailer"]);
        headers.insert(TE, "trailers".parse().unwrap());
        strip(&mut headers);
        assert!(headers.contains_key(TE));
    }
}
