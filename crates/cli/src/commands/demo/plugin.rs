//! The plugin of the demo: asks the issuer in the demo's process, and is a real plugin otherwise.

use std::{path::PathBuf, process::ExitCode};

use keyward_demo::issuer;

/// The credential plugin of `keyward demo`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the issuer listens
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// For whom to get a credential
    #[arg(long, value_name = "NAME")]
    account: String,

    /// Answer as an image credential provider
    #[arg(long)]
    images: bool,
}

/// Answers the client that started us.
pub(crate) fn run(args: &Args) -> ExitCode {
    if args.images {
        return issuer::serve_images(&args.socket, &args.account);
    }
    issuer::serve(&args.socket, &args.account)
}
