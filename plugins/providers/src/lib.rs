//! The program `keyward-providers`: credential plugins for clouds, registries and identity providers, in one file.
//!
//! ```text
//! argv[0] or first argument ──► Family ──► Call ──► the family's flags ──► credential ──► stdout
//!                                                        └─ `--explain`: which source was used, which were skipped
//! ```
//!
//! Each *family* is a feature and stands for one kind of login: its own name (`keyward-eks`) and the names of
//! the tools that it replaces (`aws-iam-authenticator`). The name that the program is started by selects the
//! family, so links are all that a machine needs; `keyward-providers install DIR` creates them.
//!
//! Secrets that outlive a process (role sessions, refresh tokens) are kept by Keyward's agent, if one is running,
//! and never in files of ours.

#![cfg_attr(
    not(feature = "default"),
    allow(dead_code, unused_imports, reason = "what families share, none of them needs alone")
)]

#[cfg(feature = "acr")]
mod acr;
mod agent;
#[cfg(feature = "aws")]
mod aws;
#[cfg(feature = "azure")]
mod azure;
mod call;
#[cfg(feature = "http")]
mod client_auth;
#[cfg(any(feature = "acr", feature = "ecr", feature = "gar"))]
mod docker;
#[cfg(feature = "ecr")]
pub mod ecr;
#[cfg(feature = "eks")]
pub mod eks;
#[cfg(feature = "entra")]
mod entra;
#[cfg(feature = "exchange")]
mod exchange;
mod explain;
mod family;
mod flags;
#[cfg(feature = "gar")]
mod gar;
#[cfg(feature = "gke")]
mod gke;
#[cfg(feature = "google")]
mod google;
#[cfg(feature = "http")]
mod http;
mod install;
#[cfg(feature = "oidc")]
mod keyring;
#[cfg(feature = "kms")]
pub mod kms;
#[cfg(any(feature = "aws", feature = "http"))]
mod link;
#[cfg(feature = "oidc")]
mod oidc;
mod program;
#[cfg(feature = "http")]
mod reader;
#[cfg(any(feature = "aws", feature = "google"))]
mod sigv4;
#[cfg(feature = "spiffe")]
mod spiffe;

use std::{ffi::OsString, process::ExitCode};

use keyward_agent::store;
use keyward_plugin::Refusal;
use keyward_process::harden;

pub use self::{
    call::Call,
    family::{FAMILIES, Family},
};

/// The name of the program.
pub const NAME: &str = "keyward-providers";

/// The whole program. `arguments` begin with its name, as in any process.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    harden::keep_memory_private();
    let mut arguments = arguments.into_iter();
    let name = family::file_name(&arguments.next().unwrap_or_default());
    call::finish(run(name, arguments.collect()))
}

fn run(name: String, args: Vec<OsString>) -> Result<ExitCode, Refusal> {
    if let Some(family) = family::by_name(&name) {
        return (family.run)(&Call::new(name, args));
    }
    let Some((first, rest)) = args.split_first() else {
        return Err(Refusal::BadConfig(format!(
            "`{NAME}` needs the name of a provider\n\n{}",
            family::usage()
        )));
    };
    let call = |name: String| Call::new(name, rest.to_vec());
    let own = || call(NAME.to_owned());
    match &*first.to_string_lossy() {
        "install" => install::run(&own()),
        "--help" | "-h" | "help" => own().print(&family::usage()),
        "--version" | "-V" | "version" => {
            own().print(&format!("{NAME} {}\n", env!("CARGO_PKG_VERSION")))
        }
        other => match family::by_word(other) {
            Some((family, name)) => (family.run)(&call(name)),
            None => Err(Refusal::BadConfig(format!(
                "`{NAME}` has no provider `{}`\n\nhint: `{NAME} --help` lists them",
                keyward_protocol::text::inline(other)
            ))),
        },
    }
}
