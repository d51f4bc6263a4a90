//! Write a Kubernetes credential plugin in ten lines.
//!
//! A plugin is a program that a client (`kubectl`, anything on client-go, Keyward) starts when it
//! needs a credential. The client says what it wants in an environment variable; the plugin prints
//! a token or a certificate on stdout, or a reason on stderr. This crate is everything between that
//! and your code: implement [`Plugin`], call [`serve()`].
//!
//! ```no_run
#![doc = include_str!("../examples/token_from_file.rs")]
//! ```
//!
//! Two more examples stand beside it: `short_lived_certificate` and `interactive_login`; and
//! `token_over_tls`, which calls the cluster it is asked for.
//!
//! | for | see |
//! |---|---|
//! | what is asked, in which version, for which cluster | [`Question`] |
//! | what to hand out, and until when | [`Credential`], [`expiry`] |
//! | how to say no | [`Refusal`] |
//! | asking a person | [`Terminal`] |
//! | calling the cluster | [`Endpoint`] |
//! | signing handshakes with a key that stays where it is | [`Signer`], [`serve_signer`] |
//! | logins for registries, for whoever pulls images | [`ImageProvider`], [`serve_image`], [`Logins`] |
//!
//! An external signer, which the example `file_key_signer` shows, is a plugin of another protocol:
//! it hands out no key, it signs. So is an image credential provider, which `registry_login` shows:
//! it is asked by the kubelet, or by Keyward in its place, and hands out user names and passwords.

mod credential;
mod endpoint;
mod image;
mod question;
mod refusal;
mod serve;
mod signer;
mod stdout;
mod terminal;
mod tunnel;

pub use credential::{Credential, expiry};
pub use endpoint::Endpoint;
pub use image::{ImageProvider, ImageQuestion, Logins, serve_image};
pub use keyward_protocol::{
    Node, Secret, Url,
    exec::{Cluster, Request, Response, Version},
    image::Version as ImageVersion,
    signer::{CertificateResponse, Configuration, Hash, Options, SignRequest},
};
pub use question::{Question, QuestionError};
pub use refusal::Refusal;
pub use serve::{Plugin, serve};
pub use signer::{Signer, serve_signer};
pub use terminal::Terminal;

/// Compiles the code on the page for authors.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/plugin-authors.md")]
struct Page;

/// The example of the README, compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
