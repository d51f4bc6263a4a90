//! `cargo xtask soak --proxy`: the same weather over a proxy, which is a process of its own.
//!
//! ```text
//! 64 clients ──► keyward proxy ──► server (restarted twice)
//!                     └──► plugin runs (a token lives 2 s) ──► issuer
//! ```

use std::{
    env,
    error::Error,
    fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use keyward::Client;
use keyward_host::{Kubeconfig, NoopObserver, Overrides, Sources, rules::Rules};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use tokio::{sync::watch as signal, task::JoinSet};

use crate::{
    Options, gauge,
    scene::{ACCOUNTS, Scene},
    storm::{self, Storm},
    traffic::{self, Traffic},
    verdict::{self, Verdict},
};

const CLIENTS: usize = 64;

type BoxError = Box<dyn Error + Send + Sync>;

/// Runs it to the end.
pub async fn soak(options: &Options) -> Result<Vec<Verdict>, BoxError> {
    let scene = Arc::new(Scene::open().await?);
    let mut proxy = Proxy::start(&scene, "127.0.0.1:0")?;
    let traffic = Arc::new(Traffic::default());
    let (over, ending) = signal::channel(false);
    let mut drivers = JoinSet::new();
    for _ in 0..CLIENTS {
        drivers.spawn(traffic::repeat(traffic.clone(), proxy.client()?, ending.clone()));
    }
    let gauge = tokio::spawn(gauge::read_of(proxy.child.id().to_string(), ending.clone()));
    let begin = Instant::now();
    let mut storm = Storm::default();
    for third in 1..=2 {
        let at = begin + options.length * third / 3;
        tokio::time::sleep_until(at.into()).await;
        storm.restarts.push(storm::restart(&scene).await);
    }
    tokio::time::sleep_until((begin + options.length).into()).await;
    over.send_replace(true);
    while drivers.join_next().await.is_some() {}
    let readings = gauge.await?;
    let runs = scene.issuer.runs(ACCOUNTS[0]);
    let rotations = usize::try_from(options.length.as_secs() / scene.lifetime.as_secs().max(1))?;
    Ok(vec![
        requests(&traffic, &storm),
        Verdict {
            name: "rotation",
            holds: runs >= rotations / 2,
            seen: format!("{runs} plugin runs for {CLIENTS} clients"),
        },
        verdict::descriptors(&readings),
        verdict::memory(&readings),
        proxy.kill(&scene).await?,
    ])
}

/// A client sees nothing that it could not have seen without the proxy: while the server is down
/// there is no answer, and the proxy says so with a 502.
fn requests(traffic: &Traffic, storm: &Storm) -> Verdict {
    let sent = traffic.sent.load(Ordering::Relaxed);
    let failed = traffic.failed();
    let excused = |f: &&traffic::Failed| {
        (f.lost || f.what.contains("502")) && verdict::in_flight(storm, f.begin, f.end)
    };
    let killed = failed.iter().filter(excused).count();
    let other: Vec<_> = failed.iter().filter(|f| !excused(f)).collect();
    let first = other.first().map(|f| format!(", the first: {}", f.what)).unwrap_or_default();
    Verdict {
        name: "requests",
        holds: other.is_empty() && sent > 1000,
        seen: format!("{sent}, {killed} lost with a killed server, {} failed{first}", other.len()),
    }
}

struct Proxy {
    child: Child,
    url: String,
    kubeconfig: PathBuf,
    text: String,
    folder: tempfile::TempDir,
}

impl Proxy {
    fn start(scene: &Scene, listen: &str) -> Result<Self, BoxError> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("config");
        fs::write(&config, scene.kubeconfig(ACCOUNTS[0])?)?;
        let program = env::current_exe()?.with_file_name("keyward");
        let mut child = Command::new(&program)
            .args(["proxy", "--listen", listen])
            .arg("--kubeconfig")
            .arg(&config)
            .arg("--trust-plugin")
            .arg(env::current_exe()?)
            .env("XDG_RUNTIME_DIR", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("`{}`: {error}", program.display()))?;
        let mut stderr = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let mut line = String::new();
        stderr.read_line(&mut line)?;
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["ready", url, kubeconfig] = words[..] else {
            let _ = child.kill();
            return Err(format!("the proxy said `{line}`").into());
        };
        let text = fs::read_to_string(kubeconfig)?;
        let (url, kubeconfig) = (url.to_owned(), kubeconfig.into());
        Ok(Self { child, url, kubeconfig, text, folder })
    }

    /// A client with a connection of its own.
    fn client(&self) -> Result<Client, BoxError> {
        let surroundings = Surroundings::process();
        let target = Kubeconfig::from_bytes(self.text.as_bytes())?
            .resolve(&Overrides::default(), &surroundings)?;
        let sources = Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver));
        Ok(Client::builder().open(&target, &Rules::default(), &sources)?)
    }

    /// Killed, it leaves nothing that lets anybody in: nobody listens, no file of its own has more than
    /// it had written for its clients, and that does not help with the next start at the same address.
    async fn kill(&mut self, scene: &Scene) -> Result<Verdict, BoxError> {
        self.child.kill()?;
        self.child.wait()?;
        let address = self.url.trim_start_matches("https://");
        let listens = TcpStream::connect(address).is_ok();
        let written = fs::read_to_string(&self.kubeconfig)? == self.text;
        let clean = written && !self.text.contains("\"token\"") && !self.text.contains("exec");
        let mut left = files(&self.folder.path().join("keyward"))?;
        left.retain(|path| {
            *path != self.kubeconfig && fs::metadata(path).is_ok_and(|m| m.len() > 0)
        });
        let _next = Self::start(scene, address)?;
        let let_in = self.client()?.get("/healthz").await.is_ok();
        Ok(Verdict {
            name: "killed",
            holds: !listens && clean && left.is_empty() && !let_in,
            seen: format!(
                "{} listens, {} other files with content, the old kubeconfig {} at the next start",
                if listens { "somebody" } else { "nobody" },
                left.len(),
                if let_in { "is good" } else { "is worthless" },
            ),
        })
    }
}

/// All files below a directory.
fn files(folder: &Path) -> Result<Vec<PathBuf>, BoxError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
