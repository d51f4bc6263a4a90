//! `keyward image install DIR`: creates the bridges as symlinks to this program or to one beside it.

use std::{
    env,
    fmt::Write as _,
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    bridge::{self, Bridge},
    failure::Failure,
    flags,
    output::{self, Output},
};

/// Create the bridges in a directory, as symlinks
///
/// The symlinks lead to this program, and that of `keyward-provider-node` to the program of this name beside it, if it
/// is installed. `docker-credential-keyward` lets docker, podman and skopeo ask image credential providers;
/// `keyward-provider-docker`, `keyward-provider-token` and `keyward-provider-node` are such
/// providers. Existing files are kept and reported, unless `--force`.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general(), after_long_help = "\
Examples:
  # Where docker finds its helpers.
  keyward image install ~/.local/bin

  # Where the kubelet finds its providers (--image-credential-provider-bin-dir).
  keyward image install /etc/kubernetes/image-credential-provider")]
pub(crate) struct Args {
    /// The directory, which must exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Replace existing files of these names
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    output: Output,
}

/// The result. Documented in `docs/cli.md`.
#[derive(Serialize)]
struct Report {
    /// This program, the target of the links.
    program: PathBuf,
    links: Vec<Link>,
}

#[derive(Serialize)]
struct Link {
    path: PathBuf,
    /// Whether the link was created now; otherwise it existed already.
    made: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let program = bridge::program()?;
    if !args.folder.is_dir() {
        let shown = output::path(&args.folder);
        return Err(Failure::failed(format!("`{shown}` is not a directory")));
    }
    let mut links = Vec::new();
    for bridge in Bridge::ALL {
        let path = args.folder.join(format!("{}{}", bridge.name(), env::consts::EXE_SUFFIX));
        let shown = output::path(&path);
        let target = bridge.beside(&program).unwrap_or_else(|| program.clone());
        let leads_to = |target: &Path| fs::canonicalize(&path).is_ok_and(|found| found == target);
        let made = !leads_to(&target);
        if made {
            // Older versions made a link to this program.
            let is_other = fs::symlink_metadata(&path).is_ok() && !leads_to(&program);
            if is_other && !args.force {
                let what = format!("`{shown}` exists and is not a link to this program");
                return Err(Failure::failed(what).hint("`--force` replaces it"));
            }
            link(&target, &path).map_err(Failure::of(format!("`{shown}` cannot be created")))?;
        }
        links.push(Link { path, made });
    }
    let report = Report { program, links };
    args.output.print(&report, || layout(&report.links))
}

fn layout(links: &[Link]) -> String {
    let mut out = String::new();
    for link in links {
        let shown = output::path(&link.path);
        let done = if link.made { "made" } else { "exists already" };
        _ = writeln!(out, "{shown}: {done}");
    }
    out
}

/// Creates a temporary link and renames it, so that the name always leads to the old or the new
/// one.
pub(crate) fn link(program: &Path, path: &Path) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    // Left behind by a run that was killed: in containers, process numbers repeat.
    _ = fs::remove_file(&beside);
    symlink(program, &beside)?;
    fs::rename(&beside, path).inspect_err(|_| _ = fs::remove_file(&beside))
}
