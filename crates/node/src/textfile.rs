//! Counters that outlive the process: a file for the textfile collector of Prometheus' node exporter, which each run
//! reads, adds to and replaces.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use keyward_image::{Lookup, Outcome, failed_elsewhere};
use keyward_process::file::{self, Limits};
use keyward_protocol::prometheus::{Family, Text};
use rustix::{
    fs::{CWD, OFlags, RenameFlags, renameat_with},
    process::geteuid,
};

const PULLS: Family = Family::counter(
    "keyward_node_pulls_total",
    "Image pulls that the kubelet asked a login for, by result: login, none or failed.",
);
const RUNS: Family = Family::counter(
    "keyward_node_provider_runs_total",
    "Runs of image credential providers, by result: answered or failed.",
);
const SHARED: Family = Family::counter(
    "keyward_node_shared_answers_total",
    "Answers of image credential providers that came from the node's agent instead of a run.",
);
const AGENT: Family =
    Family::gauge("keyward_node_agent_up", "1 if the node's agent served the last pull.");
const VALID: Family = Family::gauge(
    "keyward_node_config_valid",
    "1 if the newest configuration is in force, 0 if it is broken and an older one is.",
);
const INFO: Family =
    Family::gauge("keyward_node_config_info", "The configuration in force, by its hash.");

/// What the name of the file before the last one ends in. The collector reads only files that end in `.prom`.
const SPARE: &str = "before";

/// How long a pull waits for others to write the file: its answer must not be late for a counter.
const PATIENCE: Duration = Duration::from_secs(2);

/// More than a node's providers can need.
const MOST: u64 = 1 << 20;

/// The counters, and what this run adds to them.
pub(crate) struct Textfile {
    path: PathBuf,
    /// In a directory that only its owner can enter: whoever can open a lock can keep it.
    lock: PathBuf,
    pulls: Option<&'static str>,
    runs: Vec<(String, &'static str)>,
    shared: Vec<String>,
    agent: bool,
    config: Option<(String, bool)>,
}

/// Counters by label values.
#[derive(Default)]
struct Counters {
    pulls: BTreeMap<String, u64>,
    runs: BTreeMap<(String, String), u64>,
    shared: BTreeMap<String, u64>,
}

impl Textfile {
    /// Counts in the file at `path`; `state` is a directory for the lock.
    pub(crate) fn open(path: &Path, state: &Path) -> Self {
        let (path, lock) = (path.to_owned(), state.join("metrics.lock"));
        let (runs, shared) = (Vec::new(), Vec::new());
        Self { path, lock, pulls: None, runs, shared, agent: false, config: None }
    }

    pub(crate) fn configuration(&mut self, hash: &str, is_newest: bool) {
        self.config = Some((hash.to_owned(), is_newest));
    }

    pub(crate) fn agent(&mut self, is_up: bool) {
        self.agent = is_up;
    }

    pub(crate) fn providers(&mut self, found: &Lookup) {
        for result in &found.results {
            let name = result.provider.name.clone();
            match &result.outcome {
                Outcome::Answered(_) => self.runs.push((name, "answered")),
                Outcome::Kept(..) => self.shared.push(name),
                Outcome::Failed(error) | Outcome::LastGood(_, error) => {
                    // The pull that ran the provider counts the run.
                    if !failed_elsewhere(error) {
                        self.runs.push((name.clone(), "failed"));
                    }
                    if result.outcome.answer().is_some() {
                        self.shared.push(name);
                    }
                }
                _ => {}
            }
        }
    }

    pub(crate) fn pull(&mut self, has_login: bool, failed: bool) {
        self.pulls = Some(match (has_login, failed) {
            (_, true) => "failed",
            (true, _) => "login",
            _ => "none",
        });
    }

