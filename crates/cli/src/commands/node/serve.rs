//! `keyward node serve`: metrics of a node for Prometheus.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, thread};

use keyward_process::file::{self, Limits};
use keyward_protocol::prometheus::{Family, Text};
use keyward_proxy::MetricsServer;

use super::{
    dir::NodeDir,
    kubelet::{self, Use},
};
use crate::{failure::Failure, flags, output};

const INSTALLED: Family =
    Family::gauge("keyward_node_installed_info", "The installed version, by its name.");
const USED: Family = Family::gauge(
    "keyward_node_kubelet_configured",
    "1 if a running kubelet uses the installed providers.",
);

/// More than the counters of a node's providers can need.
const MOST: u64 = 1 << 20;

/// Wait for a signal to end; with `--listen`, serve metrics until then
///
/// Serves the metrics that `keyward-provider-node --metrics` counts, the installed version, and whether
/// a running kubelet uses the installed providers.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general())]
pub(super) struct Args {
    #[command(flatten)]
    dir: NodeDir,

    /// The file that `keyward-provider-node --metrics` writes
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,

    /// Serve `/metrics` and `/healthz` here, without TLS
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Listen on addresses other than loopback, under these names
    #[arg(
        long, value_name = "NAME,…", num_args = 0..=1, require_equals = true,
        default_missing_value = "", value_delimiter = ',', requires = "listen"
    )]
    danger_listen_remote: Option<Vec<String>>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let Some(address) = args.listen else {
        // A signal ends the process.
        loop {
            thread::park();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = MetricsServer::bind(address, args.danger_listen_remote.as_deref()).await?;
        output::tell(&format!("metrics {}\n", server.url()));
        let (dir, counted) = (args.dir.clone(), args.metrics.clone());
        let scrape = move || {
            let text = metrics(&dir, counted.as_deref());
            async move { Ok(text) }
        };
        server.serve(scrape).await;
        Ok(ExitCode::SUCCESS)
    })
}

fn metrics(dir: &NodeDir, counted: Option<&std::path::Path>) -> String {
    let mut text = Text::default();
    let version = dir.version();
    let mut samples = text.family(INSTALLED);
    if let Some(version) = &version {
        samples.sample(&[("version", version)], 1);
    }
    let is_used = matches!(kubelet::use_of(dir.path()), Ok(Use::Used(_)));
    text.family(USED).sample(&[], u8::from(is_used));
    let limits = Limits::NAMED.at_most(MOST).regular();
    // Missing until the first pull.
    let counted = counted.and_then(|path| file::read(path, &limits).ok()).unwrap_or_default();
    text.into_string() + &String::from_utf8_lossy(&counted)
}
