//! `keyward image install DIR`: creates the bridges as symlinks to this program or to one beside it.

use std::{
    env,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    bridge::{self, Bridge},
    failure::Failure,
    flags,
    output::{Output, inline},
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

/// Creates the links and reports them.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let program = bridge::program()?;
    if !args.folder.is_dir() {
        let shown = inline(&args.folder.display().to_string());
        return Err(Failure::failed(format!("`{shown}` is not a directory")));
    }
    let mut links = Vec::new();
    for bridge in Bridge::ALL {
        let path = args.folder.join(format!("{}{}", bridge.name(), env::consts::EXE_SUFFIX));
        let shown = inline(&path.display().to_string());
        let target = bridge.beside(&program).unwrap_or_else(|| program.clone());
        let made = match look(&path, &target) {
            Found::Ours => false,
            // Older versions made a link to this program.
            Found::Other if !args.force && !matches!(look(&path, &program), Found::Ours) => {
                return Err(Failure::failed(format!(
                    "`{shown}` exists and is not a link to this program"
                ))
                .hint("`--force` replaces it"));
            }
            Found::Other | Found::Nothing => {
                link(&target, &path).map_err(|error| {
                    Failure::failed(format!("`{shown}` cannot be created"))
                        .note("cause", error.to_string())
                })?;
                true
            }
        };
        links.push(Link { path, made });
    }
    let report = Report { program, links };
    args.output.print(&report, || layout(&report.links))
}

fn layout(links: &[Link]) -> String {
    let mut out = String::new();
    for link in links {
        let shown = inline(&link.path.display().to_string());
        let done = if link.made { "made" } else { "exists already" };
        _ = writeln!(out, "{shown}: {done}");
    }
    out
}

enum Found {
    Nothing,
    Ours,
    Other,
}

fn look(path: &Path, program: &Path) -> Found {
    match (fs::symlink_metadata(path), fs::canonicalize(path)) {
        (Err(_), _) => Found::Nothing,
        (_, Ok(target)) if target == program => Found::Ours,
        _ => Found::Other,
    }
}

/// Creates a temporary link and renames it, so that the name always leads to the old or the new
/// one.
fn link(program: &Path, path: &Path) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    #[cfg(unix)]
    std::os::unix::fs::symlink(program, &beside)?;
    #[cfg(not(unix))]
    fs::copy(program, &beside).map(drop)?;
    fs::rename(&beside, path).inspect_err(|_| _ = fs::remove_file(&beside))
}
