//! Other programs, which are asked for a token.

use std::path::PathBuf;

use keyward_process::runner::{self, Cancel, Invocation, Output, Status};

use crate::Call;

impl Call {
    /// A program by its path or its name on `PATH`.
    pub(crate) fn find_program(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(self.surroundings.absolute(name.as_ref())).filter(|path| path.is_file());
        }
        let path = self.surroundings.var("PATH").unwrap_or_default();
        let directories = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        directories.map(|directory| directory.join(name)).find(|path| path.is_file())
    }

    /// A run of a program in this environment.
    pub(crate) fn invocation<'a>(
        &self,
        program: PathBuf,
        name: &str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Invocation {
        let mut run = Invocation::new(program);
        run.name = name.into();
        run.args = args.into_iter().map(Into::into).collect();
        run.env = self.surroundings.vars();
        run
    }
}

/// The output of a program that succeeds, or why it fails.
pub(crate) fn output(run: &Invocation) -> Result<Output, String> {
    let output = runner::run(run, &Cancel::default()).map_err(|failure| failure.to_string())?;
    match output.status {
        Status::Code(0) => Ok(output),
        Status::Code(code) => Err(format!("it ended with exit code {code}")),
        Status::Signal(signal) => Err(format!("it was ended by signal {signal}")),
    }
}
