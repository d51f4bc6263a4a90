//! Files that root will run or change later: refused if another user could change them.

use std::path::{self, Path};

use keyward_process::trust::{self, Checked};

use crate::{
    failure::{Code, Failure},
    globals::Globals,
    output::inline,
};

/// Checks a program and the interpreters of a script. Fails if another user could change any of them.
pub(crate) fn program(path: &Path, globals: &Globals) -> Result<Checked, Failure> {
    let search_path = globals.surroundings.var("PATH");
    judge(path, |path| trust::program(path, search_path.as_deref()))
}

/// Checks a directory with everything on the way to it. Fails if another user could change it.
pub(crate) fn directory(path: &Path) -> Result<Checked, Failure> {
    judge(path, trust::library)
}

fn judge(
    path: &Path,
    check: impl FnOnce(&Path) -> std::io::Result<Checked>,
) -> Result<Checked, Failure> {
    let shown = inline(&path.display().to_string());
    let checked = path::absolute(path).and_then(|path| check(&path)).map_err(|error| {
        Failure::failed(format!("cannot check who could change `{shown}`"))
            .note("cause", error.to_string())
    })?;
    if checked.faults().next().is_none() {
        return Ok(checked);
    }
    let refused = Failure::new(
        Code::NotAllowed,
        format!("`{shown}` is refused: others could change it, and root would use it"),
    );
    let noted = |failure: Failure, fault| failure.note("because", inline(&format!("{fault}")));
    let refused = checked.faults().fold(refused, noted);
    Err(refused.hint("let only root write to it and to the directories above it"))
}
