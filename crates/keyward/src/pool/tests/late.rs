//! A server that waits less long than a signer takes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use keyward_host::{
    Kubeconfig, NoopObserver, Overrides, Plan, PlanSettings, SignerCertificate, Sources,
    rules::Rules,
};
use keyward_process::{
    clock::SystemClock,
    surroundings::{Fixed, Surroundings},
};
use keyward_testing::{authority::Authority, signer::Token};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion, server::WebPkiClientVerifier, version,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use super::GUARD;
use crate::{
    Body, Incoming, Origin,
    connect::{Connector, Dialer},
    pool::{Failure, Lifetimes, Pool},
    tls::Trust,
};

/// What the server has, what is put down to the signer, and what the signer takes, in this order.
const PATIENCE: Duration = Duration::from_millis(300);
const BLAME: Duration = Duration::from_millis(700);
const DELAY: &str = "1200";

/// An authority, a token with a slow signer, and a count of the server's connections.
struct Scene {
    authority: Authority,
    token: Token,
    connections: Arc<AtomicUsize>,
}

fn scene() -> Scene {
    let authority = Authority::new("late").unwrap();
    let mut token = Token::new(&authority.client("anna").issue().unwrap());
    token.set("delay", DELAY).set("resumption", "off");
    Scene { authority, token, connections: Arc::default() }
}

impl Scene {
    /// A server that drops the first `hasty` handshakes and answers what comes after.
    async fn serve(
        &self,
        version: &'static SupportedProtocolVersion,
        protocol: &str,
        hasty: usize,
    ) -> String {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let checker =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let issued = self.authority.server(&["127.0.0.1"]).unwrap();
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(checker.build().unwrap())
            .with_single_cert(vec![issued.certificate().clone()], issued.key())
            .unwrap();
        tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let connections = self.connections.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = connections.fetch_add(1, Ordering::SeqCst);
                let accepting = acceptor.accept(stream);
                if number < hasty {
                    let _ = tokio::time::timeout(PATIENCE, accepting).await;
                    continue;
                }
                let mut stream = accepting.await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                stream.flush().await.unwrap();
            }
        });
        url
    }

    /// One request by a pool that this token signs for.
    async fn ask(&self, url: &str) -> Result<Response<Incoming>, Failure> {
        let certificate = certificate(&self.token);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = Trust::authorities(provider, self.authority.pem().as_bytes()).unwrap();
        let tls = trust.signer_config(&certificate).unwrap();
        let nowhere = Surroundings::fixed(Fixed::default());
        let origin = Origin::parse(url).unwrap();
        let connector = Connector::new(origin, trust, "", &nowhere, GUARD).unwrap();
        let dialer = Dialer::new(Arc::new(connector), tls, Some(certificate)).slow_after(BLAME);
        let pool = Pool::new(dialer, Lifetimes::default());
        let request = Request::get(format!("{url}/version")).body(Body::empty()).unwrap();
        tokio::time::timeout(GUARD, pool.send(Box::new(request))).await.unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn certificate(token: &Token) -> Arc<SignerCertificate> {
    let text = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1" } }],
        "users": [{ "name": "u", "user": token.user() }],
    });
    let surroundings = Surroundings::process();
    let kubeconfig = Kubeconfig::from_bytes(text.to_string().as_bytes()).unwrap();
    let target = kubeconfig.resolve(&Overrides::default(), &surroundings).unwrap();
    let mut settings = PlanSettings::default();
    settings.person = false;
    let plan = Plan::new(target, &Rules::default(), &surroundings, settings).unwrap();
    let sources = Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver));
    let credential = sources.open(&plan).credential_blocking().unwrap();
    credential.signer().unwrap().clone()
}

#[tokio::test]
async fn a_connection_that_broke_under_a_slow_signature_is_tried_once_more_and_no_oftener() {
    for version in [&version::TLS12, &version::TLS13] {
        for protocol in ["h2", "http/1.1"] {
            let scene = scene();
            let url = scene.serve(version, protocol, usize::MAX).await;
            let failure = scene.ask(&url).await.unwrap_err();
            let error = failure.error.credential().expect("the host's error").clone();
            assert!(error.to_string().contains("took 1 s to sign"), "{protocol}: {error}");
            assert!(error.hint().unwrap().contains("32 s"), "{protocol}: {error:?}");
            assert_eq!(scene.connections(), 2, "{version:?} {protocol}");
            assert_eq!(scene.token.asked("SignRequest"), 2, "{version:?} {protocol}");
        }
    }
}

#[tokio::test]
async fn the_second_try_may_succeed() {
    for version in [&version::TLS12, &version::TLS13] {
        let scene = scene();
        let url = scene.serve(version, "http/1.1", 1).await;
        let response = scene.ask(&url).await.unwrap();
        assert_eq!(response.status(), 204);
        assert_eq!(scene.connections(), 2, "{version:?}");
    }
}
