//! `keyward-pkcs11`: signs Kubernetes handshakes with keys that stay in smart cards, TPMs and HSMs.
//!
//! ```text
//! client --request--> signer --> open (session, login) --> sign --> the module (.so)
//!                       |          |
//!                       |          +-- pin (may it be tried?), lock (is it our turn?)
//!                       +-- target (what is meant), identity (which key, which certificate)
//! ```
//!
//! Asked by a client it is an external signer; started by a person it has commands. This is the only
//! program of the project that loads a foreign library, in a process of its own.

mod certificate;
mod commands;
mod contents;
mod der;
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
mod surroundings;
mod target;
mod uri;
mod verify;

use std::process::ExitCode;

use keyward_protocol::signer::Request;
use signer::TokenSigner;

fn main() -> ExitCode {
    keep_memory_private();
    match surroundings::request() {
        Some(request) if std::env::args_os().len() == 1 => {
            let stays = Request::read(request.as_encoded_bytes()) == Ok(Request::Session);
            return keyward_plugin::serve_signer(TokenSigner::new(!stays));
        }
        _ => {}
    }
    commands::run()
}

/// Nobody else may look into a process that holds a PIN: no core file, no debugger, no
/// `/proc/PID/environ`. A system that cannot do it is no reason to stop.
fn keep_memory_private() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
