//! `keyward get --raw PATH`: sends one request with the context's credential.

use std::process::ExitCode;

use http::Request;
use http_body_util::BodyExt;
use keyward::Body;

use crate::{
    failure::Failure,
    globals::Globals,
    output,
    server::{self, Server},
};

/// Get a path of the server and print the answer as it arrives
///
/// The exit code is 0 for a 2xx answer; otherwise 1, with the server's message on stderr.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # Which version the server is.
  keyward get --raw /version

  # Follow the pods of a namespace of another context.
  keyward get --context prod --raw '/api/v1/namespaces/web/pods?watch=true'")]
pub(crate) struct Args {
    /// The path, including any query
    #[arg(long, value_name = "PATH", value_parser = path)]
    raw: String,

    #[command(flatten)]
    server: server::Args,
}

/// Sends the request and prints the answer.
pub(crate) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    let server = Server::open(&args.server, globals)?;
    let request = Request::get(&args.raw)
        .body(Body::empty())
        .map_err(|_| Failure::usage(format!("`{}` is not a path", output::inline(&args.raw))))?;
    server.ask(request, async |response| {
        if !response.status().is_success() {
            return Err(server.refused(response).await);
        }
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| server::lost(&*error))?;
            if let Some(data) = frame.data_ref() {
                output::print_bytes(data)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Accepts a path, not a URL: the server is the kubeconfig's.
fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("a path begins with `/`; the server comes from the kubeconfig".to_owned())
    }
}
