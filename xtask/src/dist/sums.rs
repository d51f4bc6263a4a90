//! SHA-256, as `sha256sum` prints it.

use std::{fmt::Write as _, fs, path::Path};

use sha2::{Digest as _, Sha256};

/// The name of the file with the sums.
pub const FILE: &str = "SHA256SUMS";

/// The digest in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The lines for `sha256sum --check`, for every other file of the directory.
pub fn of_directory(directory: &Path) -> Result<String, String> {
    let mut lines = String::new();
    for name in file_names(directory)? {
        if name == FILE {
            continue;
        }
        let path = directory.join(&name);
        let bytes =
            fs::read(&path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        let _ = writeln!(lines, "{}  {name}", sha256(&bytes));
    }
    Ok(lines)
}

/// The files of a directory, sorted.
pub fn file_names(directory: &Path) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| format!("cannot read `{}`: {e}", directory.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
