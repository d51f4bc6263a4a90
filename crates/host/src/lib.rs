//! Runs external credential providers: from a kubeconfig to a credential in memory.
//!
//! ```text
//! kubeconfig ──► Target ──► Plan ──► Invocation ──► Answer ──► Fresh ──► Arc<Credential>
//!           resolve    plan     ask            run        read      keep
//! ```
//!
//! One noun is one type, one verb one function, each in the file of that name: a [`Kubeconfig`]
//! resolves to a [`Target`]; a [`Plan`] decides, by [`rules`], how its user gets credentials; a
//! plugin is an [`Invocation`](keyward_process::runner::Invocation) that is run; its
//! [`Answer`](keyward_protocol::exec::Answer) is kept in a [`Cell`](cell::Cell), and a [`Source`]
//! hands out the [`Credential`] to everybody who is that user.
//!
//! ```no_run
//! use keyward_host::{Kubeconfig, Overrides, Plan, Sources, plan, rules::Rules};
//! use keyward_process::surroundings::Surroundings;
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
//! Where to look: hangs → [`keyward_process::runner`]; asked twice → `single_flight`, [`cell`]; wrong program → [`plan`],
//! [`rules`]; bad field → `keyward_protocol::exec`; wrong user → [`kubeconfig`].

pub mod cell;
mod credential;
mod error;
pub mod exec;
pub mod kubeconfig;
pub mod observer;
pub mod oidc;
pub mod pair;
pub mod plan;
pub mod plugin;
pub mod redact;
pub mod reload;
pub mod rules;
pub mod signer;
mod single_flight;
mod source;
mod static_credential;

pub use credential::Credential;
pub use error::{Error, Kind};
pub use exec::PluginRunner;
pub use kubeconfig::{Kubeconfig, Overrides, Target};
pub use plan::{Draft, Plan};
pub use single_flight::{SingleFlight, Waiter};
pub use source::{Source, Sources};
pub use static_credential::{CertificateSource, HeaderSource, StaticCredential};
