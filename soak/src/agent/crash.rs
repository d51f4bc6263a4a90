//! Agents and clients that die or hang: every request is answered soon all the same.

use std::{
    error::Error,
    fs,
    os::unix::net::{UnixListener, UnixStream},
    process::Child,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use super::scene::{PLUGIN, Scene, token, until};
use crate::verdict::Verdict;

/// How much longer than the plugin a request may take.
const LIMIT: Duration = Duration::from_millis(700);
/// Moments at which the agent is killed, two milliseconds apart.
const MOMENTS: u64 = 60;
const CLIENTS: usize = 3;

pub(super) fn soak() -> Result<Vec<Verdict>, Box<dyn Error + Send + Sync>> {
    let scene = Scene::new(PLUGIN)?;
    scene.register("", Vec::new())?;
    let own = alone(&scene)?;
    let mut verdicts = vec![killed(&scene, own)?, stopped(&scene, own)?, stale(&scene, own)?];
    let scene = Scene::new(PLUGIN)?;
    verdicts.push(holder(&scene, own)?);
    Ok(verdicts)
}

/// How long the plugin takes by itself, on this machine now: the median of nine.
fn alone(scene: &Scene) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    let mut times = Vec::new();
    for _ in 0..9 {
        let begun = Instant::now();
        scene.command("/bin/sh").arg(scene.path("plugin/plugin")).output()?;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    Ok(times[4])
}

/// Requests, and by how much each took longer than the plugin.
#[derive(Default)]
struct Late {
    worst: Duration,
    requests: usize,
    failed: Vec<String>,
}

impl Late {
    /// Waits for a client that was started then.
    fn wait(&mut self, child: Child, begun: Instant, own: Duration) -> std::io::Result<()> {
        let output = child.wait_with_output()?;
        self.worst = self.worst.max(begun.elapsed().saturating_sub(own));
        self.requests += 1;
        if let Err(said) = token(&output) {
            self.failed.push(said);
        }
        Ok(())
    }

    fn verdict(self, name: &'static str, own: Duration, what: &str) -> Verdict {
        let Self { worst, requests, failed } = self;
        let first = failed.first().map(|first| format!(", the first: {first}")).unwrap_or_default();
        Verdict {
            name,
            holds: failed.is_empty() && worst <= LIMIT && requests > 0,
            seen: format!(
                "{what}: {requests} requests, {} failed{first}; the plugin takes {} ms, a request at \
                 most {} ms more",
                failed.len(),
                own.as_millis(),
                worst.as_millis()
            ),
        }
    }
}

fn killed(scene: &Scene, own: Duration) -> Result<Verdict, Box<dyn Error + Send + Sync>> {
    let mut late = Late::default();
    for moment in 0..MOMENTS {
        let mut children = Vec::new();
        for _ in 0..CLIENTS {
            let mut command = scene.client();
            // Another identity now and then, so that there are runs, too.
            command.env("ROUND", (moment / 3).to_string());
            children.push((Instant::now(), command.spawn()?));
        }
        std::thread::sleep(Duration::from_millis(moment * 2));
        scene.signal("keyward-agent", Signal::KILL);
        for (begun, child) in children {
            late.wait(child, begun, own)?;
        }
    }
    // One that is still ending would answer, and the last client would have no reason to start another.
    scene.signal("keyward-agent", Signal::KILL);
    until("the agent has ended", || UnixStream::connect(scene.socket()).is_err())?;
    // Nothing that is left behind stops the next start.
    let begun = Instant::now();
    late.wait(scene.client().spawn()?, begun, own)?;
    if scene.agents().len() != 1 {
        late.failed.push("no agent was started afterwards".into());
    }
    Ok(late.verdict("killed", own, &format!("the agent was killed at {MOMENTS} moments")))
}

fn stopped(scene: &Scene, own: Duration) -> Result<Verdict, Box<dyn Error + Send + Sync>> {
    let mut late = Late::default();
    for _ in 0..5 {
        scene.signal("keyward-agent", Signal::STOP);
        let begun = Instant::now();
        late.wait(scene.client().spawn()?, begun, own)?;
        scene.signal("keyward-agent", Signal::CONT);
    }
    Ok(late.verdict("stopped", own, "the agent was stopped (SIGSTOP)"))
}

fn stale(scene: &Scene, own: Duration) -> Result<Verdict, Box<dyn Error + Send + Sync>> {
    let mut late = Late::default();
    for _ in 0..5 {
        scene.begin_anew()?;
        let socket = scene.socket();
        // An agent that was killed earlier may have left its own.
        if !fs::exists(&socket)? {
            drop(UnixListener::bind(socket)?);
        }
        let begun = Instant::now();
        late.wait(scene.client().spawn()?, begun, own)?;
    }
    Ok(late.verdict("stale", own, "a dead agent's socket was in the way"))
}

/// A client that runs the plugin for everybody is killed. The plugin is not registered, so that the
/// agent does not run it itself.
fn holder(scene: &Scene, own: Duration) -> Result<Verdict, Box<dyn Error + Send + Sync>> {
    let mut late = Late::default();
    for round in 0..5 {
        scene.begin_anew()?;
        fs::write(scene.path("plugin/plugin"), format!("{PLUGIN}# {round}\n"))?;
        let mut first = scene.client().spawn()?;
        until("the first client runs the plugin", || scene.runs() == 1)?;
        let holders = scene.processes("keyward-exec");
        let second = scene.client().spawn()?;
        until("the second client has come", || scene.processes("keyward-exec").len() == 2)?;
        let begun = Instant::now();
        for holder in holders {
            let _ = rustix::process::kill_process(holder, Signal::KILL);
        }
        late.wait(second, begun, own)?;
        let _ = first.wait();
    }
    Ok(late.verdict("holder", own, "the client that ran the plugin was killed"))
}
