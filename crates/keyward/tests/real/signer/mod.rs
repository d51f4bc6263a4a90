//! Handshakes signed by a process of their own.

mod burst;
mod fault;
mod handshake;
mod openssl;
mod patience;
mod unlock;

use std::sync::Arc;

use keyward_testing::{
    authority::{Authority, KeyKind},
    server::{ClientCertificates, Server, Setup},
    signer::Token,
};

/// A server that trusts the authority, and a token with a certificate of it for `anna`.
fn scene(setup: Setup, key: KeyKind) -> (Server, Token) {
    let authority = Arc::new(Authority::new("signers").unwrap());
    let issued = authority.client("anna").key(key).issue().unwrap();
    let server =
        setup.authority(authority).certificates(ClientCertificates::Demanded).start().unwrap();
    (server, Token::new(&issued))
}
