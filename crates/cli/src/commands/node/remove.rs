//! `keyward node remove`: removes what `install` created.

use std::fs;

use super::{
    dir::{NodeDir, failed, unless_missing},
    kubelet::{self, Use},
};
use crate::{failure::Failure, flags, output};

/// Remove everything that `install` created on this node
///
/// Refuses while a running kubelet uses the directory, because that kubelet could not start again.
/// First removes the file that `install --request-restart` wrote, so that the node's own service
/// restarts the kubelet without the flags.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general())]
pub(super) struct Args {
    #[command(flatten)]
    dir: NodeDir,

    /// Remove everything even if it is not known whether a kubelet uses the directory
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let dir = &args.dir;
    let shown = output::path(&dir.path);
    if dir.path.exists() {
        let _lock = dir.lock()?;
        let request = dir.request();
        unless_missing(fs::remove_file(&request)).map_err(failed("remove", &request))?;
        unused(args, &shown)?;
        dir.remove_all()?;
    }
    output::tell(&format!("removed everything from `{shown}`\n"));
    Ok(())
}

/// Fails unless no kubelet uses the directory.
fn unused(args: &Args, shown: &str) -> Result<(), Failure> {
    let why = match kubelet::use_of(&args.dir.path) {
        Ok(Use::Unused) => return Ok(()),
        Ok(Use::Used(pid)) => {
            return Err(Failure::failed(format!("the kubelet, process {pid}, still uses `{shown}`"))
                .hint("restart it without `--image-credential-provider-config` and `--image-credential-provider-bin-dir`"));
        }
        _ if args.force => return Ok(()),
        Ok(Use::Hidden(pid)) => {
            format!("process {pid} has a kubelet inside, whose flags may be in a file")
        }
        Ok(Use::NoKubelet) => "no kubelet is running that could be asked".to_owned(),
        Err(error) => format!("the processes cannot be listed: {error}"),
    };
    Err(Failure::failed(format!("cannot tell whether a kubelet uses `{shown}`"))
        .note("cause", why)
        .hint("make sure that no flag or file of the kubelet names this directory, then use `--force`"))
}
