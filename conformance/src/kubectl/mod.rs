//! The second judge: the real kubectl beside the real `keyward get`, against one server.
//!
//! Exit codes are compared by number. kubectl knows two, 0 and 1; `keyward get` ends with the same,
//! but for three failures that it gives a number of their own (`docs/cli.md`) and that are 1 to kubectl:
//! see `Case::promise`. `keyward proxy -- kubectl …` ends as kubectl does without it, and like `keyward
//! get` where one of those three keeps it from serving.

mod case;
mod trace;

use std::{
    env,
    path::{Path, PathBuf},
};

use http::StatusCode;
use keyward_testing::{
    kubectl::find,
    server::{Deed, Fault, Server, User},
};

use self::case::{BROKEN, Case, Certificates};
use crate::{generate::Rng, obstacle::Obstacle, trial::Row};

/// The minor version of the oldest kubectl that can judge: older ones do not know `interactiveMode`.
pub const OLDEST: u32 = 26;

/// Both programs.
pub struct Judge {
    kubectl: PathBuf,
    keyward: PathBuf,
    /// Whether this kubectl knows policies for plugins.
    has_policy: bool,
    /// Whether it is built with a Go that offers X25519MLKEM768.
    knows_hybrid: bool,
}

impl Judge {
    /// Finds both programs; `Err` says why there is no judge.
    pub fn find() -> Result<Self, Obstacle> {
        let keyward = env::current_exe()
            .ok()
            .and_then(|program| Some(program.parent()?.join("keyward")))
            .filter(|program| program.is_file())
            .ok_or("`keyward` is not built beside this program".to_owned())?;
        let kubectl = find(OLDEST)?;
        println!("kubectl: {kubectl} judges");
        Ok(Self {
            has_policy: kubectl.minor >= 35,
            knows_hybrid: kubectl.minor >= 33,
            kubectl: kubectl.path,
            keyward,
        })
    }

    /// kubectl and `keyward`.
    pub(crate) fn programs(&self) -> [&Path; 2] {
        [&self.kubectl, &self.keyward]
    }

    /// Whether this kubectl offers the post-quantum key exchange.
    pub(crate) fn knows_hybrid(&self) -> bool {
        self.knows_hybrid
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
