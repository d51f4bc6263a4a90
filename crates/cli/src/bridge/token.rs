//! `keyward-provider-token`: logs in with the pod's service account token, for registries that
//! accept it.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::Parser;
use keyward_node::parse;
use keyward_plugin::{ImageQuestion, Logins, Refusal, serve_image};
use keyward_protocol::image::token_expiry;

/// Log in to registries with the pod's service account token
///
/// An image credential provider, started by the kubelet or by Keyward, with a token if the
/// provider's configuration has `tokenAttributes` with `cacheType: Token`. The token becomes the
/// password, and is cached until it expires.
#[derive(Debug, Parser)]
#[command(name = "keyward-provider-token", version)]
pub(super) struct Args {
    /// The user name to send with the token; most registries ignore it
    #[arg(long, value_name = "NAME", default_value = "service-account")]
    username: String,

    /// Take the user name from this annotation of the service account, if it has one
    #[arg(long, value_name = "KEY")]
    username_annotation: Option<String>,
}

/// Answers the kubelet.
pub(super) fn main(args: &[OsString]) -> ExitCode {
    let args: Args = match parse(super::Bridge::Token.name(), args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    serve_image(|question: &ImageQuestion| logins(&args, question))
}

fn logins(args: &Args, question: &ImageQuestion) -> Result<Logins, Refusal> {
    let token = question.require_token()?.expose();
    let annotated = args.username_annotation.as_deref().and_then(|key| question.annotation(key));
    let logins = Logins::for_registry(annotated.unwrap_or(&args.username), token);
    Ok(match token_expiry(token) {
        // The token's own expiry counts.
        Some(_) => logins,
        None => logins.kept_for(Duration::ZERO),
    })
}
