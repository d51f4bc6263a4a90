//! The ways in which plugins misbehave, as one table with real programs, for every layer that runs
//! plugins to go through.
//!
//! ```no_run
//! use keyward_testing::misbehaviour::{Stage, TABLE};
//!
//! let stage = Stage::new();
//! for case in TABLE {
//!     let call = stage.prepare(case);
//!     // run `call.program`, compare with `case.class`, then:
//!     stage.check(case, &call);
//! }
//! ```

mod pids;
mod table;

use std::{
    ffi::OsString,
    fs::File,
    path::{Path, PathBuf},
};

use self::table::Arrange;
pub use self::{
    pids::{children, descriptors},
    table::TABLE,
};
use crate::plugin;

/// One way to misbehave, and what a host makes of it.
pub struct Misbehaviour {
    /// What the plugin does, in words.
    pub name: &'static str,
    /// What is expected of the host.
    pub class: Class,
    /// Changes a call of the test plugin into this one.
    arrange: Arrange,
}

/// What a host makes of a run. A layer that reads answers tells good ones from bad ones; the runner
/// below it sees a normal end in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The plugin answers, whatever else it does.
    Good,
    /// The plugin exits with code 0 and an invalid answer.
    BadAnswer,
    /// The plugin exits with this code.
    Exit(i32),
    /// The plugin ends by this signal, which the host did not send.
    Signal(i32),
    /// There is no such file.
    NotFound,
    /// The file is a directory.
    Directory,
    /// The file may not be executed.
    Denied,
    /// The file is no program.
    Format,
    /// The file's interpreter is not there.
    Interpreter,
    /// The file is being written.
    Busy,
    /// A string to give it contains NUL.
    Nul,
    /// What to give it is too big.
    TooBig,
    /// The plugin cannot be started for another reason.
    Start,
    /// The plugin does not end in time.
    TimedOut,
    /// The plugin prints too much.
    TooMuchOutput,
    /// The caller goes away, and the run is one to be ended then.
    Stopped,
}

impl Class {
    /// The host gave up and killed it.
    pub fn is_given_up(self) -> bool {
        matches!(self, Self::TimedOut | Self::TooMuchOutput | Self::Stopped)
    }
}

/// How to run the plugin for one [`Misbehaviour`].
#[derive(Debug)]
pub struct Call {
    /// The file to execute.
    pub program: PathBuf,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// The environment it needs.
    pub env: Vec<(OsString, OsString)>,
    /// What it is given to read.
    pub stdin: Option<Vec<u8>>,
    /// The program never ends, so a short time budget will do.
    pub hangs: bool,
    /// The program leaves a process behind that must be left alone.
    pub leaves: bool,
    /// Held open during the run.
    hold: Vec<File>,
}

impl Call {
    /// Blocks until the plugin's own process has begun.
    ///
    /// # Panics
    ///
    /// When it does not begin within a long time.
    pub fn wait_until_running(&self) {
        let file = self.env.iter().find(|(name, _)| name == PIDS);
        pids::wait_for_one(file.map_or(Path::new(""), |(_, file)| file.as_ref()));
    }
}

/// Names the file to which each process of the plugin writes its process id.
const PIDS: &str = "KEYWARD_TEST_PIDS";

/// A directory for the files of the table.
pub struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    /// An empty one.
    ///
    /// # Panics
    ///
    /// When no temporary directory can be made.
    #[expect(clippy::new_without_default, reason = "it makes a folder")]
    pub fn new() -> Self {
        match tempfile::tempdir() {
            Ok(folder) => Self { folder },
            Err(error) => panic!("no temporary folder: {error}"),
        }
    }

    /// Everything needed for a run of this case.
    pub fn prepare(&self, case: &Misbehaviour) -> Call {
        let _ = std::fs::remove_file(self.pids());
        let mut call = Call {
            program: plugin::path().to_owned(),
            args: Vec::new(),
            env: vec![(PIDS.into(), self.pids().into())],
            stdin: None,
            hangs: matches!(case.class, Class::TimedOut | Class::Stopped),
            leaves: false,
            hold: Vec::new(),
        };
        match case.arrange {
            Arrange::Staged(arrange) => arrange(self, &mut call),
            Arrange::Told(args) => call.say(args),
        }
        call
    }

    /// Checks what became of the plugin's processes: after giving up none is left, after a normal
    /// end those it left behind are alive (and are ended here).
    ///
    /// # Panics
    ///
    /// When that is not so.
    pub fn check(&self, case: &Misbehaviour, call: &Call) {
        if case.class.is_given_up() {
            pids::wait_until_gone(&self.pids(), case.name);
        } else if call.leaves {
            pids::end_survivor(&self.pids(), case.name);
        }
    }

    fn pids(&self) -> PathBuf {
        self.folder.path().join("pids")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}
