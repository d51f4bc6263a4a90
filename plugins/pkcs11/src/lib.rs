//! The program `keyward-pkcs11`: signs Kubernetes handshakes with keys that stay in smart cards, TPMs and HSMs.
//!
//! ```text
//! client --request--> signer --> open (session, login) --> sign --> the module (.so)
//!                       |          |
//!                       |          +-- pin (may it be tried?), lock (is it our turn?)
//!                       +-- target (what is meant), identity (which key, which certificate)
//! ```
//!
//! Asked by a client it is an external signer; started by a person it has commands. Nothing else in the
//! project loads a foreign library, and this does it in a process of its own. It is a library so that
//! `keyward demo` can be this program too, in such a process.

mod certificate;
mod commands;
mod contents;
mod fault;
mod identity;
mod lock;
mod module;
mod open;
mod pin;
mod pss;
mod public;
mod raw;
mod request;
mod sign;
mod signer;
mod target;
mod uri;
mod verify;

use std::{ffi::OsString, process::ExitCode};

use keyward_process::{harden, surroundings::Surroundings};
use keyward_protocol::signer::{REQUEST_VARIABLE, Request};

use self::signer::TokenSigner;

/// The whole program. `arguments` begin with its name, as in any process.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    harden::keep_memory_private();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match client_request() {
        Some(request) if arguments.len() == 1 => {
            let stays = Request::read(request.as_encoded_bytes()) == Ok(Request::Session);
            keyward_plugin::serve_signer(TokenSigner::new(!stays))
        }
        _ => commands::run(arguments),
    }
}

/// The client's request.
fn client_request() -> Option<OsString> {
    Surroundings::process().var(REQUEST_VARIABLE).filter(|text| !text.is_empty())
}
