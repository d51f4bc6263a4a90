//! Starts a proxy from its options, and ends it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyward_host::Sources;
use keyward_process::clock::{Clock, SystemClock};
use keyward_protocol::agent::ProxyContext;
use serde_json::Value;
use tokio::{sync::watch, task::JoinSet};

use crate::{
    Allowed, Config, Error, Service,
    activity::Activity,
    admin::Admin,
    context::{ServedContext, ServedContexts},
    dashboard::Dashboard,
    directory::Directory,
    grants::Grants,
    kubeconfig::Written,
    metrics::Metrics,
    names,
    reload::{ReloadStats, Reloader, WatchedFiles},
    report::Report,
    route::{Route, Routes},
    server::{self, Acceptor},
    site::{Site, broken, service_site, site},
};

/// How often open requests are counted.
const POLL: Duration = Duration::from_millis(100);

/// The options of a proxy.
#[derive(Debug, Clone)]
pub struct Options {
    /// The contexts of the kubeconfig to serve.
    pub contexts: Contexts,
    /// Where to listen. A port other than 0 is for the current context; with port 0 each context
    /// has its own, which stays the same between starts.
    pub listen: SocketAddr,
    /// Where to write the clients' kubeconfig, instead of a private directory. It is deleted at the
    /// end.
    pub kubeconfig: Option<PathBuf>,
    /// Also serves `/metrics` and `/healthz` here, without TLS.
    pub admin: Option<SocketAddr>,
    /// Exceptions to what is refused by default.
    pub allowed: Allowed,
    /// Listens on addresses other than loopback, under these names.
    pub danger_listen_remote: Option<Vec<String>>,
    /// Also gets a new credential when a server answers 403.
    pub refresh_on_403: bool,
    /// Serves all contexts of a service, whose kubeconfig and addresses stay. Then
    /// [`contexts`](Self::contexts), [`kubeconfig`](Self::kubeconfig) and the port of
    /// [`listen`](Self::listen) do not count.
    pub service: Option<Service>,
}

/// Selects the contexts to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contexts {
    /// The current one.
    Current,
    /// The contexts with these names.
    Named(Vec<String>),
    /// Every context that can be used; a warning names the others.
    All,
    /// The current one, and every other for clients that ask for it. One that cannot be used answers
    /// why.
    Every,
}

impl Default for Options {
    /// The current context on a loopback port.
    fn default() -> Self {
        Self {
            contexts: Contexts::Current,
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            kubeconfig: None,
            admin: None,
            allowed: Allowed::default(),
            danger_listen_remote: None,
            refresh_on_403: false,
            service: None,
        }
    }
}

/// A proxy that serves until it is dropped.
pub struct Proxy {
    shutdown: watch::Sender<bool>,
    serving: JoinSet<()>,
    /// Admin and reload; they end with the proxy.
    _helpers: JoinSet<()>,
    activity: Arc<Activity>,
    report: Arc<Report>,
    current: Arc<ServedContext>,
    contexts: Arc<ServedContexts>,
    grants: Grants,
    metrics_url: Option<String>,
    /// Closed when nothing listens any more.
    listening: watch::Receiver<()>,
    /// Removes the file.
    _kubeconfig: Option<Written>,
    /// Last, so that it is removed after everything in it.
    _directory: Directory,
}

/// What clients of a service need.
#[derive(Clone)]
pub struct Clients(Arc<ServedContexts>);

impl Clients {
    /// A number that grows when [`list`](Self::list) changes.
    pub fn version(&self) -> u64 {
        self.0.version()
    }

    /// Clients get what [`list`](Self::list) was at this version. Only then are new contexts written
    /// into their kubeconfig.
    pub fn told(&self, version: u64) {
        self.0.set_told(version);
    }

    /// The contexts, with the certificates that admit clients to them.
    pub fn list(&self) -> Vec<ProxyContext> {
        self.0.for_clients()
    }
}

