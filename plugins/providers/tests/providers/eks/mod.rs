//! `keyward-eks`, beside awscli and botocore.

mod chain;
mod flags;
mod judge;
mod pitfalls;
mod stage;
mod tokens;
