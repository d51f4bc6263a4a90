//! The rows, one file each.

mod agent;
mod azure;
mod cached;
mod crowd;
mod doctor;
mod ecr;
mod get;
mod google;
mod image;
mod kubeconfig;
mod layer;
mod node;
mod plugin;
mod providers;
mod proxy;
mod proxy_start;
mod requests;
mod scene;
mod signer;
mod stand_in;
mod startup;
mod watches;

pub use self::startup::{keyward, kubectl};
use crate::measure::{ROUNDS, Row};

/// Ends the processes that several rows share.
pub fn close() {
    proxy::close();
    watches::close();
}

/// Sets a row up.
type Make = fn() -> Row;

/// For variants so close to each other that only many short rounds tell them apart.
const MANY: usize = 5 * ROUNDS;

/// A row that is plotted.
pub const CROWD: &str = "callers at expiry, besides the plugin's own time";

/// Every row by name, with its rounds, in the order of the table.
pub const ALL: &[(&str, usize, Make)] = &[
    ("cached credential", 3 * ROUNDS, cached::row),
    ("plugin run", MANY, plugin::row),
    (CROWD, 3 * ROUNDS, crowd::row),
    ("callers at expiry, with the plugin's own time", ROUNDS, crowd::whole),
    ("kubeconfig: load and resolve", ROUNDS, kubeconfig::row),
    ("program: --version", ROUNDS, startup::version),
    ("program: plan and credential", ROUNDS, startup::commands),
    ("program: size", ROUNDS, startup::size),
    ("program: get --raw /healthz", ROUNDS, get::row),
    ("program: doctor", ROUNDS, doctor::row),
    ("the layer", MANY, layer::row),
    ("requests on one connection", MANY, requests::connection),
    ("requests in turn on one processor", MANY, requests::in_turn),
    ("the work of a request", MANY, requests::work),
    ("from nothing to the first answer", ROUNDS, requests::first),
    ("signed handshakes", 3 * ROUNDS, signer::row),
    ("agent: warm request", 20 * ROUNDS, agent::warm),
    ("agent: cold start", ROUNDS, agent::cold),
    ("agent: kubectl get --raw", 3 * ROUNDS, agent::through_kubectl),
    ("agent: requests of one process", ROUNDS, agent::requests),
    ("agent: memory", 3, agent::memory),
    ("agent: wake-ups", 1, agent::idle),
    ("agent: size", 1, agent::size),
    ("providers: EKS token", ROUNDS, providers::eks),
    ("providers: EKS token with a warm agent", 3 * ROUNDS, agent::eks),
    ("providers: OIDC token", ROUNDS, agent::oidc),
    ("providers: ECR login", ROUNDS, ecr::row),
    ("providers: GKE token", ROUNDS, google::gke),
    ("providers: Artifact Registry login", ROUNDS, google::gar),
    ("providers: Entra token", ROUNDS, azure::entra),
    ("providers: size", 1, providers::size),
    ("image: one match", ROUNDS, image::one),
    ("image: lookup", ROUNDS, image::many),
    ("image: a provider behind keyward-provider-node", 3 * ROUNDS, node::row),
    ("proxy: requests", 2 * ROUNDS - 1, proxy::requests),
    ("proxy: latency", ROUNDS, proxy::latency),
    ("proxy: memory", ROUNDS, proxy::memory),
    ("proxy: stream", ROUNDS, proxy::stream),
    ("proxy: kubectl get ns", 3 * ROUNDS, proxy_start::kubectl_alone_and_in_a_proxy),
    ("proxy: first answer", 3 * ROUNDS, proxy_start::first_answer),
    ("proxy: 10,000 watches, memory", 1, watches::memory),
    ("proxy: 10,000 watches, memory of each", 1, watches::each),
    ("proxy: 10,000 watches, open files", 1, watches::files),
    ("proxy: 10,000 watches, other requests", 2 * ROUNDS - 1, watches::others),
];
