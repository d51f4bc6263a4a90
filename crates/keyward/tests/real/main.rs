//! Real plugins, a real TLS server, real connections.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "tests may ask the time")]

mod certificates;
mod example;
mod exec_info;
mod halfway;
mod layer;
mod method;
mod openssl;
mod proxy;
mod redirect;
mod refusal;
mod rotation;
mod run;
mod signer;
mod support;
mod tls;
