//! A new agent takes the socket over while two hundred requests a second arrive.

use std::{
    error::Error,
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use keyward_agent::Client;
use keyward_protocol::agent::{Ask, Message};

use super::scene::{PLUGIN, Scene, request, until};
use crate::verdict::Verdict;

/// Together they ask 200 times a second. One that is late asks at once, until it has caught up.
const CLIENTS: u32 = 20;
const EVERY: Duration = Duration::from_millis(100);
const UPGRADES: usize = 3;

pub(super) fn soak() -> Result<Verdict, Box<dyn Error + Send + Sync>> {
    let scene = Scene::new(PLUGIN)?;
    scene.register("", Vec::new())?;
    scene.client().output()?;
    let socket = scene.socket();
    let inode = fs::metadata(&socket)?.ino();
    let question = Message::Ask(question(&scene));
    let (over, asked, failed) = (AtomicBool::new(false), AtomicUsize::new(0), Mutex::new(vec![]));
    let begun = Instant::now();
    let upgraded = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (over, asked, failed) = (&over, &asked, &failed);
            let (socket, question) = (&socket, &question);
            scope.spawn(move || {
                let mut next = begun + EVERY * client / CLIENTS;
                while !over.load(Ordering::SeqCst) {
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                    if let Err(why) = ask(socket, question) {
                        failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(why);
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                    next += EVERY;
                }
            });
        }
        let upgraded = (0..UPGRADES).try_for_each(|_| {
            let old = scene.agents();
            scene.install()?;
            until("the new agent is alone", || {
                let agents = scene.agents();
                agents.len() == 1 && agents != old
            })
        });
        over.store(true, Ordering::SeqCst);
        upgraded
    });
    let took = begun.elapsed().as_secs_f64();
    upgraded?;
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let same = fs::metadata(&socket)?.ino() == inode;
    let asked = asked.into_inner();
    #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
    let rate = asked as f64 / took;
    let first = failed.first().map(|first| format!(", the first: {first}")).unwrap_or_default();
    Ok(Verdict {
        name: "handover",
        holds: failed.is_empty() && same && asked > 0,
        seen: format!(
            "{UPGRADES} upgrades during {asked} requests at {rate:.0} a second (200 where the \
             machine allows it), {} failed{first}; the socket is {}",
            failed.len(),
            if same { "the same" } else { "another one" }
        ),
    })
}

fn ask(socket: &Path, question: &Message) -> Result<(), String> {
    let mut client = Client::connect(socket).map_err(|error| error.to_string())?;
    client.ask(question).map_err(|error| error.to_string())?;
    match client.receive(Duration::from_secs(30)).map_err(|error| error.to_string())? {
        Message::Answer(answer) if answer.stdout.expose().contains("t0ken") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// What `keyward-exec` would ask.
fn question(scene: &Scene) -> Ask {
    let mut environment: Vec<_> = scene
        .vars()
        .into_iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.into_bytes()))
        .collect();
    environment.push((b"KUBERNETES_EXEC_INFO".to_vec(), request().into_bytes()));
    Ask {
        command: b"sh".to_vec(),
        args: vec![scene.path("plugin/plugin").display().to_string().into_bytes()],
        environment,
        directory: b"/".to_vec(),
        terminal: Vec::new(),
        login: false,
        ..Ask::default()
    }
}
