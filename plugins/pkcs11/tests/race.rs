//! Another user who swaps what a module's path leads to, while it is loaded.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, missing_docs)]

mod support;

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, lchown, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use support::Lab;

/// Somebody whom no system knows.
const OTHER: u32 = 424_242;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn attempts() -> usize {
    env::var("KEYWARD_RACE_ATTEMPTS").map_or(300, |number| number.parse().unwrap())
}

/// Links to the real module and to the attacker's, one after the other in one place.
fn swap(place: &Path, targets: &[PathBuf], over: &AtomicBool) {
    let beside = place.with_extension("new");
    for target in targets.iter().cycle() {
        symlink(target, &beside).unwrap();
        if is_root() {
            lchown(&beside, Some(OTHER), Some(OTHER)).unwrap();
        }
        fs::rename(&beside, place).unwrap();
        if over.load(Ordering::Relaxed) {
            return;
        }
    }
}

#[test]
fn a_module_behind_a_link_that_others_swap_is_never_loaded() {
    let lab = Lab::soft();
    let shared = lab.path("shared");
    fs::create_dir(&shared).unwrap();
    // Root can make links of another user; anybody else lets everybody into the directory.
    let mode = if is_root() { 0o1777 } else { 0o777 };
    fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).unwrap();
    let theirs = shared.join("theirs.so");
    fs::copy(&lab.module, &theirs).unwrap();
    let place = shared.join("module.so");
    let targets = [lab.module.clone(), theirs];
    swap(&place, &targets, &AtomicBool::new(true));
    let over = AtomicBool::new(false);
    let uri = format!("pkcs11:?module-path={}", place.display());
    thread::scope(|scope| {
        let (place, targets, flag) = (&place, &targets, &over);
        let swapping = scope.spawn(move || swap(place, targets, flag));
        for attempt in 0..attempts() {
            let output = lab.plugin().args(["list", &uri]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "attempt {attempt}: it was loaded");
            assert!(said.contains("is not loaded: "), "attempt {attempt}: {said}");
        }
        over.store(true, Ordering::Relaxed);
        swapping.join().unwrap();
    });
}

#[test]
fn a_module_whose_real_path_is_too_long_to_be_checked_is_not_loaded() {
    let lab = Lab::soft();
    let name = "d".repeat(250);
    let mut at = lab.path("");
    for number in 0..20 {
        fs::create_dir(at.join(&name)).unwrap();
        let link = lab.path(&format!("l{number}"));
        symlink(at.join(&name), &link).unwrap();
        at = link;
    }
    let module = at.join("module.so");
    fs::copy(&lab.module, &module).unwrap();
    let uri = format!("pkcs11:?module-path={}", module.display());
    let output = lab.plugin().args(["list", &uri]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is not loaded: "), "{said}");
}
