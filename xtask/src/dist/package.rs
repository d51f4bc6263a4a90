//! What a package is called and needs, for every format.

use super::tree::Tree;

/// A package before it becomes a `.deb` or an `.rpm`.
#[derive(Debug, Clone)]
pub struct Package {
    /// The package's name.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// A paragraph.
    pub description: &'static str,
    /// What is installed below `/usr`.
    pub tree: Tree,
    /// The libraries its programs load; `None` if they are static.
    pub libraries: Option<Libraries>,
}

/// The C library that dynamic programs need.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Libraries {
    /// The newest version of a symbol that they use: 34 for `GLIBC_2.34`.
    pub glibc: u32,
}

/// Facts that are in every package.
#[derive(Debug, Clone)]
pub struct Release {
    /// Such as `0.1.0`.
    pub version: String,
    /// Where the project is.
    pub repository: String,
    /// The SPDX expression of its licence.
    pub license: String,
    /// The machine, as Rust names it.
    pub arch: String,
    /// The seconds of the last commit, which every file gets.
    pub time: u64,
}

impl Release {
    /// The machine, as Debian, Go and OCI name it.
    pub fn go_arch(&self) -> &str {
        match self.arch.as_str() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }

    /// The time of the last commit as RFC 3339.
    pub fn timestamp(&self) -> Result<String, String> {
        let seconds = i64::try_from(self.time).map_err(|e| e.to_string())?;
        jiff::Timestamp::from_second(seconds).map(|t| t.to_string()).map_err(|e| e.to_string())
    }
}

impl Libraries {
    /// Reads the newest version of glibc's symbols out of a program. `None` if it uses none, as a static
    /// program does.
    pub fn of(program: &[u8]) -> Option<Self> {
        const MARK: &[u8] = b"GLIBC_2.";
        let marks = program.windows(MARK.len()).enumerate().filter(|(_, bytes)| *bytes == MARK);
        let minors = marks.filter_map(|(start, _)| {
            let digits: Vec<u8> = program[start + MARK.len()..]
                .iter()
                .copied()
                .take_while(u8::is_ascii_digit)
                .take(3)
                .collect();
            str::from_utf8(&digits).ok()?.parse::<u32>().ok()
        });
        minors.max().map(|glibc| Self { glibc })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_of_glibc_says_which_one_is_needed() {
        let program = b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE";
        assert_eq!(Libraries::of(program), Some(Libraries { glibc: 34 }));
        assert_eq!(Libraries::of(b"static"), None);
    }
}
