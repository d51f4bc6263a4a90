//! One request, from its head to its answer.

use std::{io, sync::Arc, time::Duration};

use http::{Request, StatusCode, header};
use hyper::body::Incoming;

use super::{
    Shared,
    answer::{Answer, failure, set, usual},
    body::Body,
    connection::Connection,
    fault::Deed,
    record::{Record, down, up},
    route::Caller,
    users::{Proof, User},
};
use crate::clock;

/// How long an answer's head gets to leave before the connection is cut after it.
const HEAD_START: Duration = Duration::from_millis(20);

/// Answers a request. An error ends the connection without an answer.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Answer, io::Error> {
    up(&shared.counters.requests);
    let _waiting = Waiting::begin(&shared);
    let count = connection.request();
    let known = shared.users.identify(
        request.uri().path(),
        request.headers(),
        connection.facts.certificate.as_ref(),
        clock::now(),
    );
    let mut record =
        shared.recorder.wanted().then(|| record(&connection, &request, known.as_ref()));
    let answer = decide(&shared, &connection, request, known).await;
    if let Ok(answer) = &answer {
        shared.counters.answered(answer.status());
    }
    if let Some(mut record) = record.take() {
        record.status = answer.as_ref().ok().map(http::Response::status);
        shared.recorder.push(record);
    }
    let (cut, go_away) = shared.faults.worn(count);
    if cut {
        cut_soon(connection);
    } else if go_away {
        connection.drain();
    }
    answer.map(|answer| dated(&shared, answer))
}

async fn decide(
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    request: Request<Incoming>,
    known: Option<(User, Proof)>,
) -> Result<Answer, io::Error> {
    let path = request.uri().path();
    let name = known.as_ref().map(|(user, _)| user.name.as_str());
    let mut cut_after_head = false;
    for deed in shared.faults.meet(request.method(), path, name) {
        match deed {
            Deed::Answer(status) => return Ok(usual(status, name, path)),
            Deed::Repeat(status) => {
                let sent = request.headers().get(header::AUTHORIZATION);
                let sent = sent.and_then(|value| value.to_str().ok()).unwrap_or_default();
                return Ok(failure(status, &format!("you sent `{sent}`")));
            }
            Deed::Delay(time) => tokio::time::sleep(time).await,
            Deed::Redirect(status, to) => {
                let mut answer = Answer::new(Body::empty());
                *answer.status_mut() = status;
                set(&mut answer, header::LOCATION, &to);
                return Ok(answer);
            }
            Deed::Cut => {
                connection.cut();
                return Err(io::Error::other("cut on purpose"));
            }
            Deed::CutAfterHead => cut_after_head = true,
        }
    }
    let Some((user, proof)) = known else {
        return Ok(usual(StatusCode::UNAUTHORIZED, None, path));
    };
    let caller = Caller { user, proof, connection: connection.clone() };
    let answer = shared.api.answer(caller, request).await;
    if !cut_after_head {
        return Ok(answer);
    }
    cut_soon(connection.clone());
    Ok(answer.map(|_| Body::Never(1024)))
}

/// Cuts a connection once the written data has had time to leave.
fn cut_soon(connection: Arc<Connection>) {
    tokio::spawn(async move {
        tokio::time::sleep(HEAD_START).await;
        connection.cut();
    });
}

fn record(
    connection: &Connection,
    request: &Request<Incoming>,
    known: Option<&(User, Proof)>,
) -> Record {
    let mut headers = request.headers().clone();
    if let Some(value) = headers.get_mut(header::AUTHORIZATION) {
        // Still readable by code, but hidden when printed.
        value.set_sensitive(true);
    }
    Record {
        connection: connection.id,
        version: request.version(),
        tls: connection.facts.tls,
        resumed: connection.facts.resumed,
        server_name: connection.facts.server_name.clone(),
        method: request.method().clone(),
        uri: request.uri().clone(),
        headers,
        serial: connection.facts.serial,
        user: known.map(|(user, _)| user.name.clone()),
        proof: known.map(|(_, proof)| *proof),
        status: None,
    }
}

/// Changes the `Date` header if the server's clock should look wrong.
fn dated(shared: &Shared, mut answer: Answer) -> Answer {
    let skew = shared.faults.skew();
    if skew != 0 {
        let now = clock::now();
        let distance = Duration::from_secs(skew.unsigned_abs());
        let moved = if skew > 0 { now.checked_add(distance) } else { now.checked_sub(distance) };
        let date = httpdate::fmt_http_date(moved.unwrap_or(now));
        set(&mut answer, header::DATE, &date);
    }
    answer
}

/// Counts a request as unanswered while this lives, even if the client gives up.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn begin(shared: &'a Shared) -> Self {
        up(&shared.counters.waiting);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        down(&self.0.counters.waiting);
    }
}
