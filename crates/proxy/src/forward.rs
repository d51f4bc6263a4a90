//! One request, from a client to the server and back.

use std::{convert::Infallible, pin::pin, sync::Arc};

use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, HOST, ORIGIN, TE, TRANSFER_ENCODING, UPGRADE},
};
use http_body::Body as _;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use keyward::{Body, Kind, client::Sending};
use keyward_host::redact::redact;
use keyward_process::clock::{Clock, SystemClock};
use keyward_protocol::text::{inline, with_causes};

use crate::{
    activity::Activity,
    audience::Audience,
    body::{Answer, Progress, Upload},
    context::{ServedContext, State},
    gate::{self, Connection, Gate, wanted_upgrade},
    grants::{self, Grant, Record},
    kube_status,
    refusal::{BROKEN_BODY, CHANGED, ENDED, MIXED, Refusal, UPGRADE_WITH_BODY},
    request_stats::OpenRequest,
    route::Route,
    tunnel,
};

/// How much of a body is kept until the response arrives, to be sent again after a 401.
const REPLAY: usize = 256 * 1024;

const UNASKED_CHANGE: &str = "the server upgraded to a protocol that was not requested";
const AMBIGUOUS: &str = "the server's response has conflicting lengths";

/// Headers of a single connection, besides those that `Connection` names.
static HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("http2-settings"),
];

/// Decides which requests of a client are forwarded.
pub(crate) enum Access {
    /// Forwards requests that pass the gate of the port.
    Checked(Arc<Gate>),
    /// Forwards requests that pass the gate and that a grant allows.
    Granted(Arc<Gate>, Arc<Grant>),
    /// Forwards none: the port belongs to one context and the client's certificate to another.
    MixedContexts,
}

impl Access {
    fn check<B>(&self, request: &Request<B>) -> Result<Connection, Refusal> {
        match self {
            Self::Checked(gate) | Self::Granted(gate, _) => gate.check(request),
            Self::MixedContexts => Err(MIXED),
        }
    }

    /// The record of a request under a grant. Boxed, because few requests have one and the future of every request is moved.
    fn record<B>(&self, request: &Request<B>) -> Option<Box<Record>> {
        match self {
            Self::Granted(_, grant) => Some(Box::new(Record::begin(grant, request))),
            _ => None,
        }
    }
}

