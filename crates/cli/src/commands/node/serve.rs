//! `keyward node serve`: metrics of a node for Prometheus.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use keyward_process::{
    clock::{Clock as _, SystemClock},
    file::{self, Limits},
};
use keyward_protocol::prometheus::{Family, Text};

use super::{
    dir::NodeDir,
    kubelet::{self, Use},
};
use crate::{failure::Failure, flags, listen::Listen};

const INSTALLED: Family =
    Family::gauge("keyward_node_installed_info", "The installed version, by its name.");
const USED: Family = Family::gauge(
    "keyward_node_kubelet_configured",
    "1 if a running kubelet uses the installed providers.",
);

/// How long it stays known whether a kubelet uses the directory.
const KEPT: Duration = Duration::from_secs(10);

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

    #[command(flatten)]
    listen: Listen,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let Some(address) = args.listen.address else {
        // A signal ends the process.
        loop {
            thread::park();
        }
    };
    let page =
        Page { dir: args.dir.clone(), counted: args.metrics.clone(), last: Mutex::default() };
    let page = Arc::new(page);
    args.listen.serve(address, move || {
        let page = Arc::clone(&page);
        async move { Ok(page.text()) }
    })
}

/// The metrics of a node.
struct Page {
    dir: NodeDir,
    counted: Option<PathBuf>,
    /// Whether a kubelet used the directory when that was last looked at, and when.
    last: Mutex<Option<(Duration, bool)>>,
}

impl Page {
    fn text(&self) -> String {
        let mut text = Text::default();
        let version = self.dir.version();
        let mut samples = text.family(INSTALLED);
        if let Some(version) = &version {
            samples.sample(&[("version", version)], 1);
        }
        text.family(USED).sample(&[], u8::from(self.is_used()));
        let limits = Limits::NAMED.at_most(MOST).regular();
        // Missing until the first pull.
        let counted = self.counted.as_deref().and_then(|path| file::read(path, &limits).ok());
        text.into_string() + &String::from_utf8_lossy(&counted.unwrap_or_default())
    }

    /// Whether a running kubelet uses the directory. Not looked at for every scrape: that goes through all processes
    /// of the node, and anybody may scrape.
    fn is_used(&self) -> bool {
        let now = SystemClock.elapsed();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((when, is_used)) if now < when + KEPT => is_used,
            _ => {
                let is_used = matches!(kubelet::use_of(&self.dir.path), Ok(Use::Used(_)));
                *last = Some((now, is_used));
                is_used
            }
        }
    }
}
