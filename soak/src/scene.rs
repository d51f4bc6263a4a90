//! Server, issuer and clients.

use std::{
    env,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use keyward::Client;
use keyward_host::{Kubeconfig, NoopObserver, Overrides, PlanSettings, Sources, rules::Rules};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use keyward_testing::{
    issuer::{Issuer, Manner},
    server::Server,
};
use serde_json::json;
use tempfile::TempDir;

/// Two identities: a token's and a certificate's.
pub const ACCOUNTS: [&str; 2] = ["token", "certificate"];

/// The identity of the runs that are timed.
const TRIAL: &str = "trial";

const TOKEN_LIFETIME: Duration = Duration::from_secs(2);
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(3);

/// Runs that are timed before anything begins.
const TRIALS: usize = 3;

/// Everything that stands while the storm goes over it.
pub struct Scene {
    pub server: Arc<Server>,
    pub issuer: Issuer,
    /// How long the plugin takes here, at worst.
    pub run: Duration,
    /// How long a token lives.
    pub lifetime: Duration,
    folder: TempDir,
}

impl Scene {
    /// Starts the server and the issuer, inside a runtime.
    ///
    /// On a machine so busy that a run of the plugin takes a good part of a credential's life, there
    /// is nothing to see: what arrives has expired. There they live longer.
    pub async fn open() -> Result<Self, Box<dyn Error + Send + Sync>> {
        // It shares our memory, which is measured: it shall remember nothing.
        let server = Arc::new(Server::setup().records(0).start()?);
        let folder = tempfile::tempdir()?;
        let issuer = Issuer::start(&server, &folder.path().join("issuer"))?;
        let mut scene =
            Self { server, issuer, run: Duration::ZERO, lifetime: TOKEN_LIFETIME, folder };
        scene.issuer.answer(TRIAL, Manner::Token(Duration::from_secs(3600)));
        for _ in 0..TRIALS {
            let client = scene.client(TRIAL)?;
            let begin = Instant::now();
            client.get("/healthz").await?;
            scene.run = scene.run.max(begin.elapsed());
        }
        scene.lifetime = TOKEN_LIFETIME.max(scene.run * 10);
        let longer = CERTIFICATE_LIFETIME.max(scene.run * 15);
        scene.issuer.answer(ACCOUNTS[0], Manner::Token(scene.lifetime));
        scene.issuer.answer(ACCOUNTS[1], Manner::Certificate(longer));
        Ok(scene)
    }

    /// A kubeconfig whose user is the account.
    pub fn kubeconfig(&self, account: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
        Ok(self.server.kubeconfig(&json!({ "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": env::current_exe()?,
            "args": ["plugin", self.folder.path().join("issuer"), account],
            "interactiveMode": "Never",
        } })))
    }

    /// A client that shares its credentials with nobody.
    pub fn client(&self, account: &str) -> Result<Client, Box<dyn Error + Send + Sync>> {
        let program = env::current_exe()?;
        let config = self.kubeconfig(account)?;
        let surroundings = Surroundings::process();
        let target = Kubeconfig::from_bytes(config.as_bytes())?
            .resolve(&Overrides::default(), &surroundings)?;
        let mut settings = PlanSettings::default();
        settings.person = false;
        let mut rules = Rules::default();
        rules.trusted.push(program);
        let sources = Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver));
        Ok(Client::builder().plan(settings).open(&target, &rules, &sources)?)
    }

    /// The version of the server's objects before anything happens.
    pub fn version(&self) -> u64 {
        self.server.store().version()
    }
}
