//! The broken setups, by what is wrong.

mod image;
mod kubeconfig;
mod plugin;
mod server;

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{
    broken::{Broken, Fix},
    scene::Scene,
};

pub(crate) use self::{image::*, kubeconfig::*, plugin::*, server::*};

/// What most setups have in common.
const NONE: Broken =
    Broken { pain: 0, step: "", cause: "", words: "", build: |_| {}, fix: Fix::Command };

fn mode(scene: &Scene, name: &str, mode: u32) {
    fs::set_permissions(scene.stage.path(name), fs::Permissions::from_mode(mode)).unwrap();
}
