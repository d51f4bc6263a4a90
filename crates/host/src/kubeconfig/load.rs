//! Finds and reads the kubeconfig files; a missing file is no error unless it was named (KC-01 to
//! KC-06).

use std::{
    collections::HashSet,
    env,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use keyward_process::file::{self, Limits};
use zeroize::Zeroizing;

use super::{Class, Kubeconfig, Place, Problem, decode, problem};
use keyward_process::surroundings::Surroundings;

use crate::{Error, error::inline};

impl Kubeconfig {
    /// Loads what kubectl would: `explicit` alone, else `$KUBECONFIG`, else `~/.kube/config` (KC-01 to
    /// KC-06). Files of a list that are not there are passed over; all problems of all files are
    /// reported together.
    ///
    /// Where `~/.kube/config` is missing, the legacy `~/.kube/.kubeconfig` is read in its place.
    /// Nothing is ever written: the reference copies that file first (KC-05).
    pub fn load(surroundings: &Surroundings, explicit: Option<&Path>) -> Result<Self, Error> {
        let mut loader = Loader { surroundings, documents: Vec::new(), problems: Vec::new() };
        let listed = surroundings.var("KUBECONFIG").is_some_and(|list| !list.is_empty());
        let is_required = explicit.is_some_and(|path| !path.as_os_str().is_empty());
        for path in named(surroundings, explicit) {
            if is_required {
                loader.read_required(&path);
            } else {
                loader.read(&path);
            }
        }
        if !loader.problems.is_empty() {
            return Err(problem::report(loader.problems));
        }
        let mut config = Self::merge(loader.documents);
        if listed && !config.files.is_empty() && config.files.iter().all(|(_, there)| !there) {
            let files = config.files.iter();
            let names: Vec<_> = files.map(|(path, _)| format!("`{}`", path.display())).collect();
            config.warnings.push(format!("no file of `KUBECONFIG` exists: {}", names.join(", ")));
        }
        Ok(config)
    }

    /// The files that [`Kubeconfig::load`] looks for, in their order, whether or not they are there.
    pub fn paths(surroundings: &Surroundings, explicit: Option<&Path>) -> Vec<PathBuf> {
        let named = named(surroundings, explicit);
        named.iter().map(|path| surroundings.absolute(path)).collect()
    }

    /// Reads one document from memory; paths in it are left alone (KC-22).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut problems = Vec::new();
        let config = decode::decode(bytes, None, &mut problems);
        if problems.is_empty() { Ok(config) } else { Err(problem::report(problems)) }
    }
}

/// The files to look for, as they were named.
fn named(surroundings: &Surroundings, explicit: Option<&Path>) -> Vec<PathBuf> {
    let listed = surroundings.var("KUBECONFIG").filter(|list| !list.is_empty());
    match (explicit.filter(|path| !path.as_os_str().is_empty()), listed) {
        (Some(path), _) => vec![path.to_owned()],
        (None, Some(list)) => {
            let mut known = HashSet::new();
            env::split_paths(&list)
                .filter(|path| !path.as_os_str().is_empty() && known.insert(path.clone()))
                .collect()
        }
        (None, None) => default_path(surroundings).into_iter().collect(),
    }
}

fn default_path(surroundings: &Surroundings) -> Option<PathBuf> {
    surroundings.home().map(|home| home.join(".kube").join("config"))
}

struct Loader<'a> {
    surroundings: &'a Surroundings,
    documents: Vec<Kubeconfig>,
    problems: Vec<Problem>,
}

impl Loader<'_> {
    /// Reads a file that was asked for by name: it must be there.
    fn read_required(&mut self, path: &Path) {
        let before = self.documents.len();
        self.read(path);
        let missing = self.documents[before..]
            .iter()
            .all(|document| document.files.iter().all(|(_, there)| !there));
        if missing && self.problems.is_empty() {
            self.problems.push(Problem::new(
                Class::FileNotFound,
                place(path),
                "there is no such kubeconfig file",
            ));
        }
    }

    /// Reads a file if it is there.
    fn read(&mut self, path: &Path) {
        match self.bytes(path) {
            Ok(bytes) => self.decode(path, &bytes),
            Err(ErrorKind::NotFound) => self.fall_back(path),
            Err(kind) => self.problems.push(unreadable(path, kind)),
        }
    }

    /// The file is not there. Perhaps it is the default one, and there is still its predecessor.
    fn fall_back(&mut self, path: &Path) {
        let is_default = default_path(self.surroundings).as_deref() == Some(path);
        let legacy = is_default.then(|| path.with_file_name(".kubeconfig"));
        match legacy.map(|legacy| (self.bytes(&legacy), legacy)) {
            Some((Ok(bytes), legacy)) => {
                self.decode(&legacy, &bytes);
                if let Some(document) = self.documents.last_mut() {
                    document.files.insert(0, (path.to_owned(), false));
                    document.warnings.push(format!(
                        "`{}` is missing: `{}` was read instead, and not copied there",
                        path.display(),
                        legacy.display()
                    ));
                }
            }
            None | Some((Err(ErrorKind::NotFound | ErrorKind::PermissionDenied), _)) => {
                self.documents.push(Kubeconfig {
                    files: vec![(path.to_owned(), false)],
                    ..Kubeconfig::default()
                });
            }
            Some((Err(kind), legacy)) => self.problems.push(unreadable(&legacy, kind)),
        }
    }

    fn decode(&mut self, path: &Path, bytes: &[u8]) {
        let mut document = decode::decode(bytes, Some(Arc::from(path)), &mut self.problems);
        document.files.push((path.to_owned(), true));
        self.documents.push(document);
    }

    fn bytes(&self, path: &Path) -> Result<Zeroizing<Vec<u8>>, ErrorKind> {
        file::read(&self.surroundings.absolute(path), &Limits::GIVEN).map_err(|error| error.kind())
    }
}

/// The content of a file that a kubeconfig names.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, ErrorKind> {
    file::read(path, &Limits::NAMED).map_err(|error| error.kind())
}

fn unreadable(path: &Path, kind: ErrorKind) -> Problem {
    Problem::new(
        Class::Load,
        place(path),
        format!("the kubeconfig cannot be read: {}", reason(kind)),
    )
}

/// Why a file cannot be read, in the words that people know from their shell.
pub(super) fn reason(kind: ErrorKind) -> String {
    file::reason(&kind.into())
}

/// What is wrong with a field that names a file which cannot be read.
pub(super) fn cannot_be_read(file: &str, kind: ErrorKind) -> String {
    format!("cannot be read: `{}`: {}", inline(file), reason(kind))
}

fn place(path: &Path) -> Place {
    Place { file: Some(Arc::from(path)), line: 0 }
}
