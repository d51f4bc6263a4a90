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

/// What is counted, with the names of its labels.
const COUNTED: [(Family, &[&str]); 3] =
    [(PULLS, &["result"]), (RUNS, &["provider", "result"]), (SHARED, &["provider"])];

/// What the name of the file before the last one ends in. The collector reads only files that end in `.prom`.
const SPARE: &str = ".before";

/// How long a pull waits for others to write the file: its answer must not be late for a counter.
const PATIENCE: Duration = Duration::from_secs(2);

/// More than a node's providers can need.
const MOST: u64 = 1 << 20;

/// The counters, and what this run adds to them.
pub(crate) struct Textfile {
    path: PathBuf,
    /// In a directory that only its owner can enter: whoever can open a lock can keep it.
    lock: PathBuf,
    counted: Vec<Counter>,
    agent: bool,
    config: Option<(String, bool)>,
}

/// A counter: its name, and the values of its labels.
type Counter = (&'static str, Vec<String>);

impl Textfile {
    /// Counts in the file at `path`; `state` is a directory for the lock.
    pub(crate) fn open(path: &Path, state: &Path) -> Self {
        let (path, lock) = (path.to_owned(), state.join("metrics.lock"));
        Self { path, lock, counted: Vec::new(), agent: false, config: None }
    }

    pub(crate) fn configuration(&mut self, hash: &str, is_newest: bool) {
        self.config = Some((hash.to_owned(), is_newest));
    }

    pub(crate) fn agent(&mut self, is_up: bool) {
        self.agent = is_up;
    }

    pub(crate) fn providers(&mut self, found: &Lookup) {
        for result in &found.results {
            let name = result.provider.name.as_str();
            match &result.outcome {
                Outcome::Answered(_) => self.count(RUNS, &[name, "answered"]),
                Outcome::Kept(..) => self.count(SHARED, &[name]),
                Outcome::Failed(error) | Outcome::LastGood(_, error) => {
                    // The pull that ran the provider counts the run.
                    if !failed_elsewhere(error) {
                        self.count(RUNS, &[name, "failed"]);
                    }
                    if result.outcome.answer().is_some() {
                        self.count(SHARED, &[name]);
                    }
                }
                _ => {}
            }
        }
    }

    pub(crate) fn pull(&mut self, has_login: bool, failed: bool) {
        let result = match (has_login, failed) {
            (_, true) => "failed",
            (true, _) => "login",
            _ => "none",
        };
        self.count(PULLS, &[result]);
    }

    fn count(&mut self, family: Family, labels: &[&str]) {
        self.counted.push((family.name, labels.iter().map(|label| (*label).to_owned()).collect()));
    }

    /// Adds this run to the file. Concurrent runs wait for each other, but not for long.
    pub(crate) fn save(&self) -> io::Result<()> {
        if let Some(state) = self.lock.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        }
        let mut lock = OpenOptions::new();
        let lock = lock.write(true).create(true).truncate(false).mode(0o600).open(&self.lock)?;
        let _lock = locked(lock)?;
        let mut counters = counters(&self.read());
        for counter in &self.counted {
            *counters.entry(counter.clone()).or_default() += 1;
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
        let spare = self.spare_path();
        renameat_with(CWD, &spare, CWD, &self.path, RenameFlags::EXCHANGE)
            .or_else(|_| fs::rename(&spare, &self.path))
    }

    /// The file before the last one, or a new one, to be written from its beginning, and how long it is.
    fn spare(&self) -> io::Result<(File, u64)> {
        let path = self.spare_path();
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

    fn page(&self, counters: &BTreeMap<Counter, u64>) -> String {
        let mut text = Text::default();
        for (family, names) in COUNTED {
            let mut samples = text.family(family);
            for ((_, values), count) in
                counters.iter().filter(|((name, _), _)| *name == family.name)
            {
                let values = values.iter().map(String::as_str);
                let labels: Vec<_> = names.iter().copied().zip(values).collect();
                samples.sample(&labels, count);
            }
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

    fn spare_path(&self) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(SPARE);
        path.into()
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

/// Reads the counters that [`Textfile::page`] wrote. A line that it did not write is dropped.
fn counters(text: &str) -> BTreeMap<Counter, u64> {
    let mut counters = BTreeMap::new();
    for line in text.lines() {
        let Some((sample, value)) = line.rsplit_once(' ') else { continue };
        let Ok(value) = value.parse() else { continue };
        // Names of providers and results contain no quotes.
        let values: Vec<String> = sample.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        let name = sample.split('{').next();
        let is_counter = |(family, names): &&(Family, &[&str])| {
            Some(family.name) == name && names.len() == values.len()
        };
        if let Some((family, _)) = COUNTED.iter().find(is_counter) {
            counters.insert((family.name, values), value);
        }
    }
    counters
}
