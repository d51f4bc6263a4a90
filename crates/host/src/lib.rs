//! Runs external credential providers: from a kubeconfig to a credential in memory.
//!
//! ```text
//! kubeconfig ──► Target ──► Plan ──► Invocation ──► Answer ──► Fetched ──► Arc<Credential>
//!           resolve    plan     ask            run        read      cache
//! ```
//!
//! One noun is one type, one verb one function, each in the file of that name: a [`Kubeconfig`]
//! resolves to a [`Target`]; a [`Plan`] decides, by [`rules`], how its user gets credentials; a
//! plugin is an [`Invocation`](keyward_process::runner::Invocation) that is run; its
//! [`Answer`](keyward_protocol::exec::Answer) is cached, and a [`Source`]
//! hands out the [`Credential`] to everybody who is that user.
//!
//! ```no_run
//! use keyward_host::{Kubeconfig, Overrides, Plan, PlanSettings, Sources, rules::Rules};
//! use keyward_process::surroundings::Surroundings;
//!
//! # fn main() -> Result<(), keyward_host::Error> {
//! let surroundings = Surroundings::process();
//! let target = Kubeconfig::load(&surroundings, None)?
//!     .resolve(&Overrides::default(), &surroundings)?;
//! let rules = Rules::load(&surroundings, None)?;
//! let plan = Plan::new(target, &rules, &surroundings, PlanSettings::default())?;
//! let credential = Sources::global().open(&plan).credential_blocking()?;
//! println!("it is good until {:?}", credential.expires());
//! # Ok(())
//! # }
//! ```
//!
//! Where to look: hangs → [`keyward_process::runner`]; asked twice → `single_flight`, `cell`; wrong program → `plan`,
//! [`rules`]; bad field → `keyward_protocol::exec`; wrong user → [`kubeconfig`].

mod broker;
mod cell;
mod copies;
mod credential;
mod error;
mod exec;
pub mod kubeconfig;
mod observer;
mod oidc;
mod pair;
mod plan;
mod plugin;
pub mod redact;
mod reload;
pub mod rules;
mod signer;
mod single_flight;
mod source;
mod static_credential;

pub use broker::{Broker, BrokerHandle, BrokerQuestion, Brokered};
pub use cell::{Fetch, Fetched, History, Occasion, PastRun};
pub use copies::ThreadCopies;
pub use credential::Credential;
pub use error::{Error, Kind};
pub use exec::{ExecPlugin, PluginRunner};
pub use kubeconfig::types::{Kubeconfig, Overrides, Target};
#[cfg(feature = "metrics")]
pub use observer::MetricsObserver;
pub use observer::{CallStatus, Metrics, NoopObserver, Observer};
pub use oidc::OidcExchange;
pub use pair::{KeyDer, Pair, read_authorities};
pub use plan::{Draft, Method, Plan, PlanSettings, StderrMode};
pub use plugin::{Environment, Preview, PreviewedRun, RunSettings, VariableOrigin};
pub use reload::{Reload, ReloadPace};
pub use signer::{KeyKind, SignerCertificate, SignerPlugin};
pub use single_flight::{SingleFlight, Waiter};
pub use source::{Source, Sources};
