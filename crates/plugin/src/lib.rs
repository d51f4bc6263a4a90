//! Write a Kubernetes credential plugin in ten lines.
//!
//! A plugin is a program that a client (`kubectl`, anything on client-go, Keyward) starts when it
//! needs a credential. The client puts its request into an environment variable; the plugin prints a
//! token or a certificate on stdout, or an error on stderr. This crate does everything between that and
//! your code: implement [`Plugin`], call [`serve()`].
//!
//! ```no_run
#![doc = include_str!("../examples/token_from_file.rs")]
//! ```
//!
//! More examples: `short_lived_certificate`, `interactive_login`, and `token_over_tls`, which calls the
//! cluster of the request. With the crate `keyward`, `Client::from_exec_info` is an HTTPS client for that
//! cluster.
//!
//! | for | see |
//! |---|---|
//! | the request: its version and cluster | [`Question`] |
//! | the answer, and its expiry | [`Credential`], [`expiry`] |
//! | errors | [`Refusal`] |
//! | prompts | [`Terminal`] |
//! | calling the cluster | [`Endpoint`] |
//! | signing handshakes with a key that cannot be exported | [`Signer`], [`serve_signer`] |
//! | logins for registries, for the kubelet | [`ImageProvider`], [`serve_image`], [`Logins`] |
//! | logins for registries, for docker | [`DockerHelper`], [`serve_docker`], [`DockerLogin`] |
//!
//! External signers speak another protocol: they sign with a key that they do not export (example
//! `file_key_signer`). So do image credential providers, which return user names and passwords to the
//! kubelet, or to Keyward in its place (example `registry_login`), and credential helpers, which return them
//! to docker, podman and others (example `docker_login`).

mod credential;
mod docker;
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
pub use docker::{DockerHelper, DockerLogin, serve_docker, serve_docker_verb};
pub use endpoint::Endpoint;
pub use image::{ImageProvider, ImageQuestion, Logins, serve_image};
pub use keyward_protocol::{
    Node, Secret, Url,
    docker::Verb as DockerVerb,
    exec::{Cluster, Request, Response, Version},
    image::Version as ImageVersion,
    signer::{CertificateResponse, Configuration, Hash, Options, SignRequest},
};
pub use question::{Question, QuestionError};
pub use refusal::Refusal;
pub use serve::{Plugin, serve, serve_or};
pub use signer::{Signer, serve_signer};
pub use terminal::Terminal;

/// The example of the README, compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
