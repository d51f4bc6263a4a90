//! `docs/performance.md` and its picture, written by the run they are about.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{measure::Report, peer, plot, table};

/// Writes both. Says where.
pub fn write(reports: &[Report]) -> Result<PathBuf, String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = docs.join("performance.md");
    let put = |path: &Path, text: String| {
        fs::write(path, text).map_err(|e| format!("cannot write `{}`: {e}", path.display()))
    };
    put(&docs.join("performance.svg"), plot::svg(reports))?;
    put(&page, text(reports))?;
    Ok(page)
}

fn text(reports: &[Report]) -> String {
    let rows: String = reports.iter().map(table::text).collect();
    format!(
        "# Performance\n\n\
         Written by `cargo xtask bench --write` on {}, on {}.\n\
         Beside us: kube 5, {}.\n\n\
         A figure alone says more about the\n\
         machine than about the code, so each row measures its variants in turn, round after round, in one run: the\n\
         median, the ratio to the row's first variant, and the spread. A bar is a promise, judged in the same run:\n\
         ratios and differences by the median of those of each round, all else by the median. A peer that cannot do\n\
         the work, or is not there, is named as missing, with the reason.\n\n\
         Callers who come at expiry wait for the plugin, and nearly all of that is the plugin's own time, the same for\n\
         every client. So the plugin writes down when it began and when it was done; judged is the rest of the wait: to\n\
         start it, to read its answer, and to serve everybody. The whole wait is shown beside it, without a bar.\n\n\
         ![How it grows](performance.svg)\n\n\
         ```text{}```\n",
        today(),
        machine(),
        peer::versions(),
        rows
    )
}

fn today() -> String {
    let now = std::time::SystemTime::now();
    jiff::Timestamp::try_from(now)
        .map_or_else(|_| "an unknown day".to_owned(), |t| t.strftime("%Y-%m-%d").to_string())
}

/// Processor, cores and kernel, as the system tells them.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("an unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{cores} cores of {model}, Linux {}", read("/proc/sys/kernel/osrelease").trim())
}