impl Proxy {
    /// Listens, writes the clients' kubeconfig and starts to serve. Runs no plugin.
    pub async fn start(options: &Options, config: Arc<dyn Config>) -> Result<Self, Error> {
        let remote = options.danger_listen_remote.as_deref();
        names::check([Some(options.listen), options.admin].into_iter().flatten(), remote)?;
        let served = options.service.as_ref().map_or(&options.contexts, |_| &Contexts::All);
        let (files, kubeconfig) = WatchedFiles::read(&*config, served);
        let metrics = Arc::new(Metrics::default());
        let routes = Routes {
            config: config.clone(),
            sources: Sources::new(Arc::new(SystemClock), metrics.host.clone()),
            refresh_on_403: options.refresh_on_403,
        };
        let activity = Activity::new();
        let (site, directory) = match &options.service {
            Some(service) => {
                let site = service_site(service, options, kubeconfig, &routes, &activity).await?;
                (site, Directory::make(config.surroundings())?)
            }
            None => site(options, &kubeconfig?, &routes, &activity)?,
        };
        let Site { contexts, current, listeners, more, identity, clients, .. } = site;
        let service = options.service.as_ref();
        let grants = Grants::of(service, config.surroundings(), contexts.clone());
        // Before the first client comes.
        grants.reload();
        let kept = (contexts.clone(), grants.clone());
        let acceptor = Acceptor::new(&clients, identity, kept, metrics.clone())
            .map_err(|error| broken("the proxy's certificates", &error))?;
        let report = Arc::new(Report {
            service: options.service.as_ref().map(|service| service.name().to_owned()),
            url: current.url.clone(),
            kubeconfig: site.kubeconfig,
            contexts: contexts.clone(),
            grants: grants.clone(),
            reloads: ReloadStats::new(),
            metrics,
            started: SystemClock.now(),
        });
        let admin = Admin::bind(&directory.socket(), options.admin, remote).await?;
        let metrics_url = admin.metrics_url();
        let (shutdown, watched) = watch::channel(false);
        let (listening, silent) = watch::channel(());
        let mut serving = JoinSet::new();
        serving.spawn(server::serve(Arc::new(acceptor), listeners, more, watched, listening));
        let dashboard = Dashboard::new(report.clone());
        let mut helpers = admin.serve(report.clone(), dashboard);
        let reloader = Reloader {
            files,
            routes,
            contexts: contexts.clone(),
            reloads: report.reloads.clone(),
            growth: site.growth,
        };
        helpers.spawn(grants.clone().watch());
        helpers.spawn(reloader.run());
        Ok(Self {
            shutdown,
            serving,
            _helpers: helpers,
            activity,
            report,
            current,
            contexts,
            grants,
            metrics_url,
            listening: silent,
            _kubeconfig: site.written,
            _directory: directory,
        })
    }

    /// The address of the current context.
    pub fn url(&self) -> &str {
        &self.report.url
    }

    /// The clients' kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.report.kubeconfig
    }

    /// The URL of the metrics, if [`Options::admin`] set a port.
    pub fn metrics_url(&self) -> Option<&str> {
        self.metrics_url.as_deref()
    }

    /// The contexts served, their users and expiries; docs/cli.md has the schema.
    pub fn status(&self) -> Value {
        self.report.status()
    }

    /// Gets the credential of the current context now if its plugin may prompt at the terminal. An
    /// error here is not reported: it happens again, explained, for the client that needs the
    /// credential.
    pub async fn log_in(&self) {
        if let Some(route) = self.current.route().filter(|route| route.asks) {
            let _ = route.source.credential().await;
        }
    }

    /// Opens a connection to each server for which an external signer signs, so that signers ask for
    /// their PINs now. An error is not reported, as with [`log_in`](Self::log_in).
    pub async fn unlock_signers(&self) {
        let mut asked: Vec<Arc<Route>> = Vec::new();
        let routes: Vec<_> = self.contexts.all().iter().filter_map(|one| one.route()).collect();
        for route in routes.into_iter().filter(|route| route.signs()) {
            if asked.iter().all(|known| !known.source.same(&route.source)) {
                let _ = route.client.get("/version").await;
                asked.push(route);
            }
        }
    }

    /// What clients of a service need for each context.
    pub fn clients(&self) -> Clients {
        Clients(self.contexts.clone())
    }

    /// The grants that it enforces. Only a service has any.
    pub fn grants(&self) -> &Grants {
        &self.grants
    }

    /// Returns, after [`drain`](Self::drain), when nothing listens any more.
    pub async fn silent(&mut self) {
        while self.listening.changed().await.is_ok() {}
    }

    /// How many requests and streams are open.
    pub fn open_requests(&self) -> u64 {
        self.activity.open_requests()
    }

    /// Returns when no request has been open for this long.
    pub async fn wait_until_idle(&self, limit: Duration) {
        self.activity.idle_for(limit).await;
    }

    /// Stops listening. Open requests continue.
    pub fn drain(&self) {
        self.shutdown.send_replace(true);
    }

    /// Returns, after [`drain`](Self::drain), when the last connection and the last stream have ended.
    pub async fn finished(&mut self) {
        while self.serving.join_next().await.is_some() {}
        while self.activity.open_requests() > 0 {
            tokio::time::sleep(POLL).await;
        }
    }
}
