//! Holds Keyward to the reference implementation: the vectors it produced once, and cases made up anew that it
//! answers while we watch.
//!
//! A case is a JSON object: what goes in, and under `expect` what the reference does with it. An [`areas::Area`] says
//! how our code answers a case and whether that is the same; `departures` is the one list of differences that are
//! deliberate, shared by the vectors and by everything generated.

pub mod areas;
mod departures;
pub mod generate;
pub mod kubectl;
pub mod obstacle;
pub mod reference;
mod shrink;
mod terminal;
mod transport;
pub mod trial;
