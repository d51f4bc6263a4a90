//! A hundred thousand processes ask one agent while a person switches accounts, by eight variables
//! and four files.
//!
//! The plugin answers with what it was given, so an answer of another identity shows at once. Four
//! threads are four shells that differ in harmless variables. Nobody asks while the files change.

use std::{
    collections::HashSet,
    error::Error,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use super::scene::{self, Scene, VERSION};
use crate::verdict::Verdict;

const VARIABLES: [&str; 8] =
    ["ACCOUNT", "TEAM", "AWS_PROFILE", "REGION", "USER", "HTTPS_PROXY", "CORP_TENANT", "KUBE_USER"];
const FILES: [&str; 4] = ["one", "two", "three", "four"];
const SHELLS: usize = 4;
/// So many requests are made between two switches.
const STAY: usize = 16;
/// So many identities a person has; each is asked for again and again.
const IDENTITIES: usize = 64;

/// Runs it to the end. An error says that it could not begin.
pub(super) fn soak(asks: usize, seed: u64) -> Result<Vec<Verdict>, Box<dyn Error + Send + Sync>> {
    let scene = scene()?;
    let mut chance = Chance(seed);
    let identities: Vec<u64> = (0..IDENTITIES).map(|_| chance.next() & 0xfff).collect();
    let (asked, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let met = Mutex::new(HashSet::new());
    let begun = Instant::now();
    for _ in 0..asks.div_ceil(STAY) {
        let identity = identities[usize::try_from(chance.next())? % IDENTITIES];
        switch(&scene, identity)?;
        std::thread::scope(|scope| {
            for shell in 0..SHELLS {
                let (scene, asked, wrong, met) = (&scene, &asked, &wrong, &met);
                scope.spawn(move || {
                    for _ in 0..STAY / SHELLS {
                        let answer = ask(scene, identity, shell);
                        asked.fetch_add(1, Ordering::Relaxed);
                        if answer.as_deref() != Ok(token(identity).as_str()) {
                            lock(wrong).push(format!("{identity:03x}: {answer:?}"));
                        }
                        lock(met).insert(identity);
                    }
                });
            }
        });
    }
    let asked = asked.into_inner();
    let took = begun.elapsed().as_secs_f64();
    let (wrong, met) = (lock(&wrong).clone(), lock(&met).len());
    let runs = scene.runs();
    let repeats = asked - met;
    let first = wrong.first().map(|first| format!(", the first: {first}")).unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "counts of requests")]
    let (rate, hits) =
        (asked as f64 / took, 100.0 * (1.0 - (runs.saturating_sub(met)) as f64 / repeats as f64));
    Ok(vec![
        Verdict {
            name: "identity",
            holds: wrong.is_empty() && asked >= asks,
            seen: format!("{asked} requests at {rate:.0} a second, {} wrong{first}", wrong.len()),
        },
        Verdict {
            name: "hits",
            holds: hits >= 99.0,
            seen: format!("{hits:.3} % of {repeats} repeats; {runs} runs for {met} identities"),
        },
    ])
}

/// The plugin, registered as `keyward wrap --identity-file` does.
fn scene() -> Result<Scene, Box<dyn Error + Send + Sync>> {
    let variables = VARIABLES.map(|name| format!("${{{name}-}},")).concat();
    let files = FILES.map(|name| format!("$(cat \"$here/{name}\"),")).concat();
    let answer = r#"{"kind":"ExecCredential","apiVersion":"VERSION","status":{"token":"%s"}}"#;
    let answer = answer.replace("VERSION", VERSION);
    let scene = Scene::new(&format!(
        "here=$(dirname \"$0\")\necho run >>\"$here/runs\"\nprintf '{answer}' \"{variables}{files}\"\n"
    ))?;
    scene.register("", FILES.map(|name| scene.path("plugin").join(name)).to_vec())?;
    Ok(scene)
}

/// Writes the files of an identity. Their length is always the same.
fn switch(scene: &Scene, identity: u64) -> std::io::Result<()> {
    for (index, name) in FILES.iter().enumerate() {
        let path = scene.path("plugin").join(name);
        std::fs::write(path, value(identity, VARIABLES.len() + index))?;
    }
    Ok(())
}

/// The token that a new process gets.
fn ask(scene: &Scene, identity: u64, shell: usize) -> Result<String, String> {
    let mut command = scene.client();
    for (index, name) in VARIABLES.iter().enumerate() {
        command.env(name, value(identity, index));
    }
    for name in ["SHLVL", "TERM_SESSION_ID", "SSH_TTY", "WINDOWID"] {
        command.env(name, shell.to_string());
    }
    scene::token(&command.output().map_err(|error| error.to_string())?)
}

/// What a variable or file says for an identity.
fn value(identity: u64, index: usize) -> &'static str {
    if identity >> index & 1 == 1 { "b" } else { "a" }
}

/// What the plugin answers for an identity.
fn token(identity: u64) -> String {
    (0..VARIABLES.len() + FILES.len())
        .map(|index| value(identity, index).to_owned() + ",")
        .collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Numbers by chance, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