/// Forwards a request to the server of a context. Every failure is a response.
///
/// Prepared outside of the future, which would have room for each stage of the request, and is moved.
pub(crate) fn forward(
    context: Arc<ServedContext>,
    access: &Access,
    connection: &Arc<Activity>,
    mut request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Answer>, Infallible>> + Send + use<> {
    let mut open = OpenRequest::begin(&context.stats, connection);
    let begun = SystemClock.elapsed();
    let told = tracing::enabled!(tracing::Level::INFO)
        .then(|| (request.method().clone(), request.uri().path().to_owned()));
    let audience = Audience::of(&request);
    // Which says itself where each request ends.
    let http2 = request.version() == Version::HTTP_2;
    let progress = Progress::of(request.body());
    let state = context.state();
    let mut record = access.record(&request);
    let mut checked = access.check(&request);
    if let Some(record) = &mut record {
        checked = record.combine_with_gate(checked);
        record.grant().impersonate(request.headers_mut());
    }
    // `None` if the proxy answers itself.
    let mut sent = match (checked, &*state) {
        (Err(refusal), _) => Err(refusal),
        (Ok(_), _) if audience == Audience::Placeholder => Ok(None),
        (Ok(_), State::Closed(refusal)) => Err(refusal.clone()),
        (Ok(connection), State::Open(route)) => {
            send(route, request, &connection, &progress, &mut open).map(Some)
        }
    };
    async move {
        let passed = match (&mut sent, &*state) {
            (Err(refusal), _) => Err(refusal.clone()),
            (Ok(Some(sent)), State::Open(route)) => {
                let grant = record.as_deref().map(Record::grant);
                // Pinned, because `select` would move the large future of every request.
                let receiving = pin!(receive(&context, route, sent, &progress, open, grant));
                // Awaited in one place: in each of two, this future, which every request has, would have room for it.
                tokio::select! {
                    biased;
                    () = grants::ended(grant) => Err(ENDED),
                    received = receiving => received,
                }
            }
            (Ok(_), _) => Ok(kube_status::no_resources()),
        };
        let passed = passed.and_then(|response| match &*state {
            State::Open(route) if audience.is_discovery() => explained(&context, route, response),
            _ => Ok(response),
        });
        let mut response = passed.unwrap_or_else(|refusal| {
            let refusal = match &record {
                Some(record) => record.discreet(refusal),
                None => refusal,
            };
            if let Some(reason) = refusal.reason {
                context.stats.refused(reason);
                tracing::warn!(context = context.name, reason, "refused a request");
            }
            audience.answer(refusal.code, &refusal.message)
        });
        // What is left of a body could be taken for the next request.
        if !http2 && !progress.is_over() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(record) = &mut record {
            record.answered(&response);
        }
        let took = SystemClock.elapsed().saturating_sub(begun);
        context.stats.answered(response.status(), took);
        if let Some((method, path)) = told {
            // Without its query, which contains the words of commands.
            tracing::info!(
                context = context.name,
                %method,
                path,
                status = response.status().as_u16(),
                seconds = took.as_secs_f64(),
                "request"
            );
        }
        Ok(response)
    }
}

/// A request on its way to the server.
struct Sent {
    response: Sending,
    /// The protocol that the client wants to switch to, and its side of the connection.
    upgrade: Option<(&'static str, OnUpgrade)>,
}

/// Makes a checked request one for the server, which is sent as soon as its response is waited for.
fn send(
    route: &Route,
    mut request: Request<Incoming>,
    connection: &Connection,
    progress: &Progress,
    open: &mut OpenRequest,
) -> Result<Sent, Refusal> {
    let upgrade = wanted_upgrade(request.headers());
    if let Some(kind) = upgrade.or_else(|| lasting(request.uri().query()?)) {
        open.list(kind, request.uri().path());
    }
    if upgrade.is_some() && !request.body().is_end_stream() {
        return Err(UPGRADE_WITH_BODY);
    }
    let upgrade = upgrade.map(|protocol| (protocol, hyper::upgrade::on(&mut request)));
    let (mut head, body) = request.into_parts();
    let target = gate::target(&head.method, &head.uri)?;
    strip(&mut head.headers, connection);
    // Replaced by the server's own name.
    head.headers.remove(HOST);
    if head.headers.contains_key(ORIGIN)
        && let Ok(origin) = HeaderValue::from_str(&route.client.origin().to_string())
    {
        // It was the proxy's address: some servers compare it with the host.
        head.headers.insert(ORIGIN, origin);
    }
    if let Some((protocol, _)) = &upgrade {
        head.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        head.headers.insert(UPGRADE, HeaderValue::from_static(protocol));
    }
    let body = if body.is_end_stream() {
        if gate::length(&head.headers).is_some_and(|length| length > 0) {
            return Err(BROKEN_BODY);
        }
        Body::empty()
    } else {
        Body::replayable(Upload::new(body, progress, head.version == Version::HTTP_2), REPLAY)
    };
    let mut passed = Request::new(body);
    *passed.method_mut() = head.method;
    *passed.uri_mut() = target;
    *passed.headers_mut() = head.headers;
    Ok(Sent { response: route.client.send(passed), upgrade })
}

/// Waits for the server's response to a request.
async fn receive(
    context: &ServedContext,
    route: &Route,
    sent: &mut Sent,
    progress: &Progress,
    open: OpenRequest,
    grant: Option<&Arc<Grant>>,
) -> Result<Response<Answer>, Refusal> {
    let mut closed = route.closed.subscribe();
    let received = tokio::select! {
        received = &mut sent.response => received,
        Ok(_) = closed.wait_for(|closed| *closed) => {
            return Err(match &*context.state() {
                State::Closed(refusal) => refusal.clone(),
                State::Open(_) => CHANGED,
            });
        }
    };
    let mut response =
        received.map_err(|error| progress.fault().unwrap_or_else(|| lost(context, &error)))?;
    if is_ambiguous(response.headers()) {
        return Err(failed(context, StatusCode::BAD_GATEWAY, AMBIGUOUS, AMBIGUOUS));
    }
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // Any other protocol could carry unchecked requests.
        let agreed = sent
            .upgrade
            .take()
            .filter(|(wanted, _)| wanted_upgrade(response.headers()) == Some(wanted));
        let (protocol, client) = agreed.ok_or_else(|| {
            failed(context, StatusCode::BAD_GATEWAY, UNASKED_CHANGE, UNASKED_CHANGE)
        })?;
        let upstream = hyper::upgrade::on(&mut response);
        tunnel::open(context, protocol, (client, upstream), open, grant.map(Grant::enter));
        // The headers of the upgrade are forwarded with it.
        return Ok(response.map(|_| Answer::empty()));
    }
    let connection = Connection::parse(response.headers());
    strip(response.headers_mut(), &connection);
    let (mut head, body) = response.into_parts();
    head.version = Version::HTTP_11;
    head.extensions.clear();
    Ok(Response::from_parts(head, Answer::Server { body, _open: open }))
}

/// What kind of stream a query asks the server for, if it does.
fn lasting(query: &str) -> Option<&'static str> {
    query.split('&').find_map(|pair| match pair.split_once('=')? {
        ("watch", "true" | "1") => Some("watch"),
        ("follow", "true" | "1") => Some("log"),
        _ => None,
    })
}

