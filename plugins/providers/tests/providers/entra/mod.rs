//! `keyward-entra`, with azure-identity and MSAL as the judges.

mod drop_in;
mod flows;
mod pitfalls;
pub(crate) mod stage;
