//! PINs that were wrong, so that none is tried twice.

use std::{collections::HashMap, sync::Mutex};

use keyward_process::lock;
use keyward_protocol::signer::{Configuration, Request};
use sha2::{Digest as _, Sha256};

use crate::Error;

/// The configurations whose PIN was wrong, for the life of a registry: a token locks itself after a
/// few tries, so none is wasted on a PIN that is known to be wrong.
#[derive(Default)]
pub(crate) struct WrongPins(Mutex<HashMap<Print, Error>>);

/// A configuration without its text: it may hold the PIN itself.
type Print = [u8; 32];

impl WrongPins {
    /// The error of the first try, if there was one.
    pub(super) fn wrong(&self, configuration: &Configuration) -> Option<Error> {
        let known = lock(&self.0);
        known.get(&print(configuration)).cloned()
    }

    pub(super) fn remember(&self, configuration: &Configuration, error: Error) {
        let mut known = lock(&self.0);
        known.insert(print(configuration), error);
    }
}

fn print(configuration: &Configuration) -> Print {
    let text = Request::Unlock(configuration.clone()).to_json();
    Sha256::digest(text.expose()).into()
}
