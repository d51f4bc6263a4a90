use std::{fmt, path::Path};

use keyward_protocol::text;

use keyward_host::{Error, Kind, kubeconfig::Place};

/// A problem in a provider configuration. It never contains a value that may be secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The kind of problem.
    pub class: Class,
    /// The problem's position.
    pub place: Place,
    /// The field, in the file's spelling: `providers[1].matchImages`.
    pub field: String,
    /// A description of the problem.
    pub message: String,
}

/// The kinds of [`Problem`], as the kubelet distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The file or directory does not exist, or cannot be read.
    Unreadable,
    /// Not a configuration: syntax, kind, version, or the type of a field.
    Decode,
    /// An unknown or duplicate field.
    StrictDecode,
    /// Two providers with the same name.
    DuplicateProvider,
    /// A missing field.
    Required,
    /// An invalid value.
    Invalid,
    /// A value that is not one of the allowed ones.
    NotSupported,
    /// A duplicate value.
    Duplicate,
    /// A field that is not allowed in combination with others.
    Forbidden,
}

/// The stage that a configuration failed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The file could not be read or decoded.
    Read,
    /// The file was decoded but is not valid.
    Validate,
}

/// All problems of a configuration; at least one.
#[derive(Debug, Clone)]
pub struct Faults {
    /// The stage that failed.
    pub stage: Stage,
    /// All problems, in the order of the files.
    pub problems: Vec<Problem>,
}

impl Problem {
    pub(super) fn new(
        class: Class,
        file: &Path,
        line: u32,
        field: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            class,
            place: Place { file: Some(file.into()), line },
            field: field.into(),
            message: message.into(),
        }
    }

    /// Whether this problem, a field that could not be decoded, is the cause of `later`: a problem
    /// of the same field, of a part of it, or of the list that contains it.
    pub(super) fn explains(&self, later: &Self) -> bool {
        let part = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        let list = self.field.rsplit_once('[').map(|(list, _)| list);
        self.class == Class::Decode
            && self.place.file == later.place.file
            && (later.field.strip_prefix(&self.field).is_some_and(part)
                || list == Some(&later.field))
    }
}

/// Fails a stage if it has problems.
pub(super) fn settle(stage: Stage, problems: Vec<Problem>) -> Result<(), Faults> {
    if problems.is_empty() { Ok(()) } else { Err(Faults { stage, problems }) }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "`{}` ", text::clean(&self.field))?;
        }
        write!(f, "{} ({})", self.message, self.place)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problems[..] {
            [only] => only.fmt(f),
            many => {
                write!(f, "the configuration of image credential providers has ")?;
                write!(f, "{} problems", many.len())
            }
        }
    }
}

impl std::error::Error for Faults {}

impl From<Faults> for Error {
    fn from(faults: Faults) -> Self {
        let missing = faults.problems.iter().all(|p| p.class == Class::Unreadable);
        let kind = if missing { Kind::NotFound } else { Kind::BadConfig };
        let error = Self::new(kind, faults.to_string());
        if faults.problems.len() == 1 {
            return error;
        }
        faults.problems.iter().fold(error, |error, p| error.note("problem", p.to_string()))
    }
}
