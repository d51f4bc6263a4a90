//! `keyward-eks`, beside awscli and botocore.

mod chain;
mod flags;
mod pitfalls;
mod tokens;
