use std::{fmt, sync::Arc, time::Duration};

use http::HeaderValue;
use keyward_host::{
    Kind as Why, Kubeconfig, Overrides, Plan, PlanSettings, Source, Sources, Target, rules::Rules,
};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use rustls::crypto::CryptoProvider;

use super::{Client, Inner, headers::DefaultHeaders};
use crate::{
    Error, Origin,
    bearer::Config,
    connect::{Connector, Tracer},
    error::Kind,
    generation::Generations,
    oidc::Https,
    pool,
    tls::{Trust, provider_or_default},
};

/// Configures a [`Client`]. Times default to client-go's where it has them.
#[derive(Clone)]
pub struct Builder {
    provider: Option<Arc<CryptoProvider>>,
    surroundings: Surroundings,
    plan: PlanSettings,
    user_agent: Option<String>,
    connect: Duration,
    limit: Option<Duration>,
    pool: pool::Lifetimes,
    replay: bool,
    refresh_on_403: bool,
    bare: bool,
    tracer: Tracer,
}

/// A client, and what it was opened with.
#[derive(Debug)]
pub struct Opened {
    /// The client.
    pub client: Client,
    /// Where its credentials come from.
    pub source: Source,
    /// How they are obtained.
    pub plan: Plan,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            provider: None,
            surroundings: Surroundings::process(),
            plan: PlanSettings::default(),
            user_agent: None,
            connect: Duration::from_secs(30),
            limit: None,
            pool: pool::Lifetimes::default(),
            replay: true,
            refresh_on_403: false,
            bare: false,
            tracer: Tracer::default(),
        }
    }
}

impl Builder {
    /// Uses another cryptography provider than the crate's own (`ring`, unless that feature is off).
    #[must_use]
    pub fn provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Sets the environment of plugins, from which `HTTPS_PROXY` and its relatives, `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` are read too: by default that of this process.
    #[must_use]
    pub fn surroundings(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = surroundings;
        self
    }

    /// Sets how plugins run, see [`Builder::open`].
    #[must_use]
    pub fn plan(mut self, settings: PlanSettings) -> Self {
        self.plan = settings;
        self
    }

    /// Asks Keyward's agent before a plugin runs, so that this program, kubectl and others share one
    /// login. Call it after [`Builder::plan`], which sets it too.
    #[cfg(feature = "agent")]
    #[must_use]
    pub fn agent(mut self, agent: Arc<crate::agent::Agent>) -> Self {
        self.plan.broker = Some(agent);
        self
    }

