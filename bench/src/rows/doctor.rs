//! `keyward doctor` on a healthy setup, beside what it cannot do without: the plugin and one request.

use std::{process::Command, rc::Rc};

use super::{
    get::curl,
    scene::Scene,
    startup::{keyward, start},
};
use crate::measure::{Bar, Row, Variant};

const PLUGIN: &str = "the plugin alone";
const REQUEST: &str = "one request by curl, with a ready token";
const OURS: &str = "ours: doctor";

/// The plugin, a request and the doctor, each as a process.
pub fn row() -> Row {
    let scene = Rc::new(Scene::new());
    let (one, two, three) = (scene.clone(), scene.clone(), scene);
    Row {
        unit: "ms",
        variants: vec![
            Variant {
                label: PLUGIN,
                run: Box::new(move || start(&mut Command::new(&one.folder.plugin))),
            },
            Variant { label: REQUEST, run: Box::new(move || curl(&two)) },
            Variant { label: OURS, run: Box::new(move || doctor(&three)) },
        ],
        bars: vec![Bar {
            promise: "doctor takes at most 30 ms more than the plugin plus one request",
            judge: |r| {
                let more = |[plugin, request, ours]: [f64; 3]| ours - plugin - request;
                (r.middle([PLUGIN, REQUEST, OURS], more), 30.0)
            },
        }],
    }
}

fn doctor(scene: &Scene) -> Result<f64, String> {
    let config = &scene.folder.config;
    // A home of its own, so that no cache and no preferences of the user take part.
    let home = config.parent().unwrap_or(config);
    start(
        Command::new(keyward())
            .args(["doctor", "--kubeconfig"])
            .arg(config)
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", home)
            .env("KEYWARD_AGENT", "off"),
    )
}
