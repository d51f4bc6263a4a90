//! Runs external credential providers: from a kubeconfig to a credential in memory.
//!
//! ```text
//! kubeconfig ──► Target ──► Plan ──► Invocation ──► Answer ──► Fresh ──► Arc<Credential>
//!           resolve    plan     ask            run        read      keep
//! ```
//!
//! One noun is one type, one verb one function, each in the file of that name: a [`Kubeconfig`]
//! resolves to a [`Target`]; a [`Plan`] decides, by [`rules`], how its user gets credentials; a
//! plugin is an [`Invocation`](process::Invocation) that is run; its
//! [`Answer`](keyward_protocol::exec::Answer) is kept in a [`Cell`](cell::Cell), and a [`Source`]
//! hands out the [`Credential`] to everybody who is that user.
//!
//! ```no_run
//! use keyward_host::{Kubeconfig, Overrides, Plan, Sources, Surroundings, plan, rules::Rules};
//!
//! # fn main() -> Result<(), keyward_host::Error> {
//! let surroundings = Surroundings::process();
//! let target = Kubeconfig::load(&surroundings, None)?
//!     .resolve(&Overrides::default(), &surroundings)?;
//! let rules = Rules::load(&surroundings, None)?;
//! let plan = Plan::new(target, &rules, &surroundings, plan::Settings::default())?;
//! let credential = Sources::global().open(&plan).credential_blocking()?;
//! println!("it is good until {:?}", credential.expires());
//! # Ok(())
//! # }
//! ```
//!
//! Where to look: hangs → [`process`]; asked twice → [`flight`], [`cell`]; wrong program → [`plan`],
//! [`rules`]; bad field → `keyward_protocol::exec`; wrong user → [`kubeconfig`].

pub mod cell;
pub mod clock;
mod credential;
mod error;
mod exec;
pub mod flight;
mod given;
pub mod image;
pub mod kubeconfig;
pub mod observer;
pub mod oidc;
pub mod pair;
pub mod plan;
pub mod process;
pub mod redact;
pub mod reload;
pub mod rules;
pub mod signer;
mod source;
pub mod surroundings;

pub use credential::Credential;
pub use error::{Error, Kind};
pub use kubeconfig::{Kubeconfig, Overrides, Target};
pub use plan::{Draft, Plan};
pub use source::{Source, Sources};
pub use surroundings::Surroundings;
