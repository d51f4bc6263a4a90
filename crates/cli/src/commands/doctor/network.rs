//! Connects to the server and asks it who we are, with one request.

use std::{sync::Arc, time::Duration};

use http::{Request, Response, StatusCode, header};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use keyward::{
    Body, Incoming, Origin,
    client::{Trace, Tracer},
};
use keyward_host::{Credential, Error, Fetched, Source, Target};
use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::url;
use serde_json::Value;

use super::{credential::Got, step::Check};
use crate::{
    commands::whoami,
    failure::Failure,
    globals::Globals,
    output::inline,
    server::{self, bytes, identify},
    waiting::Waiting,
};

/// How long a connection may take. A person is waiting for the report.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the server may take for its response, unless `--request-timeout` says otherwise.
const RESPOND: Duration = Duration::from_secs(30);

/// What came of the request.
pub(super) struct Reached {
    /// The server; `None` if the kubeconfig does not allow a client for it.
    pub(super) origin: Option<Origin>,
    pub(super) trace: Trace,
    /// The response, if there was one.
    pub(super) response: Option<Responded>,
    /// The server's answer to the question of who we are, or why there is none.
    pub(super) review: Result<Value, Failure>,
    /// The request had no credential, because there is none.
    pub(super) anonymous: bool,
}

/// The head of the response.
pub(super) struct Responded {
    pub(super) status: StatusCode,
    /// How far the server's clock is ahead of ours.
    pub(super) offset: Option<SignedDuration>,
    pub(super) took: Duration,
}

/// Sends the request.
pub(super) fn reach(globals: &Globals, target: &Target, got: &Got) -> Reached {
    let tracer = Tracer::recording();
    let anonymous = got.credential.is_none();
    let mut reached = Reached {
        origin: None,
        trace: Trace::default(),
        response: None,
        review: Ok(Value::Null),
        anonymous,
    };
    let source = match &got.opened {
        Some((_, source)) if !anonymous => source.clone(),
        _ => Source::from_fetch(nobody, Arc::new(SystemClock)),
    };
    let builder = server::builder().connect_timeout(CONNECT).tracer(&tracer);
    let limit = match globals.flags.request_timeout {
        Some(_) => globals.request_timeout(),
        None => Some(RESPOND),
    };
    let builder = match limit {
        Some(limit) => builder.response_timeout(limit),
        None => builder,
    };
    let open = || Ok((builder.build(target, source.clone())?, server::runtime()?));
    let (client, runtime) = match open() {
        Ok(opened) => opened,
        Err(failure) => {
            reached.review = Err(failure);
            return reached;
        }
    };
    reached.origin = Some(client.origin().clone());
    let server = &target.cluster.value.server;
    let waiting = match &got.opened {
        Some((plan, _)) => Waiting::begin(plan, &source, Some(server)),
        None => Waiting::on(format!("server `{}`", inline(&url::mask(server)))),
    };
    let mut response = None;
    let mut send = |request: Request<Body>| {
        runtime.block_on(async {
            let start = SystemClock.elapsed();
            let answer = client.send(request).await?;
            let took = SystemClock.elapsed().saturating_sub(start);
            let status = answer.status();
            response = Some(Responded { status, offset: offset(&answer), took });
            Ok((status, bytes(answer.into_body()).await?))
        })
    };
    reached.review = if anonymous {
        Request::get("/version")
            .body(Body::empty())
            .map_err(|error| Failure::failed(error.to_string()))
            .and_then(|request| send(request).map(|_| Value::Null))
    } else {
        whoami::review(send, |status, failure| match &got.opened {
            Some((plan, source)) => identify(status, failure, source, plan),
            None => failure,
        })
    };
    drop(waiting);
    reached.response = response;
    reached.trace = tracer.trace();
    reached
}

fn nobody(_: &keyward_host::Occasion) -> Result<Fetched<Credential>, Error> {
    Ok(Fetched { value: Credential::of(None, None, None)?, expires: None })
}

/// How far the server's clock is ahead of ours, by its `Date`, which has whole seconds.
fn offset(response: &Response<Incoming>) -> Option<SignedDuration> {
    let date = response.headers().get(header::DATE)?.to_str().ok()?;
    let theirs: Timestamp = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    Some(SystemClock.now().duration_until(theirs))
}

impl Reached {
    /// The step that failed on the way to a response.
    pub(super) fn broken(&self) -> Option<Check> {
        let trace = &self.trace;
        let https = self.origin.as_ref().is_some_and(Origin::is_https);
        if self.response.is_some() {
            return None;
        }
        Some(match trace {
            _ if self.origin.is_none() => Check::Entry,
            Trace { resolved: None, .. } => Check::Dns,
            Trace { connected: None, proxy: None, .. } => Check::Tcp,
            Trace { proxy: Some(_), tunnelled: None, .. } => Check::Proxy,
            Trace { secured: None, .. } if https => Check::Tls,
            _ => Check::Response,
        })
    }
}
