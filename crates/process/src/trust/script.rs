//! Finds the programs that run a script.

use std::{
    ffi::OsStr,
    io::{self, ErrorKind, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::walk::named;
use crate::file;

/// As much of a file as Linux looks at.
const LOOKED_AT: usize = 256;

/// The program that a script's first line names and, if that is `env`, the one that it will find.
/// Empty for what is no script.
pub(super) fn interpreters(file: &Path, search_path: &OsStr) -> io::Result<Vec<PathBuf>> {
    let Some(line) = first_line(file)? else { return Ok(Vec::new()) };
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = line.trim_ascii();
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (interpreter, argument) = (&line[..end], line[end..].trim_ascii());
    if interpreter.is_empty() {
        return Ok(Vec::new());
    }
    let interpreter = PathBuf::from(OsStr::from_bytes(interpreter));
    let is_env = interpreter.file_name() == Some(OsStr::new("env"));
    let sought = if is_env { sought(argument) } else { None };
    let found = sought.and_then(|name| search(name, search_path));
    Ok(std::iter::once(interpreter).chain(found).collect())
}

/// What follows `#!`; `None` for what is no script.
fn first_line(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = match file::open(file) {
        Ok(opened) => opened,
        // An interpreter could not read it either.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
        Err(error) => return Err(named(file, &error)),
    };
    if !opened.metadata().map_err(|error| named(file, &error))?.is_file() {
        return Ok(None);
    }
    let mut start = Vec::with_capacity(LOOKED_AT);
    opened.take(LOOKED_AT as u64).read_to_end(&mut start).map_err(|error| named(file, &error))?;
    let Some(rest) = start.strip_prefix(b"#!") else { return Ok(None) };
    let end = rest.iter().position(|byte| matches!(byte, b'\n' | 0)).unwrap_or(rest.len());
    Ok(Some(rest[..end].to_vec()))
}

/// The program that `env` runs. Linux passes all that follows as one argument, which `-S` splits.
fn sought(argument: &[u8]) -> Option<&OsStr> {
    let split = argument
        .strip_prefix(b"-S")
        .or_else(|| argument.strip_prefix(b"-vS"))
        .or_else(|| argument.strip_prefix(b"--split-string="));
    let name = match split {
        None => argument,
        Some(words) => {
            let mut words = words.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            loop {
                let word = words.next()?;
                match word {
                    b"-u" | b"-C" => drop(words.next()),
                    option if option.starts_with(b"-") || option.contains(&b'=') => {}
                    name => break name,
                }
            }
        }
    };
    (!name.is_empty() && !name.starts_with(b"-")).then(|| OsStr::from_bytes(name))
}

/// Where `env` finds a program.
fn search(name: &OsStr, search_path: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    std::env::split_paths(search_path).map(|directory| directory.join(name)).find(|candidate| {
        use rustix::fs::{Access, AtFlags, CWD, accessat};
        candidate.is_file() && accessat(CWD, candidate, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_says_what_it_runs() {
        for (argument, expected) in [
            ("python3", Some("python3")),
            ("-S python3 -u", Some("python3")),
            ("-Sawk -f", Some("awk")),
            ("-S -i -u HOME A=b node --flag", Some("node")),
            ("-vS perl", Some("perl")),
            ("", None),
            ("-S", None),
            ("-i", None),
        ] {
            assert_eq!(sought(argument.as_bytes()), expected.map(OsStr::new), "{argument}");
        }
    }
}
