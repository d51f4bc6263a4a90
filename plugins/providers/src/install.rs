//! `keyward-providers install DIR [--drop-in]`: creates the links that select a family.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyward_plugin::Refusal;
use keyward_protocol::text::inline;

use crate::{
    Call, FAMILIES, NAME,
    family::file_name,
    flags::{Flag, HELP, Kind, flag},
};

const FLAGS: &[Flag] = &[flag("drop-in", Kind::Switch), HELP];

const USAGE: &str = "\
Creates a link for each provider in a directory, which must exist.

Usage: keyward-providers install DIR [--drop-in]

  --drop-in   also create links with the names of the tools that the providers replace

Existing links to this program are kept or renewed. If another file has one of the names, nothing is created.
";

/// Creates the links, or nothing if one of the names is taken.
pub(crate) fn run(call: &Call) -> Result<ExitCode, Refusal> {
    let Some(flags) = call.flags(&[FLAGS], USAGE)? else { return Ok(ExitCode::SUCCESS) };
    let [directory] = *flags.words() else {
        return Err(Refusal::BadConfig(format!(
            "`{NAME} install` needs one directory\n\nhint: `{NAME} install ~/.local/bin`"
        )));
    };
    let directory = Path::new(directory);
    if !directory.is_dir() {
        return Err(Refusal::BadConfig(format!("`{}` is not a directory", shown(directory))));
    }
    let program = env::current_exe().and_then(fs::canonicalize).map_err(|error| {
        Refusal::Failed(format!("cannot find the path of this program: {error}"))
    })?;
    let names = FAMILIES.iter().flat_map(|family| {
        let more = if flags.is_set("drop-in") { family.replaces } else { &[] };
        family.links().chain(more.iter().copied())
    });
    let links: Vec<(PathBuf, Found)> = names
        .map(|name| directory.join(format!("{name}{}", env::consts::EXE_SUFFIX)))
        .map(|path| {
            let found = look(&path, &program);
            (path, found)
        })
        .collect();
    // Looked at all of them before the first change: a directory with half of the links helps nobody.
    let foreign = links.iter().filter(|(_, found)| *found == Found::Other);
    let foreign: Vec<_> = foreign.map(|(path, _)| format!("`{}`", shown(path))).collect();
    if !foreign.is_empty() {
        return Err(Refusal::BadConfig(format!(
            "{} exists and is not a link to this program, so nothing was created\n\n\
             hint: remove it, or choose another directory and put it first in `PATH`",
            foreign.join(", ")
        )));
    }
    for (path, found) in links {
        let done = match found {
            Found::Ours => "exists already",
            Found::Nothing | Found::Older | Found::Other => {
                let made = if found == Found::Older { relink } else { link };
                made(&program, &path).map_err(|error| {
                    Refusal::Failed(format!("cannot create `{}`: {error}", shown(&path)))
                })?;
                "made"
            }
        };
        call.print(&format!("{}: {done}\n", shown(&path)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(path: &Path) -> String {
    inline(&path.display().to_string())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    Ours,
    /// A link to this program at another place, from before it was moved.
    Older,
    Other,
}

fn look(path: &Path, program: &Path) -> Found {
    match (fs::symlink_metadata(path), fs::canonicalize(path), fs::read_link(path)) {
        (Err(_), ..) => Found::Nothing,
        (_, Ok(target), _) if target == program => Found::Ours,
        (_, _, Ok(target)) if file_name(target.as_os_str()) == NAME => Found::Older,
        _ => Found::Other,
    }
}

/// Replaces a link of ours. Its name always leads to the old or the new program.
fn relink(program: &Path, path: &Path) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    link(program, &beside)?;
    fs::rename(&beside, path).inspect_err(|_| _ = fs::remove_file(&beside))
}

/// Creates the link in one step that fails if the name has been taken since it was looked at.
fn link(program: &Path, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(program, path);
    #[cfg(not(unix))]
    return fs::hard_link(program, path);
}
