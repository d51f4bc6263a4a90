//! Starts programs, watches their memory, and ends what is left of them.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Failure, untried};

/// No program of ours should ever need so much; one that does is ended.
const MEMORY_CAP: u64 = 3_000_000;

/// A program that has ended, or was ended.
#[derive(Debug)]
pub struct Done {
    /// `None` when it was still running at its limit and had to be killed.
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
    /// The most memory it had, in kB.
    pub peak: u64,
    pub took: Duration,
}

impl Done {
    pub fn ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// Everything it printed.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The first line of its error, for reports.
    pub fn why(&self) -> String {
        let line = self.stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let line: String = line.chars().take(160).collect();
        format!("exit {:?}: {line}", self.code())
    }

    /// Whether it panicked.
    pub fn panicked(&self) -> bool {
        self.stderr.contains("panicked at") || self.code() == Some(101)
    }
}

/// A program that runs; killed when dropped.
pub struct Running {
    pub child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts it with its output in files of this directory.
    pub fn start(command: &mut Command, logs: &Path) -> Result<Self, Failure> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let stdout = logs.join(format!("{number}.out"));
        let stderr = logs.join(format!("{number}.err"));
        command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
        let child = spawn(command)?;
        Ok(Self { child, stdout, stderr })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stdout(&self) -> String {
        lossy(&self.stdout)
    }

    pub fn stderr(&self) -> String {
        lossy(&self.stderr)
    }

    pub fn stderr_size(&self) -> u64 {
        fs::metadata(&self.stderr).map_or(0, |found| found.len())
    }

    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn signal(&self, signal: Signal) {
        // Not reaped before `wait`, so the number is still its own.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits for its end; one that is over its limit or eats the machine is killed.
    pub fn wait(mut self, limit: Duration) -> Done {
        let began = Instant::now();
        let mut peak = 0;
        let status = loop {
            peak = memory(self.pid(), "VmHWM").max(peak);
            match self.child.try_wait() {
                Ok(None) if began.elapsed() < limit && peak < MEMORY_CAP => {}
                Ok(status) => break status,
                Err(_) => break None,
            }
            thread::sleep(Duration::from_millis(3));
        };
        let took = began.elapsed();
        let _ = self.child.kill();
        let _ = self.child.wait();
        Done { status, stdout: self.stdout(), stderr: self.stderr(), peak, took }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(command: &mut Command) -> Result<Child, Failure> {
    command.stdin(Stdio::null()).spawn().or_else(|error| {
        untried(format!("cannot start `{}`: {error}", command.get_program().display()))
    })
}

fn lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// A line of `/proc/PID/status` in kB: `VmRSS` or `VmHWM`.
pub fn memory(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Processor time of a process so far.
pub fn processor(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
    let ticks = ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0);
    Duration::from_millis(ticks * 10)
}

/// Waits until this is so; whether it came.
pub fn wait_until(limit: Duration, mut is: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if is() {
            return true;
        }
        if began.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// All living processes below this one.
pub fn below(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in pids() {
        if let Some((parent, state)) = parent(pid)
            && state != "Z"
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            found.push(*child);
            open.push(*child);
        }
    }
    found
}

/// All processes of the machine that we can see.
pub fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn parent(pid: u32) -> Option<(u32, String)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.to_owned();
    Some((fields.next()?.parse().ok()?, state))
}

/// Kills everything below this process, until nothing is left or nothing helps.
pub fn end_all_below(root: u32) {
    for _ in 0..200 {
        let found = below(root);
        if found.is_empty() {
            return;
        }
        for pid in found {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a tool of the system; its stdout.
pub fn tool(program: &str, package: &str, args: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.or_else(|error| missing(program, package, &error))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return untried(format!("`{program} {}` failed: {errors}", args.join(" ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Names the package that a program is in.
pub fn missing<T>(program: &str, package: &str, error: &io::Error) -> Result<T, Failure> {
    untried(format!("cannot start `{program}` (Debian package `{package}`): {error}"))
}
