//! The second judge: the real kubectl beside the real `keyward get`, against one server.
//!
//! Exit codes are compared by number. kubectl knows two, 0 and 1; `keyward get` ends with the same,
//! but for three failures that it gives a number of their own (`docs/cli.md`) and that are 1 to kubectl:
//! see `Case::promise`. `keyward proxy -- kubectl …` ends as kubectl does without it, and like `keyward
//! get` where one of those three keeps it from serving.

mod case;
mod trace;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use http::StatusCode;
use keyward_testing::server::{Deed, Fault, Server, User};
use serde_json::Value;

use self::case::{BROKEN, Case, Certificates};
use crate::{generate::Rng, obstacle::Obstacle, trial::Row};

/// Both programs.
pub struct Judge {
    kubectl: PathBuf,
    keyward: PathBuf,
    /// Whether this kubectl knows policies for plugins.
    has_policy: bool,
}

impl Judge {
    /// Finds both programs; `Err` says why there is no judge.
    pub fn find(root: &Path) -> Result<Self, Obstacle> {
        let keyward = env::current_exe()
            .ok()
            .and_then(|program| Some(program.parent()?.join("keyward")))
            .filter(|program| program.is_file())
            .ok_or("`keyward` is not built beside this program".to_owned())?;
        let named = env::var_os("KEYWARD_KUBECTL").map(PathBuf::from);
        let mut places: Vec<PathBuf> = named.iter().cloned().collect();
        let home = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        if let Some(cache) = home {
            let versions = fs::read_dir(cache.join("keyward/e2e")).into_iter().flatten().flatten();
            places.extend(versions.map(|version| version.path().join("kubernetes/kubectl")));
        }
        places.push("kubectl".into());
        let mut old = None;
        for kubectl in places {
            match minor(&kubectl, root) {
                // Older ones know no interactiveMode.
                Some(minor) if minor >= 26 => {
                    return Ok(Self { kubectl, keyward, has_policy: minor >= 35 });
                }
                // Who names one means it.
                _ if named.as_ref() == Some(&kubectl) => {
                    let why = "in KEYWARD_KUBECTL is no kubectl of 1.26 or newer";
                    return Err(format!("`{}` {why}", kubectl.display()).into());
                }
                Some(minor) => old = Some(minor),
                None => {}
            }
        }
        Err(Obstacle::Absent(old.map_or("no kubectl".to_owned(), |minor| {
            format!("kubectl is 1.{minor}, and one of 1.26 or newer is needed (KEYWARD_KUBECTL names it)")
        })))
    }

    /// Runs both on `count` kubeconfigs.
    pub(crate) fn run(&self, count: usize, seed: u64) -> Result<Row, String> {
        let server = Server::setup().start().map_err(|e| format!("no server: {e}"))?;
        server.users().token("good", User::new("jane"));
        server.faults().add(Fault::on(BROKEN, Deed::Answer(StatusCode::INTERNAL_SERVER_ERROR)));
        let certificates = Certificates::issue(server.authority());
        let certificates = certificates.map_err(|e| format!("no certificates: {e}"))?;
        let mut rng = Rng::new(seed);
        let mut row = Row::default();
        for _ in 0..count {
            let case = Case::make(&mut rng, &certificates, self.has_policy);
            let [theirs, ours] = [&self.kubectl, &self.keyward]
                .map(|program| case.run(program, &server).map_err(|e| e.to_string()));
            let (theirs, ours) = (theirs?, ours?);
            let inside = case.run_inside(&self.keyward, &self.kubectl, &server);
            let inside = inside.map_err(|e| e.to_string())?;
            match theirs.compare(&ours, inside, &case) {
                Ok(excuses) => row.pass(&excuses),
                Err(difference) => {
                    row.failed += 1;
                    println!(
                        "\nkubectl: {difference}\n  case: {case:?}\n  kubectl: {theirs:?}\n  \
                         keyward: {ours:?}\n"
                    );
                }
            }
        }
        Ok(row)
    }
}

/// The minor version of a kubectl.
fn minor(kubectl: &Path, folder: &Path) -> Option<u32> {
    let output = Command::new(kubectl)
        .args(["version", "--client", "-o", "json"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let said: Value = serde_json::from_slice(&output.stdout).ok()?;
    let minor = said["clientVersion"]["minor"].as_str()?;
    minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}
