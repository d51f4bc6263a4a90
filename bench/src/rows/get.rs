//! `keyward get --raw /healthz` beside kubectl, and beside curl, which is given its token.

use std::{path::Path, process::Command, rc::Rc};

use super::{
    scene::{Scene, TOKEN},
    startup::{keyward, kubectl, start},
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
                promise: "get --raw /healthz vs kubectl's",
                judge: |r| (r.ratio("ours", "kubectl"), 1.0 / 3.0),
            },
            Bar {
                promise: "get --raw /healthz vs curl with a ready token",
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
            .env("HOME", home)
            .env("KEYWARD_AGENT", "off"),
    )
}

pub(super) fn curl(scene: &Scene) -> Result<f64, String> {
    start(
        Command::new("curl")
            .args(["--silent", "--fail", "--cacert"])
            .arg(&scene.authority)
            .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
            .arg(format!("{}/healthz", scene.server.url())),
    )
}
