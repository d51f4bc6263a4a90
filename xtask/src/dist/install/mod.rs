//! `cargo xtask dist --test`: installs every package into a root of its own and uses it there.

mod debian;
mod dns;
mod empty;
mod image;
mod rpm;
mod tarball;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use keyward_testing::kubectl;

pub use self::empty::run_empty_root;
use super::{capture, package::Release, sums, write_error};
use crate::packages;

/// What the tests start, and the packages it comes in.
const NEEDED: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("man", "man-db"),
    ("mmdebstrap", "mmdebstrap"),
    ("rpm", "rpm"),
    ("skopeo", "skopeo"),
    ("unshare", "util-linux"),
];

/// The packages and where they may be unpacked.
struct Stage<'a> {
    out: &'a Path,
    release: &'a Release,
    directory: &'a Path,
}

/// One test: its name and what it does.
type Test = (&'static str, fn(&Stage<'_>) -> Result<(), String>);

const TESTS: &[Test] = &[
    ("the sums are right and the tarball works where it is unpacked", tarball::works),
    ("the program works in an almost empty root, with name resolution", empty::works),
    ("the image runs a plugin without privileges", image::works),
    ("the rpm installs and verifies", rpm::works),
    ("the deb installs, works and leaves nothing behind in a clean Debian", debian::works),
];

/// Runs all tests on the packages in `out`. Needs root, to change roots.
pub fn run(out: &Path, release: &Release) -> Result<bool, String> {
    if capture(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err("the tests of the packages use chroot: run them as root".to_owned());
    }
    packages::install_these(NEEDED, &[])?;
    if matches!(kubectl::find(0), Err(kubectl::NotFound::Absent(_))) {
        packages::install_these(&[("kubectl", "kubernetes-client")], &[])?;
    }
    let mut failed = 0;
    for (name, test) in TESTS {
        let directory = tempfile::tempdir().map_err(|e| format!("no temporary directory: {e}"))?;
        let begin = Instant::now();
        let result = test(&Stage { out, release, directory: directory.path() });
        let took = begin.elapsed().as_secs_f32();
        match result {
            Ok(()) => println!("ok      {name} ({took:.1} s)"),
            Err(why) => {
                failed += 1;
                println!("FAILED  {name} ({took:.1} s)\n{why}");
            }
        }
    }
    println!("{} passed, {failed} failed", TESTS.len() - failed);
    Ok(failed == 0)
}

impl Stage<'_> {
    /// The package with this name.
    fn package(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.out.join(name);
        if path.is_file() { Ok(path) } else { Err(format!("`{}` does not exist", path.display())) }
    }

    /// The tarball: its name contains the target.
    fn tarball(&self) -> Result<PathBuf, String> {
        let start = format!("keyward-{}-{}-", self.release.version, self.release.arch);
        let names = sums::file_names(self.out)?;
        let name = names.iter().find(|name| name.starts_with(&start) && name.ends_with(".tar.gz"));
        self.package(name.ok_or_else(|| format!("no `{start}….tar.gz`"))?)
    }

    /// Unpacks the tarball without its first directory and returns where.
    fn unpack_tarball(&self, name: &str) -> Result<PathBuf, String> {
        let place = self.directory.join(name);
        fs::create_dir_all(&place).map_err(write_error(&place))?;
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(self.tarball()?);
        capture(tar.args(["--strip-components", "1", "--directory"]).arg(&place))?;
        Ok(place)
    }
}

/// A command in another root: with its own processes and no network but loopback. The shell stays between,
/// because the first process of a namespace has other rules for signals.
fn in_root(root: &Path, options: &[&str], words: &[&str]) -> Command {
    const SCRIPT: &str =
        "mount -t proc proc \"$0/proc\" && ip link set lo up && chroot \"$@\"; exit $?";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", SCRIPT]);
    command.arg(root).args(options).arg(root).args(words);
    command.env_clear().env("PATH", PATH).env("HOME", "/root").env("LANG", "C.UTF-8");
    command
}

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a command prints on both streams; it must succeed.
fn prints(command: &mut Command) -> Result<String, String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start `{}`: {e}", command.get_program().display()))?;
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.concat();
    if output.status.success() {
        return Ok(text);
    }
    let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
    Err(format!("`{}` failed: {}\n{text}", words.join(" "), output.status))
}

/// Checks that a text has a part.
fn expect(text: &str, part: &str) -> Result<(), String> {
    if text.contains(part) { Ok(()) } else { Err(format!("`{part}` is missing in:\n{text}")) }
}
