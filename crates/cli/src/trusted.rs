//! Files that root will run or change later: refused if another user could change them.

use std::{
    io::{self, ErrorKind},
    path::{self, Path},
};

use keyward_process::trust::{self, Checked};

use crate::{
    failure::{Code, Failure},
    globals::Globals,
    output,
};

/// Checks a program and the interpreters of a script. Fails if another user could change any of them.
pub(crate) fn program(path: &Path, globals: &Globals) -> Result<Checked, Failure> {
    let search_path = globals.surroundings.var("PATH");
    let checked =
        path::absolute(path).and_then(|path| trust::program(&path, search_path.as_deref()));
    judge(path, checked)
}

/// Checks a directory with everything on the way to it. Fails if another user could change it; `None` if it does not
/// exist.
pub(crate) fn directory(path: &Path) -> Result<Option<Checked>, Failure> {
    match path::absolute(path).and_then(|path| trust::library(&path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        checked => judge(path, checked).map(Some),
    }
}

fn judge(path: &Path, checked: io::Result<Checked>) -> Result<Checked, Failure> {
    let shown = output::path(path);
    let checked =
        checked.map_err(Failure::of(format!("cannot check who could change `{shown}`")))?;
    if checked.faults().next().is_none() {
        return Ok(checked);
    }
    let refused = Failure::new(
        Code::NotAllowed,
        format!("`{shown}` is refused: others could change it, and root would use it"),
    );
    let noted =
        |failure: Failure, fault| failure.note("because", output::inline(&format!("{fault}")));
    let refused = checked.faults().fold(refused, noted);
    Err(refused.hint("let only root write to it and to the directories above it"))
}
