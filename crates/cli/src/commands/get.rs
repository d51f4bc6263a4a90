//! `keyward get --raw PATH`: sends one request with the context's credential.

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
    #[arg(long, value_name = "PATH", value_parser = path, required_unless_present = "resource")]
    raw: Option<String>,

    /// What kubectl's `get` would be given, to say what to use instead
    #[arg(hide = true)]
    resource: Option<String>,

    /// The rest of kubectl's arguments
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,

    #[command(flatten)]
    server: server::Args,
}

pub(crate) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let raw = match (&args.raw, &args.resource) {
        (Some(raw), None) => raw,
        (_, resource) => return Err(misread(resource.as_deref().unwrap_or_default(), &args.rest)),
    };
    let server = Server::open(&args.server, globals)?;
    let request = Request::get(raw)
        .body(Body::empty())
        .map_err(|_| Failure::usage(format!("`{}` is not a path", output::inline(raw))))?;
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
        Ok(())
    })
}

/// What to use instead of `keyward get RESOURCE` or `keyward get PATH`.
fn misread(resource: &str, rest: &[String]) -> Failure {
    let shown = output::inline(resource);
    if resource.starts_with('/') {
        return Failure::usage(format!("the path `{shown}` needs `--raw` in front of it"))
            .hint(format!("keyward get --raw {}", output::quoted(resource)));
    }
    let words = std::iter::once(resource).chain(rest.iter().map(String::as_str));
    let words = words.map(output::quoted).collect::<Vec<_>>().join(" ");
    Failure::usage(format!("`keyward get` gets paths, not resources such as `{shown}`")).hint(
        format!(
            "kubectl gets resources with Keyward's credentials: `keyward proxy -- kubectl get {words}`, \
             or `keyward wrap` once and then `kubectl get {words}`"
        ),
    )
}

/// Accepts a path, not a URL: the server is the kubeconfig's.
fn path(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("a path begins with `/`; the server comes from the kubeconfig".to_owned())
    }
}
