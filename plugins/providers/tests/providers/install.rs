//! `keyward-providers install`.

use std::{fs, os::unix::fs::symlink, path::Path};

use crate::program::{self, Ended, Run};

fn install(directory: &Path, more: &[&str]) -> Ended {
    Run::named("keyward-providers").args(["install"]).args(more).args([directory]).run()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_link_for_each_provider_is_created_and_works() {
    let directory = tempfile::tempdir().unwrap();
    let report = install(directory.path(), &[]).printed();
    assert!(report.lines().all(|line| line.ends_with(": made")), "{report}");
    let made = names(directory.path());
    assert!(made.iter().all(|name| name.contains("keyward-")), "{made:?}");
    for family in keyward_providers::FAMILIES {
        for name in family.links() {
            let link = directory.path().join(name);
            let target = fs::canonicalize(program::path()).unwrap();
            assert_eq!(fs::canonicalize(&link).unwrap(), target);
            let help = std::process::Command::new(&link).arg("--help").output().unwrap();
            assert!(help.status.success(), "{help:?}");
        }
    }
    let again = install(directory.path(), &["--drop-in"]).printed();
    assert!(again.contains("exists already"), "{again}");
    let replaced = keyward_providers::FAMILIES.iter().map(|family| family.replaces.len());
    assert_eq!(names(directory.path()).len(), made.len() + replaced.sum::<usize>());
}

#[test]
fn a_file_of_somebody_else_is_kept_and_nothing_is_created() {
    let Some(last) = keyward_providers::FAMILIES.last() else { return };
    for make in [
        |path: &Path| fs::write(path, "theirs").unwrap(),
        |path: &Path| symlink("/nowhere", path).unwrap(),
        |path: &Path| fs::create_dir(path).unwrap(),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let theirs = directory.path().join(last.name);
        make(&theirs);
        let ended = install(directory.path(), &[]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("is not a link to this program"), "{ended:?}");
        assert_eq!(names(directory.path()), [last.name]);
        assert!(fs::read(&theirs).is_ok_and(|text| text == b"theirs") || !theirs.is_file());
    }
}

#[test]
fn links_to_an_older_place_of_the_program_are_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let Some(family) = keyward_providers::FAMILIES.first() else { return };
    let link = directory.path().join(family.name);
    symlink("/opt/old/keyward-providers", &link).unwrap();
    let report = install(directory.path(), &[]).printed();
    assert!(report.contains(&format!("{}: made", link.display())), "{report}");
    assert_eq!(fs::canonicalize(&link).unwrap(), fs::canonicalize(program::path()).unwrap());
}

#[test]
fn what_is_no_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let ended = install(&directory.path().join("none"), &[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("is not a directory"), "{ended:?}");
    let ended = Run::named("keyward-providers").args(["install"]).run();
    assert!(ended.stderr.contains("needs one directory"), "{ended:?}");
}
