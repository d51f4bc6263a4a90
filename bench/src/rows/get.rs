//! `keyward get --raw /healthz` beside kubectl, and beside curl, which is given its token.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
};

use super::{
    scene::{Scene, TOKEN},
    startup::{keyward, start},
};
use crate::measure::{Bar, Row, Variant};

/// The program, kubectl and curl ask the same server the same question.
pub fn row() -> Row {
    let scene = Rc::new(Scene::new());
    let (one, two, three) = (scene.clone(), scene.clone(), scene);
    let (keyward, kubectl) = (keyward(), kubectl());
    Row {
        unit: "ms",
        variants: vec![
            Variant { label: "curl, with a ready token", run: Box::new(move || curl(&one)) },
            Variant { label: "kubectl", run: Box::new(move || get(&kubectl, &two)) },
            Variant { label: "ours", run: Box::new(move || get(&keyward, &three)) },
        ],
        bars: vec![
            Bar {
                promise: "get --raw /healthz beside kubectl's",
                judge: |r| (r.ratio("ours", "kubectl"), 1.0 / 3.0),
            },
            Bar {
                promise: "get --raw /healthz beside curl with a ready token",
                judge: |r| (r.ratio("ours", "curl, with a ready token"), 1.3),
            },
        ],
    }
}

fn get(program: &Path, scene: &Scene) -> Result<f64, String> {
    let config = &scene.folder.config;
    // A home of its own, so that no cache and no preferences of the user take part.
    let home = config.parent().unwrap_or(config);
    start(
        Command::new(program)
            .args(["get", "--raw", "/healthz", "--kubeconfig"])
            .arg(config)
            .env("HOME", home),
    )
}

fn curl(scene: &Scene) -> Result<f64, String> {
    start(
        Command::new("curl")
            .args(["--silent", "--fail", "--cacert"])
            .arg(&scene.authority)
            .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
            .arg(format!("{}/healthz", scene.server.url())),
    )
}

/// The kubectl on PATH. Some installations put a program of that name before the real ones, which
/// asks the server for its version and starts the one that fits; it is not what is measured here.
fn kubectl() -> PathBuf {
    let found = std::env::var_os("PATH")
        .iter()
        .flat_map(std::env::split_paths)
        .map(|folder| folder.join("kubectl"))
        .find_map(|path| fs::canonicalize(path).ok())
        .unwrap_or_else(|| "kubectl".into());
    let mut versions: Vec<OsString> = found
        .parent()
        .and_then(|folder| fs::read_dir(folder).ok())
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with("kubectl.1."))
        .collect();
    versions.sort();
    versions.pop().map_or(found.clone(), |newest| found.with_file_name(newest))
}
