use std::{fmt, sync::Arc, time::Duration};

use http::HeaderValue;
use keyward_host::{
    Kind as Why, Kubeconfig, Overrides, Plan, Source, Sources, Target, plan, rules::Rules,
};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use rustls::crypto::CryptoProvider;

use super::{Client, Inner, headers::Defaults};
use crate::{
    Error, Origin,
    bearer::{Accepted, Guard},
    connect::Connector,
    error::Kind,
    generation::Generations,
    identity::{Trust, default_provider},
    oidc::Https,
    pool,
};

/// Sets up a [`Client`]. The times are client-go's where it has them.
#[derive(Clone)]
pub struct Builder {
    provider: Option<Arc<CryptoProvider>>,
    surroundings: Surroundings,
    plan: plan::Settings,
    user_agent: Option<String>,
    connect: Duration,
    limit: Option<Duration>,
    pool: pool::Settings,
    replay: bool,
    on_403: bool,
    bare: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            provider: None,
            surroundings: Surroundings::process(),
            plan: plan::Settings::default(),
            user_agent: None,
            connect: Duration::from_secs(30),
            limit: None,
            pool: pool::Settings::default(),
            replay: true,
            on_403: false,
            bare: false,
        }
    }
}

impl Builder {
    /// Another cryptography than the crate's own (`ring`, unless that feature is off).
    #[must_use]
    pub fn provider(mut self, provider: Arc<CryptoProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// What plugins stand in, and where `HTTPS_PROXY` and its relatives are read: this process,
    /// unless said otherwise.
    #[must_use]
    pub fn surroundings(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = surroundings;
        self
    }

    /// How plugins are run, see [`Builder::open`].
    #[must_use]
    pub fn plan(mut self, settings: plan::Settings) -> Self {
        self.plan = settings;
        self
    }

    /// The `User-Agent` of requests that have none.
    #[must_use]
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = Some(name.into());
        self
    }

    /// How long a connection may take, proxy and handshake included: 30 s unless said otherwise.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect = limit;
        self
    }

    /// How long a response may take, from the call to its headers, the provider's run included. A
    /// body may take its time: a watch has no end. No limit unless said otherwise.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// After how long an unused connection is closed: 90 s unless said otherwise.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.pool.idle = limit;
        self
    }

    /// After how long what is still open under an old certificate, such as a watch, is cut. Never,
    /// unless said otherwise: the server ends it sooner or later.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.pool.drain = Some(limit);
        self
    }

    /// After how long without a word an HTTP/2 connection with open streams is asked whether it is
    /// there, and how long it has to answer: 30 s and 15 s unless said otherwise, `None` never.
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
        self.on_403 = true;
        self
    }

    /// Adds nothing to requests but the credential and whom the kubeconfig's user acts as, and gives
    /// responses as they come, packed ones too: for a proxy, whose clients say the rest themselves.
    #[must_use]
    pub fn without_defaults(mut self) -> Self {
        self.bare = true;
        self
    }

    /// The client that kubectl would be, and what it is for: `$KUBECONFIG` or `~/.kube/config`, this
    /// context of it or the current one. Runs nothing, connects to nobody. All clients made this
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

    /// A client of the target's cluster as the target's user. Runs nothing, connects to nobody.
    ///
    /// Fails when the kubeconfig asks for something that cannot be done. A plugin that needs a
    /// person where there is none is a matter of the requests: they fail with that.
    pub fn open(self, target: &Target, rules: &Rules, sources: &Sources) -> Result<Client, Error> {
        let mut settings = self.plan.clone();
        settings.exchange.get_or_insert_with(Https::shared);
        let source = match Plan::new(target.clone(), rules, &self.surroundings, settings) {
            Ok(plan) => sources.open(&plan),
            Err(error) if error.kind() == Why::NeedsTerminal => {
                Source::from_fetch(move |_: &_| Err(error.clone()), Arc::new(SystemClock))
            }
            Err(error) => return Err(Error::config(error)),
        };
        self.build(target, source)
    }

    /// A client of the target's cluster under the source's credentials. Connects to nobody.
    ///
    /// Fails when the kubeconfig's URLs, names or certificates cannot be used.
    pub fn build(self, target: &Target, source: Source) -> Result<Client, Error> {
        let origin = Origin::parse(&target.cluster.server)?;
        let provider = self
            .provider
            .or_else(default_provider)
            .ok_or_else(|| Error::new(Kind::BadConfig, "no cryptography provider was given"))?;
        let trust = Trust::of(target, provider)?;
        let connector = Connector::new(
            origin.clone(),
            trust,
            &target.cluster.proxy_url,
            &self.surroundings,
            self.connect,
        )?;
        let agent = self
            .user_agent
            .unwrap_or_else(|| concat!("keyward/", env!("CARGO_PKG_VERSION")).to_owned());
        let agent = HeaderValue::from_str(&agent).map_err(|error| {
            Error::because(Kind::BadConfig, "the user agent cannot be sent", error)
        })?;
        let compression = !self.bare && !target.cluster.disable_compression;
        let agent = (!self.bare).then_some(agent);
        let defaults = Defaults::new(agent, &target.user.impersonate, compression)?;
        Ok(Client(Arc::new(Inner {
            guard: Arc::new(Guard {
                source,
                origin,
                replay: self.replay,
                on_403: self.on_403,
                accepted: Accepted::default(),
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