/// Whether two readers could disagree about where a response ends. A length read here in one way
/// could be forwarded in another, or a transfer coding be lost.
fn is_ambiguous(headers: &HeaderMap) -> bool {
    let coded = headers.contains_key(TRANSFER_ENCODING);
    let measured = headers.contains_key(CONTENT_LENGTH);
    (coded && (measured || !gate::is_chunked(headers)))
        || (measured && gate::length(headers).is_none())
}

/// Removes the headers of the connection that a message came on.
fn strip(headers: &mut HeaderMap, connection: &Connection) {
    for name in &connection.names {
        headers.remove(name);
    }
    // Few messages have one: looking once is quicker than removing each.
    if headers.keys().any(|name| HOP_BY_HOP.contains(name)) {
        for name in &HOP_BY_HOP {
            headers.remove(name);
        }
    }
    if let Some(te) = headers.get(TE)
        && te != "trailers"
    {
        headers.remove(TE);
    }
}

/// An error of the server that kubectl would show five times without the reason, as a refusal that
/// says it.
fn explained(
    context: &ServedContext,
    route: &Route,
    response: Response<Answer>,
) -> Result<Response<Answer>, Refusal> {
    let code = response.status();
    let user = inline(&route.target.user.name);
    let why = match code {
        StatusCode::UNAUTHORIZED if route.runs => format!(
            "the server rejects the credential of user `{user}`, and also the new one that was \
             fetched"
        ),
        StatusCode::UNAUTHORIZED => {
            format!("the server rejects the credential of user `{user}`, which cannot be renewed")
        }
        StatusCode::FORBIDDEN => {
            format!("the server does not let user `{user}` list the kinds of objects it has")
        }
        code if code.is_server_error() => format!("the server answers {code}"),
        _ => return Ok(response),
    };
    let name = inline(&context.name);
    let message = format!("context `{name}`: {why}{}", next_step(&name, None));
    Err(failed(context, code, &message, &message))
}

/// Explains why there is no response of the server.
fn lost(context: &ServedContext, error: &keyward::Error) -> Refusal {
    let code = match error.kind() {
        Kind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    let mut message = with_causes(error);
    let mut words = String::new();
    let mut hint = next_step(&context.name, None);
    let mut shown = false;
    if let Some(credential) = error.credential() {
        for (label, note) in credential.notes() {
            message = format!("{message}; {label}: {note}");
        }
        let said = credential.stderr().and_then(last_words);
        words = said.map(|said| format!("; it said: {said}")).unwrap_or_default();
        hint = next_step(&context.name, credential.hint());
        shown = credential.stderr_shown();
    }
    let safe = |text: &str| inline(&redact(text));
    let message = format!("context `{}`: {message}", context.name);
    let told = safe(&format!("{message}{words}{hint}"));
    // The plugin's stderr was already copied to the log.
    let logged = if shown { safe(&format!("{message}{hint}")) } else { told.clone() };
    failed(context, code, &told, &logged)
}

/// What to do next: as the hint says, or else to have the context checked.
pub(crate) fn next_step(context: &str, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!(" (hint: {hint})"),
        None => format!("; `keyward doctor --context {context}` checks it"),
    }
}

/// Explains why there is no response of the server that can be forwarded. Logs it once: clients retry all the
/// time.
fn failed(context: &ServedContext, code: StatusCode, message: &str, logged: &str) -> Refusal {
    if context.note(message.to_owned()) {
        tracing::warn!(context = context.name, "{logged}");
    }
    Refusal::server_failed(code, message.to_owned())
}

/// The last lines of a plugin's stderr, in one line.
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
        let connection = Connection::parse(&headers);
        strip(&mut headers, &connection);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "trailer"]);
        headers.insert(TE, "trailers".parse().unwrap());
        let connection = Connection::parse(&headers);
        strip(&mut headers, &connection);
        assert!(headers.contains_key(TE));
    }
}
