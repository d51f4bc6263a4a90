//! Sends a GET request with the credentials of a kubeconfig context and prints the answer.
//! `cargo run -p keyward --example get -- /version [CONTEXT]`
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use std::{env, error::Error};

use keyward::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "/version".to_owned());
    let client = Client::for_context(arguments.next().as_deref())?;
    println!("{}", get(&client, &path).await?);
    Ok(())
}

/// What the server answers. The plugin runs at the first request, and again before its credential
/// expires or when the server refuses it.
pub(crate) async fn get(
    client: &Client,
    path: &str,
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let response = client.get(path).await?;
    match response.status() {
        status if status.is_success() => response.into_body().text().await,
        status => Err(format!("the server answered {status}").into()),
    }
}
