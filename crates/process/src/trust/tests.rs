#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::PathBuf,
};

use rustix::fs::{XattrFlags, setxattr};
use tempfile::TempDir;

use super::{
    walk::{Us, check, stand_in},
    *,
};

/// Somebody who owns nothing here.
const OTHER: u32 = 424_242;

/// A program in a directory in a directory.
struct Stage {
    root: TempDir,
}

impl Stage {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        let stage = Self { root };
        stage.write("bin/plug", "not a script");
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.mode(name, 0o755);
    }

    fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn check(&self, name: &str) -> io::Result<Checked> {
        self.check_with(name, "")
    }

    fn check_with(&self, name: &str, search_path: &str) -> io::Result<Checked> {
        program(&self.path(name), Some(search_path.as_ref()))
    }

    fn faults(&self, name: &str) -> Vec<String> {
        self.check(name).unwrap().faults().map(ToString::to_string).collect()
    }

    fn warnings(&self, name: &str) -> Vec<String> {
        self.check(name).unwrap().warnings().map(ToString::to_string).collect()
    }
}

fn owner(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().uid()
}

/// One entry for a user, with a mask, beside the three that are always there.
fn list(user: u32, perm: u16, mask: u16) -> Vec<u8> {
    let entries = [
        (1_u16, 7_u16, u32::MAX),
        (2, perm, user),
        (4, 5, u32::MAX),
        (0x10, mask, u32::MAX),
        (0x20, 5, u32::MAX),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(perm.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn a_namespace_without_root_is_recognised() {
    assert_eq!(stand_in("         0          0 4294967295\n"), None);
    assert_eq!(stand_in("0 100000 1000\n1000 1000 1\n"), None);
    assert_eq!(stand_in("1000 1000 1\n"), Some(65534));
    assert_eq!(stand_in(""), None);
}

#[test]
fn whoever_owns_the_way_to_a_program_must_be_root_or_us() {
    let stage = Stage::new();
    let plug = stage.path("bin/plug");
    symlink("plug", stage.path("bin/link")).unwrap();
    let ours = owner(&plug);
    if ours == 0 {
        for name in ["bin/plug", "bin/link"] {
            std::os::unix::fs::lchown(stage.path(name), Some(OTHER), None).unwrap();
        }
    }
    let (us, them) = if ours == 0 { (0, OTHER) } else { (ours + 1, ours) };
    let look = |stand_in| check(&stage.path("bin/link"), None, Us { uid: us, stand_in }).unwrap();
    let faults: Vec<_> = look(None).faults().cloned().collect();
    assert!(faults.iter().all(|fault| fault.problem == Problem::Owner(them)), "{faults:?}");
    let parts: Vec<_> = faults.iter().map(|fault| fault.part).collect();
    assert!(parts.ends_with(&[Part::Link, Part::File]), "{faults:?}");
    assert_eq!(look(Some(them)).faults().count(), 0);
    assert!(look(Some(them)).warnings().any(|found| found.problem == Problem::UnknownOwner));
}

#[test]
fn modes_are_judged_at_every_component() {
    let stage = Stage::new();
    assert_eq!(stage.faults("bin/plug"), [""; 0]);
    stage.mode("bin", 0o777);
    let fault = format!(
        "directory `{}` can be written by everybody (mode 0777)",
        stage.path("bin").display()
    );
    assert_eq!(stage.faults("bin/plug"), [fault]);
    stage.mode("bin", 0o1777);
    assert_eq!(stage.faults("bin/plug"), [""; 0]);
    stage.mode("bin", 0o755);
    stage.mode("bin/plug", 0o775);
    assert_eq!(stage.faults("bin/plug"), [""; 0]);
    let warning = format!(
        "file `{}` can be written by its group (mode 0775)",
        stage.path("bin/plug").display()
    );
    assert_eq!(stage.warnings("bin/plug"), [warning]);
}

#[test]
fn an_access_list_that_lets_somebody_write_is_a_fault_and_names_them() {
    let stage = Stage::new();
    let attribute = "system.posix_acl_access";
    for name in ["bin", "bin/plug"] {
        let path = stage.path(name);
        setxattr(&path, attribute, &list(OTHER, 7, 7), XattrFlags::empty()).unwrap();
        let faults = stage.faults("bin/plug");
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("user 424242, by its access list"), "{faults:?}");
        assert_eq!(stage.warnings("bin/plug"), [""; 0], "the group itself may not write");
        // What the mask takes away is not there.
        setxattr(&path, attribute, &list(OTHER, 7, 5), XattrFlags::empty()).unwrap();
        assert_eq!(stage.faults("bin/plug"), [""; 0]);
        // We may be on the list ourselves.
        setxattr(&path, attribute, &list(owner(&path), 7, 7), XattrFlags::empty()).unwrap();
        assert_eq!(stage.faults("bin/plug"), [""; 0]);
    }
}

#[test]
fn the_interpreter_of_a_script_is_judged_too() {
    let stage = Stage::new();
    fs::create_dir(stage.path("open")).unwrap();
    stage.write("open/interp", "not a script");
    stage.mode("open", 0o777);
    let interp = stage.path("open/interp");
    let open = stage.path("open");
    let directory = format!("directory `{}` can be written by everybody", open.display());
    let scripts = [
        format!("#!{}\n", interp.display()),
        format!("#! {} -u\n", interp.display()),
        "#!/usr/bin/env interp\n".to_owned(),
        "#!/usr/bin/env -S A=b interp -u\n".to_owned(),
        format!("#!{}\n", stage.path("bin/second").display()),
    ];
    stage.write("bin/second", &format!("#!{}\n", interp.display()));
    for script in scripts {
        stage.write("bin/plug", &script);
        let checked = stage.check_with("bin/plug", open.to_str().unwrap()).unwrap();
        let faults: Vec<String> = checked.faults().map(ToString::to_string).collect();
        assert_eq!(faults.len(), 1, "{script}: {faults:?}");
        assert!(
            faults[0].starts_with(&directory) && faults[0].contains("; script `"),
            "{faults:?}"
        );
        // The same file is no program when it is only loaded.
        assert_eq!(library(&stage.path("bin/plug")).unwrap().faults().count(), 0);
    }
    stage.write("bin/plug", "#!interp\n");
    assert!(stage.faults("bin/plug")[0].contains("depends on the working directory"));
    stage.write("bin/plug", &format!("#!{}\n", stage.path("bin/plug").display()));
    assert!(stage.faults("bin/plug")[0].contains("whose interpreters are scripts in turn"));
    stage.write("bin/plug", "#!/no/such/interpreter\n");
    assert_eq!(stage.faults("bin/plug"), [""; 0], "the runner says so");
}

#[test]
fn what_cannot_be_looked_at_is_an_error_that_names_the_component() {
    let stage = Stage::new();
    let missing = stage.check("bin/none").unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert!(missing.to_string().contains("bin/none`"), "{missing}");
    symlink("loop", stage.path("bin/loop")).unwrap();
    assert!(stage.check("bin/loop").unwrap_err().to_string().contains("bin/loop`"));
    assert!(program("relative".as_ref(), None).is_err());
    // A path of more than 4096 bytes behind short links.
    let name = "d".repeat(250);
    let mut at = stage.path("");
    for number in 0..20 {
        fs::create_dir(at.join(&name)).unwrap();
        let link = stage.path(&format!("bin/l{number}"));
        symlink(at.join(&name), &link).unwrap();
        at = link;
    }
    fs::write(at.join("plug"), "").unwrap();
    let long = program(&at.join("plug"), None).unwrap_err();
    assert_eq!(long.kind(), io::ErrorKind::InvalidFilename, "{long}");
}

#[test]
fn a_link_of_proc_is_not_followed_on_trust() {
    let stage = Stage::new();
    let file = fs::File::open(stage.path("bin/plug")).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let checked = library(path.as_ref()).unwrap();
    assert!(checked.faults().any(|fault| fault.problem == Problem::Magic));
}

#[test]
fn the_resolved_path_has_no_links_and_is_the_same_file() {
    let stage = Stage::new();
    symlink("../bin", stage.path("bin/self")).unwrap();
    let checked = stage.check("bin/self/self/../bin/plug").unwrap();
    assert_eq!(checked.resolved, stage.path("bin/plug"));
    assert_eq!(checked.file_id, FileId::read(&stage.path("bin/plug")).unwrap());
}
