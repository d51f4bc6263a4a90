//! A process of the cluster: its output goes to a file, and it ends with us, whatever happens to us.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Outcome;

/// How long a process may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Runs until it is dropped.
pub struct Server {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Server {
    /// Starts `command`. The kernel ends it should we be killed.
    pub fn start(name: &str, command: &Command, logs: &Path) -> Outcome<Self> {
        let log = logs.join(format!("{name}.log"));
        let file = File::create(&log)?;
        let mut own = Command::new("setpriv");
        own.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => own.env(name, value),
                None => own.env_remove(name),
            };
        }
        // A group of its own: Ctrl-C is for us, and we end it in order.
        own.process_group(0).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = own
            .spawn()
            .map_err(|e| format!("cannot start `setpriv` (Debian package util-linux): {e}"))?;
        Ok(Self { child, name: name.to_owned(), log })
    }

    /// The first line it prints that begins with `begin`; an error when it ends before.
    pub async fn line(&mut self, begin: &str) -> Outcome<String> {
        self.first(|line| line.starts_with(begin)).await
    }

    /// The first line it prints for which `wanted` is true; an error when it ends before.
    pub async fn first(&mut self, wanted: impl Fn(&str) -> bool) -> Outcome<String> {
        loop {
            let text = fs::read_to_string(&self.log)?;
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            if let Some(line) = whole.lines().find(|line| wanted(line)) {
                return Ok(line.to_owned());
            }
            self.alive()?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How often it has printed this line.
    pub fn count(&self, line: &str) -> Outcome<usize> {
        self.lines_with(|said| said == line)
    }

    /// How many lines it has printed for which `wanted` is true.
    pub fn lines_with(&self, wanted: impl Fn(&str) -> bool) -> Outcome<usize> {
        Ok(fs::read_to_string(&self.log)?.lines().filter(|line| wanted(line)).count())
    }

    /// An error with its last words when it has ended.
    pub fn alive(&mut self) -> Outcome<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("`{}` ended: {status}\n{}", self.name, self.tail()).into()),
        }
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The last lines of its log.
    pub fn tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(15)..];
        format!("the end of {}'s log:\n{}", self.name, last.join("\n"))
    }

    /// Asks it to end, and makes it end when it does not.
    pub fn stop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Not reaped yet, so the number is still its own.
            let pid = Pid::from_child(&self.child);
            // All of its group: some are started by a program that waits for them.
            let _ = kill_process_group(pid, Signal::TERM);
            let begin = Instant::now();
            while begin.elapsed() < GRACE && matches!(self.child.try_wait(), Ok(None)) {
                thread::sleep(Duration::from_millis(20));
            }
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
