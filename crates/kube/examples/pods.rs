//! Lists the pods in the default namespace of a kubeconfig context.
//! `cargo run -p keyward-kube --example pods -- [CONTEXT]`
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use std::{env, error::Error};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let context = env::args().nth(1);
    for name in pods(keyward_kube::client(context.as_deref())?).await? {
        println!("{name}");
    }
    Ok(())
}

/// The names of the pods in the client's default namespace.
pub(crate) async fn pods(client: Client) -> kube::Result<Vec<String>> {
    let pods = Api::<Pod>::default_namespaced(client).list(&ListParams::default()).await?;
    Ok(pods.into_iter().filter_map(|pod| pod.metadata.name).collect())
}