    /// Adds this run to the file. Concurrent runs wait for each other, but not for long.
    pub(crate) fn save(&self) -> io::Result<()> {
        if let Some(state) = self.lock.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        }
        let mut lock = OpenOptions::new();
        let lock = lock.write(true).create(true).truncate(false).mode(0o600).open(&self.lock)?;
        let _lock = locked(lock)?;
        let mut counters = Counters::read(&self.read());
        if let Some(result) = self.pulls {
            *counters.pulls.entry(result.to_owned()).or_default() += 1;
        }
        for (provider, result) in &self.runs {
            *counters.runs.entry((provider.clone(), (*result).to_owned())).or_default() += 1;
        }
        for provider in &self.shared {
            *counters.shared.entry(provider.clone()).or_default() += 1;
        }
        let page = self.page(&counters);
        let (mut file, before) = self.spare()?;
        file.write_all(page.as_bytes())?;
        if before > page.len() as u64 {
            file.set_len(page.len() as u64)?;
        }
        // The collector reads whole files only. It finds the old one or the new one, and an old one that it has opened
        // is next written to by the pull after the next. Where two files cannot be exchanged, there is only one yet, or
        // the file system does not know how: then it has to write the new one to the disk, which takes longer.
        let spare = self.beside(SPARE);
        renameat_with(CWD, &spare, CWD, &self.path, RenameFlags::EXCHANGE)
            .or_else(|_| fs::rename(&spare, &self.path))
    }

    /// The file before the last one, or a new one, to be written from its beginning, and how long it is.
    fn spare(&self) -> io::Result<(File, u64)> {
        let path = self.beside(SPARE);
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        let spare = options.write(true).custom_flags(flags.bits().cast_signed()).open(&path);
        if let Ok(spare) = spare {
            let found = spare.metadata()?;
            // What somebody else has put here may be another file by its other name.
            if found.is_file() && found.nlink() == 1 && found.uid() == geteuid().as_raw() {
                return Ok((spare, found.len()));
            }
        }
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let new = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
        Ok((new, 0))
    }

    /// The file as it is; nothing of what cannot be ours.
    fn read(&self) -> String {
        let limits = Limits::NAMED.at_most(MOST).regular();
        let bytes = file::read(&self.path, &limits).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn page(&self, counters: &Counters) -> String {
        let mut text = Text::default();
        let mut samples = text.family(PULLS);
        for (result, count) in &counters.pulls {
            samples.sample(&[("result", result)], count);
        }
        let mut samples = text.family(RUNS);
        for ((provider, result), count) in &counters.runs {
            samples.sample(&[("provider", provider), ("result", result)], count);
        }
        let mut samples = text.family(SHARED);
        for (provider, count) in &counters.shared {
            samples.sample(&[("provider", provider)], count);
        }
        text.family(AGENT).sample(&[], u8::from(self.agent));
        // Without a configuration nothing is valid, and there is nothing to name.
        let (hash, is_newest) = self.config.as_ref().map_or(("", false), |(h, n)| (h.as_str(), *n));
        text.family(VALID).sample(&[], u8::from(is_newest));
        if !hash.is_empty() {
            text.family(INFO).sample(&[("hash", hash)], 1);
        }
        text.into_string()
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(suffix);
        self.path.with_file_name(name)
    }
}

/// Locks a file. Gives up after [`PATIENCE`].
fn locked(file: File) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(fs::TryLockError::Error(error)) => return Err(error),
        Err(fs::TryLockError::WouldBlock) => {}
    }
    // Waiting in the kernel is in turn; the thread ends with the process.
    let (send, receive) = mpsc::channel();
    thread::Builder::new().spawn(move || send.send(file.lock().map(|()| file)))?;
    receive.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let message = format!("another process has locked them for {} s", PATIENCE.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    })
}

impl Counters {
    /// Reads what [`Textfile::page`] wrote. A line that it did not write is dropped.
    fn read(text: &str) -> Self {
        let mut counters = Self::default();
        for line in text.lines() {
            let Some((sample, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse() else { continue };
            // Names of providers and results contain no quotes.
            let values: Vec<&str> = sample.split('"').skip(1).step_by(2).collect();
            match (sample.split('{').next(), values.as_slice()) {
                (Some(name), [result]) if name == PULLS.name => {
                    counters.pulls.insert((*result).to_owned(), value);
                }
                (Some(name), [provider]) if name == SHARED.name => {
                    counters.shared.insert((*provider).to_owned(), value);
                }
                (Some(name), [provider, result]) if name == RUNS.name => {
                    counters.runs.insert(((*provider).to_owned(), (*result).to_owned()), value);
                }
                _ => {}
            }
        }
        counters
    }
}
