//! What a program stands in: environment, working directory, terminal. Tests build their own.

#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]

use std::{
    collections::HashSet,
    env,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

/// The surroundings of this process, or made-up ones. Read afresh at each use (EN-01).
///
/// This is the only place that reads the environment. The `Debug` of made-up surroundings shows
/// the names of the variables, never their values.
#[derive(Debug, Clone, Default)]
pub struct Surroundings(Option<Box<Fixed>>);

/// Made-up surroundings.
#[derive(Clone, Default)]
pub struct Fixed {
    /// Environment, in order.
    pub vars: Vec<(OsString, OsString)>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Whether fd 0 is a terminal (IT-07).
    pub stdin_is_terminal: bool,
    /// Whether there is a controlling terminal (`/dev/tty` can be opened).
    pub has_terminal: bool,
}

impl Surroundings {
    /// The real ones.
    pub fn process() -> Self {
        Self(None)
    }

    /// Made-up ones.
    pub fn fixed(fixed: Fixed) -> Self {
        Self(Some(Box::new(fixed)))
    }

    /// What was made up; `None` for those of the process.
    pub fn made_up(&self) -> Option<&Fixed> {
        self.0.as_deref()
    }

    /// The value of a variable. Empty is not unset. Where it is set twice, the first one counts in a
    /// process, as for every program, and the last one in made-up surroundings.
    pub fn var(&self, name: impl AsRef<OsStr>) -> Option<OsString> {
        let name = name.as_ref();
        match &self.0 {
            None => env::var_os(name),
            Some(fixed) => {
                fixed.vars.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
            }
        }
    }

    /// The whole environment, in order; of a process each name once, as [`Surroundings::var`] has it.
    pub fn vars(&self) -> Vec<(OsString, OsString)> {
        match &self.0 {
            None => firsts(env::vars_os()),
            Some(fixed) => fixed.vars.clone(),
        }
    }

    /// The working directory. Fails when it was deleted or may not be read.
    pub fn cwd(&self) -> io::Result<PathBuf> {
        match &self.0 {
            None => env::current_dir(),
            Some(fixed) => Ok(fixed.cwd.clone()),
        }
    }

    /// The user's home: what `$HOME` says (`%USERPROFILE%` on Windows), as kubectl takes it.
    pub fn home(&self) -> Option<PathBuf> {
        let name = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        self.var(name).filter(|home| !home.is_empty()).map(PathBuf::from)
    }

    /// `path` against the working directory; absolute paths, and all of them when there is no
    /// working directory, stay as they are.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        if path.is_absolute() {
            return path.to_owned();
        }
        self.cwd().map_or_else(|_| path.to_owned(), |cwd| cwd.join(path))
    }

    /// Whether fd 0 is a terminal (IT-07).
    pub fn stdin_is_terminal(&self) -> bool {
        match &self.0 {
            None => io::IsTerminal::is_terminal(&io::stdin()),
            Some(fixed) => fixed.stdin_is_terminal,
        }
    }

    /// Whether there is a controlling terminal, whatever fd 0 is.
    pub fn has_terminal(&self) -> bool {
        match &self.0 {
            None => controlling_terminal(),
            Some(fixed) => fixed.has_terminal,
        }
    }
}

/// An environment with each name once, the last value winning, otherwise in order.
///
/// Names are those that a reader of the environment sees: a `=` ends a name, unless it begins it, so
/// `A=b` with the value `c` replaces an earlier `A`.
pub fn merge<T>(mut variables: Vec<T>, pair: impl Fn(&T) -> (&OsStr, &OsStr)) -> Vec<T> {
    let mut seen = HashSet::with_capacity(variables.len());
    let last: Vec<bool> = variables
        .iter()
        .rev()
        .map(|variable| {
            let (name, value) = pair(variable);
            seen.insert(spelt(name.as_encoded_bytes(), value.as_encoded_bytes()))
        })
        .collect();
    let mut last = last.into_iter().rev();
    variables.retain(|_| last.next() == Some(true));
    variables
}

/// Whether a name begins with `=`, and the rest of it. `None` if it has no name: an entry such as `=x`,
/// which has no second `=` to end one.
fn spelt<'a>(name: &'a [u8], value: &'a [u8]) -> Option<(bool, &'a [u8])> {
    let (odd, text, ends) = match name.split_first() {
        None => (true, value, value.contains(&b'=')),
        Some((b'=', rest)) => (true, rest, true),
        Some(_) => (false, name, true),
    };
    ends.then(|| (odd, text.split(|byte| *byte == b'=').next().unwrap_or(text)))
}

/// The first of each name. A plugin must not be given another value than the one that we, and whoever
/// started us, go by.
fn firsts(vars: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let mut seen = HashSet::new();
    vars.filter(|(name, _)| seen.insert(name.clone())).collect()
}

#[cfg(unix)]
fn controlling_terminal() -> bool {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
        .is_ok()
}

#[cfg(not(unix))]
fn controlling_terminal() -> bool {
    io::IsTerminal::is_terminal(&io::stdin())
}

impl std::fmt::Debug for Fixed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.vars.iter().map(|(name, _)| name).collect();
        f.debug_struct("Fixed")
            .field("vars", &names)
            .field("cwd", &self.cwd)
            .field("stdin_is_terminal", &self.stdin_is_terminal)
            .field("has_terminal", &self.has_terminal)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up() -> Surroundings {
        Surroundings::fixed(Fixed {
            vars: vec![
                ("HOME".into(), "/home/ann".into()),
                ("TOKEN".into(), "s3cr3t".into()),
                ("HOME".into(), "/home/bea".into()),
            ],
            cwd: "/work".into(),
            ..Fixed::default()
        })
    }

    #[test]
    fn the_last_of_two_equal_names_counts() {
        assert_eq!(made_up().home(), Some(PathBuf::from("/home/bea")));
    }

    #[test]
    fn of_a_process_the_first_of_two_equal_names_counts() {
        let vars = [("A", "1"), ("B", "2"), ("A", "3")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(firsts(vars.clone().into_iter()), vars[..2]);
    }

    #[test]
    fn relative_paths_go_through_the_working_directory() {
        assert_eq!(made_up().absolute(Path::new("a/b")), Path::new("/work").join("a/b"));
        assert_eq!(made_up().absolute(Path::new("/a")), Path::new("/a"));
    }

    #[test]
    fn debug_shows_names_and_no_values() {
        let shown = format!("{:?}", made_up());
        assert!(shown.contains("TOKEN"), "{shown}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}
