//! Fetches a token from the cluster of the request, using only what the request says about the cluster
//! and nothing else: address, name in the handshake, certificate authority, proxy, and the path
//! in the kubeconfig's `client.authentication.k8s.io/exec` extension (`path`, else `/token`).

use std::{
    io::{Read, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use keyward_plugin::{Credential, Endpoint, Question, Refusal, serve};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};

const PATIENCE: Duration = Duration::from_secs(10);

fn credential(question: &Question) -> Result<Credential, Refusal> {
    let endpoint = question.require_endpoint()?;
    let path = match endpoint.config().and_then(|config| config.get("path")) {
        Some(path) => path.text("path").map_err(|e| Refusal::BadConfig(e.to_string()))?,
        None => None,
    };
    let path = path.unwrap_or("/token");
    let name = endpoint
        .server_name()
        .and_then(|name| ServerName::try_from(name).ok())
        .ok_or_else(|| Refusal::BadConfig("the cluster has no usable name".into()))?;

    let tls = ClientConnection::new(Arc::new(config(&endpoint)?), name).map_err(Refusal::failed)?;
    let mut stream = StreamOwned::new(tls, endpoint.connect(PATIENCE)?);
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", endpoint.host().unwrap_or_default())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;

    match response.split_once("\r\n\r\n") {
        Some((head, token)) if head.starts_with("HTTP/1.0 200") => {
            Ok(Credential::token(token.trim()).expires_in(Duration::from_secs(300)))
        }
        _ => Err(Refusal::failed("the server gave no token")),
    }
}

/// A TLS configuration that trusts the cluster's authorities and sends no client certificate.
fn config(endpoint: &Endpoint) -> Result<ClientConfig, Refusal> {
    let mut roots = RootCertStore::empty();
    for authority in endpoint.authorities()? {
        roots
            .add(CertificateDer::from(authority))
            .map_err(|e| Refusal::BadConfig(format!("a certificate authority is broken: {e}")))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Refusal::failed)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn main() -> ExitCode {
    serve(credential)
}
