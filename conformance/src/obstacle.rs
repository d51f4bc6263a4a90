//! Why one of the judges cannot be asked.

use std::fmt;

use keyward_testing::kubectl::NotFound;

/// What stands in the way. Only what a machine may well be without can be let off.
#[derive(Debug)]
pub enum Obstacle {
    /// The machine lacks a program or the modules: `--if-possible` lets this pass.
    Absent(String),
    /// Anything else is a failure, whoever asks.
    Broken(String),
}

impl From<String> for Obstacle {
    fn from(why: String) -> Self {
        Self::Broken(why)
    }
}

impl From<NotFound> for Obstacle {
    fn from(why: NotFound) -> Self {
        match why {
            NotFound::Named(why) => Self::Broken(why),
            NotFound::Absent(why) => Self::Absent(why),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Absent(why) | Self::Broken(why)) = self;
        f.write_str(why)
    }
}
