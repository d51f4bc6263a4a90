//! The plugin of the demo: a real plugin that asks the issuer in the demo's process.

use std::{path::PathBuf, process::ExitCode};

use keyward_demo::issuer;

/// The credential plugin of `keyward demo`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the issuer listens
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,

    /// The account to get a credential for
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
