//! Files that root will run or change later: refused if another user could change them.

use std::{
    io::{self, ErrorKind},
    path::{self, Path},
};

use keyward_process::trust::{self, Checked};

use crate::{
    failure::{Code, Failure},
    globals::Globals,
    output::inline,
};

/// Checks a program and the interpreters of a script. Fails if another user could change any of them.
pub(crate) fn program(path: &Path, globals: &Globals) -> Result<Checked, Failure> {
    let search_path = globals.surroundings.var("PATH");
    let checked = path::absolute(path)
        .and_then(|path| trust::program(&path, search_path.as_deref()))
        .map_err(|error| unchecked(path, &error))?;
    judge(path, checked)
}

/// Checks a directory with everything on the way to it. Fails if another user could change it; `None` if it does not
/// exist.
pub(crate) fn directory(path: &Path) -> Result<Option<Checked>, Failure> {
    match path::absolute(path).and_then(|path| trust::library(&path)) {
        Ok(checked) => judge(path, checked).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unchecked(path, &error)),
    }
}

fn unchecked(path: &Path, error: &io::Error) -> Failure {
    let shown = inline(&path.display().to_string());
    Failure::failed(format!("cannot check who could change `{shown}`"))
        .note("cause", error.to_string())
}

fn judge(path: &Path, checked: Checked) -> Result<Checked, Failure> {
    if checked.faults().next().is_none() {
        return Ok(checked);
    }
    let shown = inline(&path.display().to_string());
    let refused = Failure::new(
        Code::NotAllowed,
        format!("`{shown}` is refused: others could change it, and root would use it"),
    );
    let noted = |failure: Failure, fault| failure.note("because", inline(&format!("{fault}")));
    let refused = checked.faults().fold(refused, noted);
    Err(refused.hint("let only root write to it and to the directories above it"))
}
