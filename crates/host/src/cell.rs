//! Keeps one credential: hands it out without a lock, renews it ahead of its end, backs off.

use std::sync::Arc;

use jiff::Timestamp;
use keyward_protocol::exec::Response;

use crate::{Error, clock::SharedClock};

/// Gets a new value. Blocks: it is called on a thread that Keyward keeps.
pub trait Fetch<T>: Send + Sync + 'static {
    /// One attempt.
    fn fetch(&self, occasion: &Occasion) -> Result<Fresh<T>, Error>;
}

/// Why a value is asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Occasion {
    /// There is none, or it has expired. Somebody waits.
    Needed,
    /// The one there is will end soon. Nobody waits: such a run is unattended.
    Ahead,
    /// A server refused the one there was. Somebody waits.
    Refused(Option<Arc<Response>>),
}

/// A value as it came, with the time it may be kept until.
#[derive(Debug)]
pub struct Fresh<T> {
    /// The value.
    pub value: T,
    /// Until when; `None` is for ever.
    pub expires: Option<Timestamp>,
}

/// A value that can be kept in several copies, so that threads do not fight for one reference count.
pub trait Keep: Send + Sync + 'static {
    /// A copy with allocations of its own where it matters.
    fn copy(&self) -> Self;
    /// Tells values apart: equal only for copies of one value.
    fn serial(&self) -> u64;
}

/// How a cell behaves; the defaults are the design's.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {}

/// Keeps one value of a [`Fetch`].
pub struct Cell<T>(std::marker::PhantomData<T>);

impl<T: Keep> Cell<T> {
    /// An empty cell. Nothing runs until it is asked.
    pub fn new(_fetch: impl Fetch<T>, _clock: SharedClock, _settings: Settings) -> Self {
        todo!()
    }

    /// The value, if one is there and valid: no lock, no allocation. Past its refresh time this
    /// also starts a run in the background.
    pub fn current(&self) -> Option<Arc<T>> {
        todo!()
    }

    /// The value, waiting for a run where one is needed. Dropping the future frees the caller and
    /// leaves the run to the next one.
    pub async fn value(&self) -> Result<Arc<T>, Error> {
        todo!()
    }

    /// The same for a thread that may block.
    pub fn value_blocking(&self) -> Result<Arc<T>, Error> {
        todo!()
    }

    /// A server refused `serial`: forget it if it is still the current one, so that the next
    /// question runs the fetch (within the back-off).
    pub fn refused(&self, _serial: u64, _response: Option<Arc<Response>>) {
        todo!()
    }
}
