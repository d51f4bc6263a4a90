//! Requests to the server: a client for the target, and the exit codes for its answers.

use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use keyward::{
    Body, Client, Incoming, Kind,
    client::{Builder, Opened},
};
use keyward_host::{Plan, Source, Sources};
use keyward_protocol::{text::causes, url};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{
    duration,
    failure::{Failure, SERVER_SAID},
    globals::Globals,
    output::{self, inline},
    waiting::Waiting,
};

/// Objects and error messages are small.
const MOST: usize = 8 << 20;

/// How long a small body may take after its first bytes.
const PATIENCE: Duration = Duration::from_secs(30);

/// How to connect to the server, for the commands that do.
///
/// Not a clap group: it would have the same name as the command's own.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Also get a new credential when the server answers 403, within the same backoff as for 401
    #[arg(long)]
    refresh_on_403: bool,
}

/// A client of this program.
pub(crate) fn builder() -> Builder {
    Client::builder().user_agent(concat!("keyward/", env!("CARGO_PKG_VERSION")))
}

/// What one request at a time needs: one thread.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::of("cannot start the runtime"))
}

/// A server, with the user of the target.
pub(crate) struct Server {
    opened: Opened,
    limit: Option<Duration>,
    runtime: Runtime,
}

impl Server {
    /// The server of the target. Runs nothing and opens no connection.
    pub(crate) fn open(args: &Args, globals: &Globals) -> Result<Self, Failure> {
        let mut builder = builder();
        if args.refresh_on_403 {
            builder = builder.refresh_on_403();
        }
        let opened = globals.open(globals.target()?, builder, Sources::global())?;
        Ok(Self { opened, limit: globals.request_timeout(), runtime: runtime()? })
    }

    pub(crate) fn rest(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Sends a request and passes the response to `read`, which may take long for the body.
    pub(crate) fn ask<R>(
        &self,
        request: Request<Body>,
        read: impl AsyncFnOnce(Response<Incoming>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.runtime.block_on(async {
            let Opened { client, source, plan } = &self.opened;
            let waiting = Waiting::begin(plan, source, Some(&plan.target().cluster.value.server));
            let response = client.send(request).await;
            drop(waiting);
            read(response.map_err(|error| self.explain(error))?).await
        })
    }

    /// Sends a request, and reads the whole small body of the response.
    pub(crate) fn ask_bytes(
        &self,
        request: Request<Body>,
    ) -> Result<(StatusCode, Vec<u8>), Failure> {
        self.ask(request, async |response| {
            Ok((response.status(), bytes(response.into_body()).await?))
        })
    }

    /// Says which plugin or server did not answer in time.
    fn explain(&self, error: keyward::Error) -> Failure {
        let (Kind::TimedOut, Some(limit)) = (error.kind(), self.limit) else { return error.into() };
        let limit = duration::show(limit);
        let Opened { source, plan, .. } = &self.opened;
        let (what, label) = if source.current().is_none() {
            (format!("no credential within {limit}"), "needed by")
        } else {
            let server = inline(&url::mask(&plan.target().cluster.value.server));
            (format!("server `{server}` did not answer within {limit}"), "asked by")
        };
        Failure::failed(what)
            .passing(source.current().is_some())
            .note(label, output::user(plan.target()))
            .hint("`--request-timeout` sets the limit for plugin and server together")
    }

    /// Sends a request, with an object if given, and reads the object in the answer.
    pub(crate) fn ask_json(
        &self,
        request: http::request::Builder,
        object: Option<&Value>,
    ) -> Result<Value, Failure> {
        let has_type = |headers: &http::HeaderMap| headers.contains_key(header::CONTENT_TYPE);
        let request = match request.headers_ref() {
            // A patch says of which kind it is.
            Some(headers) if has_type(headers) => request,
            _ => request.header(header::CONTENT_TYPE, "application/json"),
        };
        let request = request
            .header(header::ACCEPT, "application/json")
            .body(object.map_or_else(Body::empty, |object| Body::from(object.to_string())))
            .map_err(|error| Failure::failed(error.to_string()))?;
        let (status, body) = self.ask_bytes(request)?;
        if !status.is_success() {
            return Err(self.identify(status, refusal(status, &body)));
        }
        serde_json::from_slice(&body)
            .map_err(|_| Failure::failed("the server's answer is not JSON"))
    }

    /// What a server's refusal says, if it ends, and of which credential.
    pub(crate) async fn refused(&self, response: Response<Incoming>) -> Failure {
        let status = response.status();
        self.identify(status, refused(response).await)
    }

    /// Says of a 401 which credential was refused, and whether another was tried.
    pub(crate) fn identify(&self, status: StatusCode, failure: Failure) -> Failure {
        identify(status, failure, &self.opened.source, &self.opened.plan)
    }
}

/// Says of a 401 which credential was refused, and whether another was tried.
pub(crate) fn identify(
    status: StatusCode,
    failure: Failure,
    source: &Source,
    plan: &Plan,
) -> Failure {
    if status != StatusCode::UNAUTHORIZED {
        return failure;
    }
    let failure = failure.note("refused is", output::user(plan.target()));
    let Some(plugin) = plan.plugin() else {
        return failure.hint("`keyward plan` shows where this user's credential comes from");
    };
    let name = inline(plugin.command());
    let tried = match source.history().error {
        Some(error) => format!("plugin `{name}` was run again and failed: {error}"),
        None => format!("plugin `{name}` was run again, which did not help"),
    };
    failure.note("renewal", tried).hint(
        "the server does not accept the plugin's credential: check the account it is logged in \
         with; `keyward plan` shows what it is told",
    )
}

/// Reads a whole small body.
pub(crate) async fn bytes(body: Incoming) -> Result<Vec<u8>, Failure> {
    match tokio::time::timeout(PATIENCE, Limited::new(body, MOST).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) => Err(lost(&*error)),
        Err(_) => {
            let limit = duration::show(PATIENCE);
            let what = format!("the answer did not end within {limit}");
            Err(Failure::failed(what).passing(true))
        }
    }
}

/// The message of a server's refusal, if its body ends.
pub(crate) async fn refused(response: Response<Incoming>) -> Failure {
    let status = response.status();
    match bytes(response.into_body()).await {
        Ok(body) => refusal(status, &body),
        Err(failure) => refusal(status, b"").note("its words", failure.message()),
    }
}

/// The failure for a response that broke off.
pub(crate) fn lost(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Failure {
    Failure::of("the connection ended before the answer was complete")(error).passing(true)
}

/// The message of a server's refusal: that of a Kubernetes `Status`, or the raw text.
pub(crate) fn refusal(status: StatusCode, body: &[u8]) -> Failure {
    let said = serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|value| value["message"].as_str().map(str::to_owned))
        .unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned());
    let passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let mut failure = Failure::failed(format!("the server answered {status}")).passing(passing);
    if !said.is_empty() {
        failure = failure.note(SERVER_SAID, inline(&said));
    }
    match status {
        StatusCode::FORBIDDEN => {
            failure.hint("`keyward whoami` shows who the server authenticates you as")
        }
        _ => failure,
    }
}

/// Each error of the chain describes only its own part, so each gets a line.
impl From<keyward::Error> for Failure {
    fn from(error: keyward::Error) -> Self {
        if let Some(credential) = error.credential() {
            return credential.clone().into();
        }
        let passing = matches!(error.kind(), Kind::Connect | Kind::Lost | Kind::TimedOut);
        let mut failure = Self::failed(error.to_string()).passing(passing);
        for cause in causes(&error) {
            failure = failure.note("cause", cause.to_string());
        }
        failure
    }
}
