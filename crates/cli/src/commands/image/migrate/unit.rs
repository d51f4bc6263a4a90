//! The command line of a systemd service, from its unit, drop-ins and environment files.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    iter,
    path::{Path, PathBuf},
};

use super::root::Root;
use crate::failure::Failure;

/// Where systemd looks for units, most important first.
const DIRECTORIES: [&str; 4] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The longest command line, in bytes: more than Linux lets a program have by default.
const LONGEST: usize = 2 << 20;

/// What a service runs.
#[derive(Debug, Default)]
pub(super) struct Unit {
    /// The files that it was read from.
    pub(super) files: Vec<PathBuf>,
    /// The words of its command line, with the variables expanded.
    pub(super) words: Vec<String>,
    pub(super) variables: HashMap<String, String>,
}

impl Unit {
    /// Reads the unit with this name; `None` if the node has none.
    pub(super) fn read(root: &Root, name: &str) -> Result<Option<Self>, Failure> {
        let paths = DIRECTORIES.map(|directory| Path::new(directory).join(name));
        let Some(main) = paths.into_iter().find(|path| root.exists(path)) else { return Ok(None) };
        let mut drop_ins = BTreeMap::new();
        for directory in DIRECTORIES {
            let directory = Path::new(directory).join(format!("{name}.d"));
            for file in root.files(&directory, ".conf") {
                // A drop-in hides those of the same name in less important directories.
                drop_ins.entry(file.file_name().map(OsStr::to_owned)).or_insert(file);
            }
        }
        let mut unit = Self::default();
        let mut start = String::new();
        for file in iter::once(main).chain(drop_ins.into_values()) {
            let Some(text) = root.text(&file)? else { continue };
            for (key, value) in settings(&text) {
                match key.as_str() {
                    // An empty one takes back those before it.
                    "ExecStart" => start = value,
                    "Environment" => {
                        let words = split(&value);
                        let set = words.iter().filter_map(|word| word.split_once('='));
                        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
                        unit.variables.extend(set);
                    }
                    "EnvironmentFile" => unit.load(root, &value)?,
                    _ => {}
                }
            }
            unit.files.push(file);
        }
        unit.words = unit.expand(&start).ok_or_else(|| {
            let most = LONGEST >> 20;
            Failure::failed(format!("the command line of `{name}` is longer than {most} MiB"))
        })?;
        Ok(Some(unit))
    }

    /// Reads an environment file. One that begins with `-` may be missing.
    fn load(&mut self, root: &Root, value: &str) -> Result<(), Failure> {
        let path = PathBuf::from(value.trim().trim_start_matches('-'));
        let Some(text) = root.text(&path)? else { return Ok(()) };
        self.variables.extend(variables(&text));
        self.files.push(path);
        Ok(())
    }

    /// The words of a command line: `$NAME` becomes words, `${NAME}` a part of one. `None` if they are too many:
    /// a line can name a long variable any number of times.
    fn expand(&self, line: &str) -> Option<Vec<String>> {
        let value = |name: &str| self.variables.get(name).map(String::as_str).unwrap_or_default();
        let mut words = Vec::new();
        let mut left = LONGEST;
        for word in split(line) {
            let name = word.strip_prefix('$').filter(|name| !name.starts_with(['{', '$']));
            match name {
                Some(name) => {
                    left = left.checked_sub(value(name).len())?;
                    words.extend(split(value(name)));
                }
                None => words.push(replace(&word, value, &mut left)?),
            }
        }
        Some(words)
    }
}

/// The variables in the text of an environment file.
pub(super) fn variables(text: &str) -> Vec<(String, String)> {
    let lines = joined(text);
    let set = lines.iter().filter_map(|line| line.split_once('='));
    set.map(|(name, value)| {
        let value = value.trim();
        let quoted = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        (name.trim().trim_start_matches("export ").to_owned(), value.to_owned())
    })
    .collect()
}

/// The settings of the section `[Service]`.
fn settings(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in joined(text) {
        if line.starts_with('[') {
            inside = line == "[Service]";
        } else if inside && let Some((key, value)) = line.split_once('=') {
            found.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    found
}

/// The lines of a file without comments, each joined with those that a `\` continues it by.
fn joined(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with(['#', ';']) || (line.is_empty() && !open) {
            continue;
        }
        let continued = line.strip_suffix('\\');
        let part = continued.unwrap_or(line);
        match lines.last_mut().filter(|_| open) {
            Some(last) => {
                last.push(' ');
                last.push_str(part);
            }
            None => lines.push(part.to_owned()),
        }
        open = continued.is_some();
    }
    lines
}

/// Splits a line into words as systemd does: quotes keep spaces, a backslash the next character.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut started, mut quote) = (String::new(), false, None);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => (quote, started) = (Some(letter), true),
            ('\\', _) => word.extend(letters.next()),
            (letter, None) if letter.is_whitespace() => {
                if started || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                started = false;
            }
            (letter, _) => word.push(letter),
        }
    }
    if started || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Replaces each `${NAME}` in a word, with `left` bytes at most.
fn replace<'v>(word: &str, value: impl Fn(&str) -> &'v str, left: &mut usize) -> Option<String> {
    let mut out = String::new();
    let mut push = |text: &str| {
        *left = left.checked_sub(text.len())?;
        out.push_str(text);
        Some(())
    };
    let mut rest = word;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, tail)) = after.split_once('}') else { break };
        push(before)?;
        push(value(name))?;
        rest = tail;
    }
    push(rest)?;
    Some(out)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_command_line_is_put_together_from_unit_drop_ins_and_environment_files() {
        let copy = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = copy.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "lib/systemd/system/kubelet.service",
            "[Unit]\nExecStart=/no\n[Service]\nExecStart=/usr/bin/kubelet\n",
        );
        write(
            "usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
            "# why\n[Service]\nEnvironment=\"ONE=--config=/a b\" TWO=x\nEnvironmentFile=-/etc/default/kubelet\n\
             EnvironmentFile=-/missing\nExecStart=\nExecStart=/usr/bin/kubelet $ONE \\\n    # not this\n    --root-dir \
             ${TWO}/y $EXTRA $$ '--label=a b'\n",
        );
        write(
            "etc/systemd/system/kubelet.service.d/10-kubeadm.conf.bak",
            "[Service]\nExecStart=/no\n",
        );
        write("etc/default/kubelet", "EXTRA=\"--v=2 --cloud-provider external\"\n");
        let root = Root::new(copy.path()).unwrap();
        let unit = Unit::read(&root, "kubelet.service").unwrap().unwrap();
        assert_eq!(
            unit.words,
            [
                "/usr/bin/kubelet",
                "--config=/a",
                "b",
                "--root-dir",
                "x/y",
                "--v=2",
                "--cloud-provider",
                "external",
                "$$",
                "--label=a b",
            ]
        );
        assert_eq!(unit.files.len(), 3, "{:?}", unit.files);
        assert!(Unit::read(&root, "k3s.service").unwrap().is_none());
    }

    #[test]
    fn a_command_line_without_end_is_refused() {
        for word in ["$A ", "${A}"] {
            let mut unit = Unit::default();
            unit.variables.insert("A".to_owned(), "x".repeat(1 << 16));
            assert_eq!(unit.expand(&word.repeat(1 << 20)), None);
            assert!(unit.expand(&word.repeat(8)).is_some());
        }
    }
}
