//! `keyward-oidc` against npm's oidc-provider, with curl as the browser, and against a provider that lies.

mod background;
mod chromium;
mod client;
mod code;
mod device;
mod drop_in;
pub(crate) mod judge;
mod keyring;
mod liar;
mod lies;
mod person;
mod pitfalls;
mod refresh;
pub(crate) mod stage;
