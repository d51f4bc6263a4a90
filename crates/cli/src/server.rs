//! The way to the server: a client for the target, and what its answers mean for an exit code.

use std::{error::Error as _, time::Duration};

use http::{Request, Response, StatusCode, header};
use keyward::{Body, Client, Incoming};
use keyward_host::Sources;
use serde_json::Value;

use crate::{failure::Failure, globals::Globals, output::inline};

/// How to talk to the server, for the commands that do.
///
/// No group of clap's: it would have the name of the command's own.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Also get a new credential when the server answers 403, within the same back-off as for 401
    #[arg(long)]
    refresh_on_403: bool,
}

/// A server, as the user of the target.
pub(crate) struct Server {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Server {
    /// The server of the target. Runs nothing, connects to nobody.
    pub(crate) fn open(args: &Args, globals: &Globals) -> Result<Self, Failure> {
        let target = globals.target()?;
        let plan = globals.plan(target.clone())?;
        let mut builder =
            Client::builder().user_agent(concat!("keyward/", env!("CARGO_PKG_VERSION")));
        if let Some(limit) = globals.flags.request_timeout.filter(|limit| !limit.is_zero()) {
            builder = builder.response_timeout(limit);
        }
        if args.refresh_on_403 {
            builder = builder.refresh_on_403();
        }
        let client = builder.build(&target, Sources::global().open(&plan))?;
        // One request at a time: one thread is all it needs.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { client, runtime })
    }

    /// Does nothing for a while.
    pub(crate) fn rest(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Sends a request and gives the response to `read`, which may take its time over the body.
    pub(crate) fn ask<R>(
        &self,
        request: Request<Body>,
        read: impl AsyncFnOnce(Response<Incoming>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.runtime.block_on(async { read(self.client.send(request).await?).await })
    }

    /// Sends a request, with an object where there is one, and reads the object that comes back.
    pub(crate) fn ask_json(
        &self,
        request: http::request::Builder,
        object: Option<&Value>,
    ) -> Result<Value, Failure> {
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(object.map_or_else(Body::empty, |object| Body::from(object.to_string())))
            .map_err(|error| Failure::failed(error.to_string()))?;
        let (status, body) = self.ask(request, async |response| {
            Ok((response.status(), bytes(response.into_body()).await?))
        })?;
        if !status.is_success() {
            return Err(refusal(status, &body));
        }
        serde_json::from_slice(&body)
            .map_err(|_| Failure::failed("the server's answer is not JSON"))
    }
}

/// Reads a whole body.
pub(crate) async fn bytes(body: Incoming) -> Result<Vec<u8>, Failure> {
    let body = body.bytes().await.map_err(|error| lost(&*error))?;
    Ok(body.into())
}

/// The response broke off.
pub(crate) fn lost(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Failure {
    Failure::failed("the connection ended before the whole answer was there")
        .note("cause", error.to_string())
}

/// What a server's refusal says: the message of a Kubernetes `Status`, or the text as it is.
pub(crate) fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let said = serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|value| value["message"].as_str().map(str::to_owned))
        .unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
    let mut failure = Failure::failed(format!("the server answered {status}"));
    if !said.is_empty() {
        failure = failure.note("it said", inline(&said));
    }
    match status {
        StatusCode::UNAUTHORIZED => failure.hint("`keyward plan` shows which credential was sent"),
        StatusCode::FORBIDDEN => failure.hint("`keyward whoami` shows who the server takes us for"),
        _ => failure,
    }
}

/// Each error of the chain says only its own part, so each gets a line.
impl From<keyward::Error> for Failure {
    fn from(error: keyward::Error) -> Self {
        if let Some(credential) = error.credential() {
            return credential.clone().into();
        }
        let mut failure = Self::failed(error.to_string());
        let mut cause = error.source();
        while let Some(reason) = cause {
            failure = failure.note("cause", reason.to_string());
            cause = reason.source();
        }
        failure
    }
}
