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
         Compared with: kube 5, {}.\n\n\
         A single figure says more about the machine than about the code. So each row measures its variants in turn, round after\n\
         round, in one run, and shows the median, the ratio to the first variant, and the spread. A bar is a promise, checked\n\
         in the same run: ratios and differences by the median over all rounds, everything else by its median. If a client\n\
         cannot do the work or is not installed, it is listed as missing, with the reason.\n\n\
         At expiry, callers wait for the plugin, and nearly all of that is the plugin's own time, the same for every client. So\n\
         the plugin records when it started and finished, and the bar is on the rest of the wait: starting it, reading its\n\
         answer, and serving everyone. The whole wait is shown as well, without a bar.\n\n\
         kubectl itself spends milliseconds on any plugin, however quick. The plugin `cat` prints an answer from a file, so\n\
         what it adds to a static token is the floor for every plugin. A wrapped plugin has a bar against each of the two.\n\n\
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
