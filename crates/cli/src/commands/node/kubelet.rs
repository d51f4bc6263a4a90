//! Kubelets that run on this machine.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
};

/// The part that the names of the kubelet's flags for providers share. Distributions pass them on in flags of their own,
/// such as `--kubelet-arg=image-credential-provider-config=…`.
const FLAGS: &[u8] = b"image-credential-provider-";

/// Programs with a kubelet inside, whose flags may be in a file.
const EMBEDDED: [&str; 4] = ["k3s", "rke2", "kubelite", "k0s"];

/// More than any kubelet's command line. A process can make its own look longer than this machine's memory.
const LONGEST: u64 = 128 << 10;

/// What the processes of this machine say about a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The flags of this kubelet name something in the directory.
    Used(u32),
    /// There are kubelets, and none of them uses the directory.
    Unused,
    /// This process has a kubelet inside, whose flags cannot be seen.
    Hidden(u32),
    /// No kubelet was seen. In a pod, that needs `hostPID`.
    NoKubelet,
}

/// Looks at all processes that could be the kubelet.
pub(super) fn use_of(dir: &Path) -> io::Result<Use> {
    let mut lines = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has ended meanwhile uses nothing.
        if is_of_this_machine(&entry.path()).unwrap_or(false)
            && let Ok(line) = read(&entry.path().join("cmdline"))
        {
            lines.push((pid, line));
        }
    }
    Ok(judge(&lines, dir))
}

/// Whether a process can be the kubelet: a pod or another user could start a program with any words.
fn is_of_this_machine(process: &Path) -> io::Result<bool> {
    let owner = fs::metadata(process)?.uid();
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Ok(false);
    }
    // A process of a container has a second number, in the container's own namespace.
    let status = read(&process.join("status"))?;
    let ids = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    let count = |ids: &[u8]| String::from_utf8_lossy(ids).split_whitespace().count();
    Ok(ids.is_none_or(|ids| count(ids) == 1))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn judge(lines: &[(u32, Vec<u8>)], dir: &Path) -> Use {
    let is = |line: &[u8], names: &[&str]| {
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = Path::new(OsStr::from_bytes(program)).file_name();
        name.is_some_and(|name| names.iter().any(|wanted| name == *wanted))
    };
    let first = |wanted: &dyn Fn(&[u8]) -> bool| {
        lines.iter().find(|(_, line)| wanted(line)).map(|(pid, _)| *pid)
    };
    if let Some(pid) = first(&|line| names(line, dir)) {
        return Use::Used(pid);
    }
    if let Some(pid) = first(&|line| is(line, &EMBEDDED)) {
        return Use::Hidden(pid);
    }
    first(&|line| is(line, &["kubelet"])).map_or(Use::NoKubelet, |_| Use::Unused)
}

/// Whether a command line has a flag of providers with a path in `dir`, in the same word or in the next.
fn names(line: &[u8], dir: &Path) -> bool {
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let real = fs::canonicalize(dir);
    words.iter().enumerate().any(|(at, word)| {
        let Some(start) = word.windows(FLAGS.len()).position(|part| part == FLAGS) else {
            return false;
        };
        let flag = &word[start..];
        let value = match flag.iter().position(|byte| *byte == b'=') {
            Some(end) => &flag[end + 1..],
            None => words.get(at + 1).copied().unwrap_or_default(),
        };
        let value = Path::new(OsStr::from_bytes(value));
        // The kubelet may name the directory by way of a link.
        value.starts_with(dir)
            || real
                .as_ref()
                .is_ok_and(|dir| fs::canonicalize(value).is_ok_and(|v| v.starts_with(dir)))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn found(lines: &[&str], dir: &Path) -> Use {
        let lines: Vec<_> = (1..).zip(lines.iter().map(|line| line.as_bytes().to_vec())).collect();
        judge(&lines, dir)
    }

    #[test]
    fn a_kubelet_is_known_by_its_flags() {
        let dir = Path::new("/opt/keyward");
        for line in [
            "kubelet\0--image-credential-provider-config=/opt/keyward/current/kubelet.yaml\0",
            "kubelet\0--v=2\0--image-credential-provider-bin-dir\0/opt/keyward/current/bin\0",
            "/usr/bin/k3s\0server\0--kubelet-arg=image-credential-provider-bin-dir=/opt/keyward/current/bin\0",
        ] {
            assert_eq!(found(&["init\0", line], dir), Use::Used(2), "{line}");
        }
        for line in [
            "kubelet\0--image-credential-provider-config=/opt/keyward-other/kubelet.yaml\0",
            "/usr/bin/kubelet\0--config=/opt/keyward/current/kubelet.yaml\0",
            "kubelet\0--image-credential-provider-bin-dir\0",
        ] {
            assert_eq!(found(&[line], dir), Use::Unused, "{line}");
        }
    }

    #[test]
    fn a_directory_is_found_by_way_of_a_link() {
        let place = tempfile::tempdir().unwrap();
        let (dir, other) = (place.path().join("keyward"), place.path().join("link"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("kubelet.yaml"), "").unwrap();
        symlink(&dir, &other).unwrap();
        let line = format!(
            "kubelet\0--image-credential-provider-config={}/kubelet.yaml\0",
            other.display()
        );
        assert_eq!(found(&[&line], &dir), Use::Used(1));
    }

    #[test]
    fn without_a_kubelet_whose_flags_are_seen_nothing_is_known() {
        let dir = Path::new("/opt/keyward");
        assert_eq!(found(&["init\0", "sh\0-c\0kubelet\0", ""], dir), Use::NoKubelet);
        let line = "/usr/local/bin/k3s\0agent\0";
        assert_eq!(found(&["kubelet\0", line], dir), Use::Hidden(2));
    }
}
