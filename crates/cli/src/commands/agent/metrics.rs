//! `keyward agent metrics`: what the agent counts, for Prometheus.

use std::{net::SocketAddr, sync::Arc};

use keyward_protocol::{
    agent::{Admin, Served},
    prometheus::{Family, Text},
};
use tokio::{sync::Mutex, task::spawn_blocking};

use super::client::{self, Whose};
use crate::{failure::Failure, globals::Globals, listen::Listen, output};

const UP: Family = Family::gauge("keyward_agent_up", "whether an agent is running");

/// Print the agent's metrics for Prometheus, or serve them
///
/// Does not start the agent and does not keep it running. If no agent is running, `keyward_agent_up`
/// is 0.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  # For the textfile collector of the node exporter.
  keyward agent metrics > keyward.prom

  # For Prometheus itself; every user of this machine can read them.
  keyward agent metrics --listen 127.0.0.1:9876")]
pub(super) struct Args {
    #[command(flatten)]
    listen: Listen,
}

pub(super) fn run(args: &Args, whose: Whose, globals: &Globals) -> Result<(), Failure> {
    match args.listen.address {
        None => output::print(&metrics(whose, globals)?),
        Some(address) => serve(&args.listen, address, whose, globals),
    }
}

fn metrics(whose: Whose, globals: &Globals) -> Result<String, Failure> {
    let served = client::admin(whose, globals, &Admin::Metrics)?;
    let mut text = Text::default();
    text.family(UP).sample(&[], u8::from(served.is_some()));
    let text = text.into_string();
    match served {
        None => Ok(text),
        Some(Served::Done(metrics)) => Ok(text + metrics.expose()),
        Some(_) => Err(Failure::failed("the agent sent an unexpected answer")),
    }
}

/// Asks the agent anew for each scrape, so that scrapes survive its end and its upgrades.
fn serve(
    listen: &Listen,
    address: SocketAddr,
    whose: Whose,
    globals: &Globals,
) -> Result<(), Failure> {
    // One at a time: our memory is open to inspection while the agent looks who asks.
    let globals = Arc::new(Mutex::new(globals.clone()));
    listen.serve(address, move || {
        let globals = Arc::clone(&globals);
        async move {
            let globals = globals.lock_owned().await;
            let scraped = spawn_blocking(move || metrics(whose, &globals)).await;
            let scraped = scraped.map_err(|error| error.to_string())?;
            scraped.map_err(|failure| failure.message().to_owned())
        }
    })
}
