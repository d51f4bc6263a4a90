//! The kubectl that is compared with Keyward.

use std::path::PathBuf;

use keyward_testing::kubectl::{self, NotFound};

use crate::e2e;

/// Finds a kubectl of 1.`least` or newer on this machine, or builds the pinned one where there is none, so that the
/// result never depends on what an earlier run left behind. `None` when there is neither one nor a Go.
pub fn choose(least: u32) -> Result<Option<PathBuf>, String> {
    match kubectl::find(least) {
        Ok(kubectl) => Ok(Some(kubectl.path)),
        Err(NotFound::Absent(why)) => {
            eprintln!("{why}; taking the one of e2e");
            e2e::kubectl()
        }
        Err(why) => Err(why.to_string()),
    }
}
