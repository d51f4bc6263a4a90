//! A real Prometheus.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{Running, curl};

/// No state is meant to take so long to come about.
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) struct Prometheus {
    _process: Running,
    url: String,
}

impl Prometheus {
    /// Starts one with the configuration `prometheus.yml` of a directory.
    pub(super) fn start(dir: &Path) -> Self {
        let file = fs::File::create(dir.join("log")).unwrap();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        let child = command.spawn().expect("prometheus (Debian package `prometheus`)");
        let process = child.id();
        let running = Running(child);
        let port = eventually("Prometheus listens", || port(process).ok_or_else(|| log(dir)));
        let url = format!("http://127.0.0.1:{port}");
        let ready = format!("{url}/-/ready");
        eventually("Prometheus is ready", || curl(&[&ready]).ok_or_else(|| log(dir)));
        Self { _process: running, url }
    }

    /// The result of a query, one value for each series.
    pub(super) fn query(&self, query: &str) -> Vec<Value> {
        let result = self.get("query", &["-G", "--data-urlencode", &format!("query={query}")]);
        result["result"].as_array().unwrap().clone()
    }

    /// The alerts that fire, with their instances.
    pub(super) fn firing(&self) -> Vec<(String, String)> {
        let alerts = self.get("alerts", &[])["alerts"].as_array().unwrap().clone();
        let firing = alerts.into_iter().filter(|alert| alert["state"] == "firing");
        let text = |alert: &Value, name: &str| alert["labels"][name].as_str().unwrap().to_owned();
        firing.map(|alert| (text(&alert, "alertname"), text(&alert, "instance"))).collect()
    }

    /// The rules in force.
    pub(super) fn rules(&self) -> Vec<Value> {
        self.get("rules", &[])["groups"][0]["rules"].as_array().unwrap().clone()
    }

    fn get(&self, what: &str, words: &[&str]) -> Value {
        let url = format!("{}/api/v1/{what}", self.url);
        let text = curl(&[words, &[&url]].concat());
        let text = text.unwrap_or_else(|| panic!("{what} {words:?} failed"));
        serde_json::from_str::<Value>(&text).unwrap()["data"].clone()
    }
}

fn log(dir: &Path) -> String {
    fs::read_to_string(dir.join("log")).unwrap()
}

/// Waits for something that no event tells; the closure says what is still missing.
#[track_caller]
pub(super) fn eventually<T>(what: &str, mut done: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match done() {
            Ok(done) => return done,
            Err(missing) => {
                assert!(begun.elapsed() < PATIENCE, "it never came true that {what}: {missing}");
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// The port that a process listens on: the system chose it, and the process does not say.
fn port(process: u32) -> Option<u16> {
    let links = fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten();
    let sockets: Vec<_> = links
        .filter_map(|link| Some(fs::read_link(link.path()).ok()?.to_str()?.to_owned()))
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let table = fs::read_to_string(format!("/proc/{process}/net/tcp")).ok()?;
    table.lines().skip(1).find_map(|line| {
        let cells: Vec<_> = line.split_whitespace().collect();
        let listens = cells[3] == "0A" && sockets.iter().any(|socket| socket == cells[9]);
        let (_, port) = cells[1].split_once(':').filter(|_| listens)?;
        u16::from_str_radix(port, 16).ok()
    })
}
