//! The rows, one file each.

mod cached;
mod crowd;
mod get;
mod image;
mod kubeconfig;
mod layer;
mod plugin;
mod proxy;
mod requests;
mod scene;
mod signer;
mod startup;

pub use self::{proxy::close, startup::keyward};
use crate::measure::Row;

/// Sets a row up.
type Make = fn() -> Row;

/// Every row by name, in the order of the table.
pub const ALL: &[(&str, Make)] = &[
    ("cached credential", cached::row),
    ("plugin run", plugin::row),
    ("callers at expiry", crowd::row),
    ("kubeconfig: load and resolve", kubeconfig::row),
    ("program: --version", startup::version),
    ("program: plan and credential", startup::commands),
    ("program: size", startup::size),
    ("program: get --raw /healthz", get::row),
    ("the layer", layer::row),
    ("requests on one connection", requests::connection),
    ("from nothing to the first answer", requests::first),
    ("signed handshakes", signer::row),
    ("image: one match", image::one),
    ("image: lookup", image::many),
    ("proxy: requests", proxy::requests),
    ("proxy: latency", proxy::latency),
    ("proxy: memory", proxy::memory),
    ("proxy: stream", proxy::stream),
];