    /// Sets the `User-Agent` of requests that have none.
    #[must_use]
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = Some(name.into());
        self
    }

    /// Limits how long a connection takes, proxy and handshake included: by default 30 s.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect = limit;
        self
    }

    /// Limits the time from the call to the response's headers, the provider's run included; by default
    /// there is no limit. Bodies are not limited: a watch does not end.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Closes a connection that was idle for this long: by default 90 s.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.pool.idle = limit;
        self
    }

    /// Cuts what is still open under a replaced certificate, such as a watch, after this long. By default
    /// it is left to the server.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.pool.drain = Some(limit);
        self
    }

    /// Sets after how long of silence an HTTP/2 connection with open streams is pinged, and how long it
    /// has to answer: by default 30 s and 15 s, `None` never.
    #[must_use]
    pub fn ping(mut self, ping: Option<(Duration, Duration)>) -> Self {
        self.pool.ping = ping;
        self
    }

    /// Never sends a request twice, see [`crate::bearer::Layer::without_replay`].
    #[must_use]
    pub fn without_replay(mut self) -> Self {
        self.replay = false;
        self
    }

    /// Treats a 403 like a 401, see [`crate::bearer::Layer::refresh_on_403`].
    #[must_use]
    pub fn refresh_on_403(mut self) -> Self {
        self.refresh_on_403 = true;
        self
    }

    /// Adds only the credential and the kubeconfig's impersonation to requests, and leaves responses as
    /// they are, compressed or not: for a proxy, whose clients set the rest.
    #[must_use]
    pub fn without_defaults(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Records in `tracer` how the client's connections come about, for a program that explains faults.
    #[must_use]
    pub fn tracer(mut self, tracer: &Tracer) -> Self {
        self.tracer = tracer.clone();
        self
    }

    /// A client for this context, or the current one, of the kubeconfig that kubectl would use, and the
    /// target that the context names. Runs no plugin and opens no connection. All clients made this
    /// way share the credentials of one identity.
    ///
    /// Fails when the kubeconfig or the plugin policy cannot be read, or do not allow the context.
    pub fn for_context(self, context: Option<&str>) -> Result<(Client, Target), Error> {
        let overrides = Overrides { context: context.map(str::to_owned), ..Overrides::default() };
        let target = Kubeconfig::load(&self.surroundings, None)
            .and_then(|kubeconfig| kubeconfig.resolve(&overrides, &self.surroundings))
            .map_err(Error::config)?;
        let rules = Rules::load(&self.surroundings, None).map_err(Error::config)?;
        Ok((self.open(&target, &rules, Sources::global())?, target))
    }

    /// A client for the cluster in `KUBERNETES_EXEC_INFO`, and the cluster as a target, for a plugin that
    /// calls the cluster it gets a credential for. See [`Client::from_exec_info`].
    pub fn from_exec_info(self) -> Result<(Client, Target), Error> {
        let target = Target::from_exec_info(&self.surroundings).map_err(Error::config)?;
        Ok((self.open(&target, &Rules::default(), Sources::global())?, target))
    }

    /// A client of the target's cluster as the target's user. Runs no plugin and opens no connection.
    ///
    /// Fails when the kubeconfig asks for something that cannot be done. If a plugin needs a terminal
    /// and there is none, the requests fail.
    pub fn open(self, target: &Target, rules: &Rules, sources: &Sources) -> Result<Client, Error> {
        let mut settings = self.plan.clone();
        settings.exchange.get_or_insert_with(Https::shared);
        match Plan::new(target.clone(), rules, &self.surroundings, settings) {
            Ok(plan) => Ok(self.open_plan(plan, sources)?.client),
            Err(error) if error.kind() == Why::NeedsTerminal => {
                let fails = move |_: &_| Err(error.clone());
                self.build(target, Source::from_fetch(fails, Arc::new(SystemClock)))
            }
            Err(error) => Err(Error::config(error)),
        }
    }

    /// A client as a plan says, with the credentials that `sources` has for it. Runs no plugin and opens
    /// no connection.
    ///
    /// Fails when the kubeconfig's URLs, names or certificates cannot be used.
    pub fn open_plan(self, plan: Plan, sources: &Sources) -> Result<Opened, Error> {
        let source = sources.open(&plan);
        Ok(Opened { client: self.build(plan.target(), source.clone())?, source, plan })
    }

    /// A client of the target's cluster with the source's credentials. Opens no connection.
    ///
    /// Fails when the kubeconfig's URLs, names or certificates cannot be used.
    pub fn build(self, target: &Target, source: Source) -> Result<Client, Error> {
        let origin = Origin::parse(&target.cluster.value.server)?;
        let trust = Trust::of(target, provider_or_default(self.provider)?)?;
        let connector = Connector::new(
            origin.clone(),
            trust,
            &target.cluster.value.proxy_url,
            &self.surroundings,
            self.connect,
        )?
        .traced(&self.tracer);
        let agent = self
            .user_agent
            .unwrap_or_else(|| concat!("keyward/", env!("CARGO_PKG_VERSION")).to_owned());
        let agent = HeaderValue::from_str(&agent).map_err(|error| {
            Error::because(Kind::BadConfig, "the user agent cannot be sent", error)
        })?;
        let compression = !self.bare && !target.cluster.value.disable_compression;
        let agent = (!self.bare).then_some(agent);
        let defaults = DefaultHeaders::new(agent, &target.user.value.impersonate, compression)?;
        Ok(Client(Arc::new(Inner {
            config: Arc::new(Config {
                source,
                origin,
                replay: self.replay,
                refresh_on_403: self.refresh_on_403,
                outcomes: Arc::default(),
            }),
            generations: Generations::new(Arc::new(connector), self.pool),
            defaults,
            limit: self.limit,
        })))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("connect", &self.connect)
            .field("limit", &self.limit)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
