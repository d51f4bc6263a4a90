//! Starts a proxy from its options, and ends it.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keyward_host::{Kubeconfig, Sources};
use keyward_process::{
    clock::{Clock, SystemClock},
    surroundings::Surroundings,
};
use keyward_protocol::url::mask;
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

use crate::{
    Allowed, Config, Error,
    admin::Admin,
    certificates::Authority,
    context::ServedContext,
    directory::Directory,
    gate::Gate,
    kubeconfig::{self, Entry, Written},
    metrics::Metrics,
    names::{self, Names},
    ports::Ports,
    reload::{self, ReloadStats, Reloader},
    report::Report,
    request_stats::Activity,
    route::{Route, Routes},
    server::{self, Acceptor, Listener, Stage},
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
        }
    }
}

/// A proxy that serves until it is dropped.
pub struct Proxy {
    stage: watch::Sender<Stage>,
    serving: JoinSet<()>,
    /// Admin and reload; they end with the proxy.
    _helpers: JoinSet<()>,
    activity: Arc<Activity>,
    report: Arc<Report>,
    current: Arc<ServedContext>,
    metrics_url: Option<String>,
    /// Removes the file.
    _kubeconfig: Written,
    /// Last, so that it is removed after everything in it.
    _directory: Directory,
}

impl Proxy {
    /// Listens, writes the clients' kubeconfig and starts to serve. Runs no plugin.
    pub async fn start(options: &Options, config: Arc<dyn Config>) -> Result<Self, Error> {
        let remote = options.danger_listen_remote.as_deref();
        names::check([Some(options.listen), options.admin].into_iter().flatten(), remote)?;
        // Before they are read, so that a change in between is noticed.
        let files = reload::files(&*config);
        let kubeconfig = config.kubeconfig()?;
        let metrics = Arc::new(Metrics::default());
        let routes = Routes {
            config: config.clone(),
            sources: Sources::new(Arc::new(SystemClock), metrics.host.clone()),
            refresh_on_403: options.refresh_on_403,
        };
        let (opened, current) = open_contexts(&options.contexts, &kubeconfig, &routes)?;
        let surroundings = config.surroundings();
        let directory = Directory::make(surroundings)?;
        let activity = Activity::new();
        let authority = Authority::new().map_err(unsigned)?;
        let (listeners, names) = listen(options, opened, &current, &activity, surroundings)?;
        let mut certificates = Vec::new();
        for _ in &listeners {
            certificates.push(authority.client().map_err(unsigned)?);
        }
        let contexts: Vec<_> = listeners.iter().map(|listener| listener.context.clone()).collect();
        let by_certificate: HashMap<_, _> = certificates
            .iter()
            .zip(&contexts)
            .map(|(client, context)| (client.certificate.clone(), context.clone()))
            .collect();
        let identity = authority.listener(names.certificate()).map_err(unsigned)?;
        let acceptor = Acceptor::new(&authority, identity, by_certificate, metrics.clone())
            .map_err(|error| broken("the proxy's certificates", &error))?;
        let entries: Vec<Entry<'_>> = contexts
            .iter()
            .zip(&certificates)
            .map(|(context, certificate)| Entry { context, certificate })
            .collect();
        let text = kubeconfig::compose(authority.pem(), &entries, &current);
        let path = options.kubeconfig.clone().unwrap_or_else(|| directory.kubeconfig());
        let written =
            directory.alone(|| kubeconfig::write(&path, &text, &kubeconfig, surroundings))?;
        let current = contexts
            .iter()
            .find(|context| context.name == current)
            .cloned()
            .ok_or_else(no_context)?;
        let report = Arc::new(Report {
            url: current.url.clone(),
            kubeconfig: written.path.clone(),
            contexts: contexts.clone(),
            reloads: ReloadStats::new(),
            metrics,
            started: SystemClock.now(),
        });
        let remote = options.danger_listen_remote.as_deref();
        let admin = Admin::bind(&directory.socket(), options.admin, remote).await?;
        let metrics_url = admin.metrics_url();
        let (stage, watched) = watch::channel(Stage::Serving);
        let mut serving = JoinSet::new();
        serving.spawn(server::serve(Arc::new(acceptor), listeners, watched));
        let mut helpers = admin.serve(report.clone());
        helpers.spawn(Reloader::new(files, routes, contexts, report.reloads.clone()).run());
        Ok(Self {
            stage,
            serving,
            _helpers: helpers,
            activity,
            report,
            current,
            metrics_url,
            _kubeconfig: written,
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

    /// How many requests and streams are open.
    pub fn open_requests(&self) -> u64 {
        self.activity.open_requests()
    }

    /// Returns when no request has been open for this long.
    pub async fn idle(&self, limit: Duration) {
        self.activity.idle_for(limit).await;
    }

    /// Stops listening. Open requests continue.
    pub fn drain(&self) {
        self.stage.send_replace(Stage::Draining);
    }

    /// Returns, after [`drain`](Self::drain), when the last connection and the last stream have ended.
    pub async fn finished(&mut self) {
        while self.serving.join_next().await.is_some() {}
        while self.activity.open_requests() > 0 {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The routes of the chosen contexts, and the name of the current one.
fn open_contexts(
    contexts: &Contexts,
    kubeconfig: &Kubeconfig,
    routes: &Routes,
) -> Result<(Vec<Route>, String), Error> {
    let open = |name: Option<&str>| routes.open(routes.config.target(kubeconfig, name)?);
    let mut opened = Vec::new();
    match contexts {
        Contexts::Current => opened.push(open(None)?),
        Contexts::Named(names) => {
            for name in names {
                opened.push(open(Some(name))?);
            }
        }
        Contexts::All => {
            for context in &kubeconfig.contexts {
                match open(Some(&context.name)) {
                    Ok(route) => opened.push(route),
                    // One broken context of many must not stop the others.
                    Err(error) => {
                        tracing::warn!("context `{}` is not served: {error}", context.name);
                    }
                }
            }
        }
    }
    let named = opened
        .iter()
        .find(|route| *contexts == Contexts::All && route.name() == kubeconfig.current_context);
    let current = named.or(opened.first()).ok_or_else(no_context)?.name().to_owned();
    Ok((opened, current))
}

/// A listener for each context, and the names that all share.
fn listen(
    options: &Options,
    routes: Vec<Route>,
    current: &str,
    activity: &Arc<Activity>,
    surroundings: &Surroundings,
) -> Result<(Vec<Listener>, Names), Error> {
    let remote = options.danger_listen_remote.as_deref();
    let mut ports = Ports::open(surroundings);
    let mut listeners = Vec::new();
    let mut first = None;
    for route in routes {
        let socket = bind(options.listen, &route, current, &mut ports)?;
        let address = socket.local_addr().map_err(|error| broken("the listener", &error))?;
        let names = Names::new(address, remote);
        let gate = Gate {
            names: names.hosts.clone(),
            scheme: http::uri::Scheme::HTTPS,
            allowed: options.allowed,
        };
        let url = format!("https://{}", names.first());
        let context = Arc::new(ServedContext::new(route, url, activity));
        listeners.push(Listener { socket, gate: Arc::new(gate), context });
        first.get_or_insert(names);
    }
    ports.keep();
    Ok((listeners, first.ok_or_else(no_context)?))
}

/// The listener of a context. A requested address is for the current context; each of the others
/// has its own port.
fn bind(
    address: SocketAddr,
    route: &Route,
    current: &str,
    ports: &mut Ports,
) -> Result<TcpListener, Error> {
    let bound = if address.port() != 0 && route.name() == current {
        std::net::TcpListener::bind(address)
    } else {
        ports.bind(address.ip(), route.name(), &mask(&route.target.cluster.value.server))
    };
    bound
        .and_then(|socket| {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        })
        .map_err(|error| {
            Error::failed(format!("cannot listen on `{address}`")).note("cause", error.to_string())
        })
}

fn no_context() -> Error {
    Error::failed("no context to serve")
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` asks for")]
fn unsigned(error: rcgen::Error) -> Error {
    broken("the proxy's certificates", &error)
}

fn broken(what: &str, error: &dyn std::error::Error) -> Error {
    Error::failed(format!("cannot create {what}")).note("cause", error.to_string())
}
