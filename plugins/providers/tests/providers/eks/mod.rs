//! `keyward-eks`, beside awscli and botocore.

mod chain;
mod environments;
mod flags;
mod pitfalls;
mod tokens;
