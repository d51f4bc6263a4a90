//! Writes new files beside the old ones, and never over them.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use keyward_process::file::{self, Limits};

use crate::{failure::Failure, output};

/// Writes files into a directory, which is created if need be, and returns the paths of those that are new. A file
/// with another content is kept, and nothing is written, unless `force`: then it keeps its name with `.old`.
pub(super) fn all(
    directory: &Path,
    files: &[(&str, String)],
    force: bool,
) -> Result<Vec<PathBuf>, Failure> {
    fs::create_dir_all(directory).map_err(failed(directory))?;
    let mut changed = Vec::new();
    for (name, text) in files {
        let path = directory.join(name);
        match file::read(&path, &Limits::NAMED.regular()) {
            Ok(bytes) if *bytes == text.as_bytes() => {}
            Ok(_) if !force => {
                let shown = output::path(&path);
                return Err(Failure::failed(format!(
                    "`{shown}` exists with another content; nothing was written"
                ))
                .hint("`--force` replaces it, and keeps the old file under its name with `.old`"));
            }
            Ok(_) => changed.push((path, text, true)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                changed.push((path, text, false));
            }
            Err(error) => return Err(failed(&path)(error)),
        }
    }
    for (path, text, replaces) in &changed {
        replace(path, text, *replaces).map_err(failed(path))?;
    }
    Ok(changed.into_iter().map(|(path, ..)| path).collect())
}

/// Writes a temporary file and renames it, so that the name leads to the old or the new content, whole.
fn replace(path: &Path, text: &str, keep: bool) -> io::Result<()> {
    let beside = with_end(path, &format!(".{}", std::process::id()));
    // Only for root, as the files that it was read from may be. A new file never follows a link.
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&beside);
    let done = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let done = done.and_then(|()| {
        if keep {
            let old = with_end(path, ".old");
            match fs::remove_file(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => fs::hard_link(path, &old)?,
            }
        }
        fs::rename(&beside, path)
    });
    done.inspect_err(|_| _ = fs::remove_file(&beside))
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Failure {
    Failure::of(format!("`{}` cannot be written", output::path(path)))
}
