//! Sends a request every few seconds and serves metrics about its credentials for Prometheus.
//! `cargo run -p keyward --example metrics -- [CONTEXT]`, then `curl` the address that it prints.
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use std::{env, error::Error, sync::Arc, time::Duration};

use http::{
    Response,
    header::{CONNECTION, CONTENT_TYPE},
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use keyward::Client;
use keyward_host::{Metrics, Sources};
use keyward_process::clock::{Clock as _, SystemClock};
use keyward_protocol::prometheus::Text;
use tokio::{net::TcpListener, time::sleep};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    // Before the first client, so that the metrics are about all clients of this process.
    let metrics = Arc::new(Metrics::default());
    let sources = Sources::new(Arc::new(SystemClock), metrics.clone());
    sources.set_global().map_err(|_| "a client was built before")?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("metrics http://{}/metrics", listener.local_addr()?);
    tokio::spawn(serve(listener, metrics));

    let client = Client::for_context(env::args().nth(1).as_deref())?;
    loop {
        match client.get("/version").await {
            Ok(response) => println!("the server answered {}", response.status()),
            Err(error) => println!("{error}"),
        }
        sleep(Duration::from_secs(5)).await;
    }
}

/// Serves the metrics at every path, one connection after another.
pub(crate) async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    while let Ok((stream, _)) = listener.accept().await {
        let service = service_fn(|_| {
            let response = Response::builder()
                .header(CONTENT_TYPE, Text::CONTENT_TYPE)
                .header(CONNECTION, "close")
                .body(metrics.text(SystemClock.now()));
            async { response }
        });
        // A scraper that leaves early needs no answer.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}
