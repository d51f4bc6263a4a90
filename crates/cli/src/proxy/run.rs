//! From the options to a proxy that serves, and to its end.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use keyward_host::{Kubeconfig, Sources};
use keyward_process::harden;
use keyward_process::{clock::SystemClock, runner};
use keyward_protocol::url::mask;
use rcgen::SanType;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::ServerName;
use tokio::{
    net::TcpListener,
    sync::{mpsc::UnboundedReceiver, watch},
};

use super::{
    Options, admin, command, contexts,
    folder::Folder,
    gate::Gate,
    kubeconfig::{self, Entry, Written},
    meter::Activity,
    pass::Authority,
    ports::Ports,
    reload::{self, Follower, Versions},
    report::Report,
    route::Route,
    serve::{self, Door, Listener, Stage},
    served::Served,
    stop::{self, Heard},
    tally::Tally,
};
use crate::{
    failure::Failure,
    globals::Globals,
    output::{self, inline},
};

/// How long plugins may take to die.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// How often idleness and the last flights are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Serves until told to stop, or until the command has ended.
pub(crate) fn run(options: &Options, globals: &Globals) -> Result<ExitCode, Failure> {
    harden::raise_descriptors();
    let signals = stop::listen();
    let done = start(options, globals, signals);
    // Plugins that are under way, and those that stay, end with us.
    runner::shut_down(LAST_BREATH);
    done
}

fn start(
    options: &Options,
    globals: &Globals,
    signals: UnboundedReceiver<Heard>,
) -> Result<ExitCode, Failure> {
    check_listen(options)?;
    raise_descriptors();
    // Before they are read: a change in between is noticed.
    let files = reload::files(globals);
    let config = globals.kubeconfig()?;
    let tally = Arc::new(Tally::new());
    let sources = Sources::new(Arc::new(SystemClock), tally.clone());
    let activity = Activity::new();
    let (routes, current) = contexts::open(options, &config, globals, &sources)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers())
        .thread_name("proxy")
        .enable_all()
        .build()
        .map_err(|error| broken("the runtime", &error))?;
    let code = runtime.block_on(async {
        let proxy =
            Proxy::open(options, globals, &config, (routes, &current), tally, &activity).await?;
        let (served, versions) = (proxy.report.served.clone(), proxy.report.versions.clone());
        let follower =
            Follower::new(files, globals, sources, options.refresh_on_403, served, versions);
        let following = tokio::spawn(follower.run());
        let code = proxy.live(options, globals, activity, signals).await;
        following.abort();
        code
    });
    // A resolver or a file may keep a thread busy; nobody waits for it.
    runtime.shutdown_background();
    code
}

/// What stands while the proxy runs.
struct Proxy {
    door: Arc<Door>,
    listeners: Vec<Listener>,
    kubeconfig: Written,
    admin: admin::Admin,
    report: Arc<Report>,
    current: String,
    /// Last, so that it goes when everything in it has.
    _folder: Folder,
}

impl Proxy {
    async fn open(
        options: &Options,
        globals: &Globals,
        config: &Kubeconfig,
        (routes, current): (Vec<Route>, &str),
        tally: Arc<Tally>,
        activity: &Arc<Activity>,
    ) -> Result<Self, Failure> {
        let folder = Folder::make(&globals.surroundings)?;
        let unsigned = |error: rcgen::Error| broken("the throw-away certificates", &error);
        let authority = Authority::new().map_err(unsigned)?;
        let mut names = Vec::new();
        let mut listeners = Vec::new();
        let mut passes = Vec::new();
        let mut ports = Ports::open(&globals.surroundings);
        for route in routes {
            let socket = bind(options, &route, current, &mut ports)?;
            let address = socket.local_addr().map_err(|error| broken("the listener", &error))?;
            let own = Names::of(options, address);
            let gate = Gate {
                names: own.hosts.clone(),
                scheme: http::uri::Scheme::HTTPS,
                allowed: options.allowed,
            };
            let namespace = route.target.namespace.clone();
            let served = Arc::new(Served::new(route, own.url(), activity));
            passes.push((served.clone(), namespace, authority.pass().map_err(unsigned)?));
            listeners.push(Listener { socket, gate: Arc::new(gate), served });
            names.push(own);
        }
        ports.keep();
        let names = names.first().map(Names::certificate).unwrap_or_default();
        let identity = authority.listener(names).map_err(unsigned)?;
        let by_certificate: HashMap<_, _> = passes
            .iter()
            .map(|(served, _, pass)| (pass.certificate.clone(), served.clone()))
            .collect();
        let door = Door::new(&authority, identity, by_certificate, tally.clone())
            .map_err(|error| broken("the throw-away certificates", &error))?;
        let entries: Vec<Entry<'_>> = passes
            .iter()
            .map(|(served, namespace, pass)| Entry { served, namespace, pass })
            .collect();
        let text = kubeconfig::compose(authority.pem(), &entries, current);
        let path = options.kubeconfig.clone().unwrap_or_else(|| folder.kubeconfig());
        let kubeconfig =
            folder.alone(|| kubeconfig::write(&path, &text, config, &globals.surroundings))?;
        let served: Vec<Arc<Served>> = passes.into_iter().map(|(served, ..)| served).collect();
        let report = Arc::new(Report {
            url: url(&served, current),
            kubeconfig: kubeconfig.path.clone(),
            served,
            versions: Versions::new(),
            tally,
            started: report_start(),
        });
        let admin = admin::Admin::bind(&folder.socket(), options.admin).await?;
        let (door, current) = (Arc::new(door), current.to_owned());
        Ok(Self { door, listeners, kubeconfig, admin, report, current, _folder: folder })
    }

    async fn live(
        self,
        options: &Options,
        globals: &Globals,
        activity: Arc<Activity>,
        mut signals: UnboundedReceiver<Heard>,
    ) -> Result<ExitCode, Failure> {
        let (stage, watched) = watch::channel(Stage::Serving);
        let mut serving = tokio::spawn(serve::serve(self.door.clone(), self.listeners, watched));
        let names = self.admin.address().map(|address| Names::of(options, address));
        if let Some(names) = &names {
            output::tell(&format!("metrics http://{}/metrics\n", names.first()));
        }
        let hosts = names.map(|names| names.hosts).unwrap_or_default();
        let _admin = self.admin.serve(self.report.clone(), hosts);
        if !options.command.is_empty() {
            output::never_wait();
            // While the terminal is still ours. What is wrong, whoever asks for something is told.
            let current = self.report.served.iter().find(|served| served.name == self.current);
            if let Some(route) =
                current.and_then(|served| served.route()).filter(|route| route.asks)
            {
                tokio::select! {
                    _ = route.source.credential() => {}
                    Some(heard) = signals.recv() => {
                        return Ok(ExitCode::from(command::signalled(heard.signal)));
                    }
                }
            }
            return command::run(&options.command, &self.kubeconfig.path, globals, signals).await;
        }
        let path = self.kubeconfig.path.display().to_string();
        output::tell(&format!("ready {} {path}\n", self.report.url));
        output::print(&format!("export KUBECONFIG={}\n", output::quoted(&path)))?;
        output::never_wait();
        let idle = idle(options.idle, &activity);
        tokio::select! {
            _ = signals.recv() => {}
            () = idle => tracing::info!("nothing was asked for, so this is the end"),
        }
        stage.send_replace(Stage::Draining);
        let open = activity.flights();
        if open > 0 {
            output::tell(&format!(
                "finishing {open} requests, for {} at most; ask again to end at once\n",
                crate::duration::show(options.grace)
            ));
        }
        tokio::select! {
            () = finished(&mut serving, &activity) => {}
            () = tokio::time::sleep(options.grace) => {}
            _ = signals.recv() => {}
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns when there was nothing to do for so long.
async fn idle(limit: Option<Duration>, activity: &Activity) {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    loop {
        let left = limit.saturating_sub(activity.idle());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.max(LOOK)).await;
    }
}

/// Returns when the last connection has ended, and the last tunnel.
async fn finished(serving: &mut tokio::task::JoinHandle<()>, activity: &Activity) {
    let _ = serving.await;
    while activity.flights() > 0 {
        tokio::time::sleep(LOOK).await;
    }
}

/// What clients call us.
struct Names {
    first: usize,
    /// As they stand in a `Host` header.
    hosts: Vec<String>,
    bare: Vec<String>,
}

impl Names {
    fn of(options: &Options, address: SocketAddr) -> Self {
        let port = address.port();
        let host = |ip: IpAddr| SocketAddr::new(ip, port).to_string();
        let own = match address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let remote: Vec<String> = options.remote.iter().flatten().cloned().collect();
        let remote: Vec<String> = remote.into_iter().filter(|name| !name.is_empty()).collect();
        let mut hosts = vec![host(own), format!("localhost:{port}")];
        let mut bare = vec![own.to_string(), "localhost".to_owned()];
        for name in &remote {
            hosts.push(match name.parse::<IpAddr>() {
                Ok(ip) => host(ip),
                Err(_) => format!("{name}:{port}"),
            });
            bare.push(name.clone());
        }
        Self { first: if remote.is_empty() { 0 } else { 2 }, hosts, bare }
    }

    /// The one that clients are told: one that was given, or else the address.
    fn first(&self) -> &str {
        &self.hosts[self.first]
    }

    fn url(&self) -> String {
        format!("https://{}", self.first())
    }

    fn certificate(&self) -> Vec<SanType> {
        self.bare
            .iter()
            .filter_map(|name| match name.parse::<IpAddr>() {
                Ok(ip) => Some(SanType::IpAddress(ip)),
                Err(_) => name.as_str().try_into().ok().map(SanType::DnsName),
            })
            .collect()
    }
}

fn check_listen(options: &Options) -> Result<(), Failure> {
    let names = options.remote.iter().flatten().filter(|name| !name.is_empty());
    for name in names {
        if ServerName::try_from(name.as_str()).is_err() {
            return Err(Failure::usage(format!("`{}` is not the name of a machine", inline(name)))
                .hint("`--danger-listen-remote=NAME,…` takes names and addresses, without ports"));
        }
    }
    let addresses = [Some(options.listen), options.admin].into_iter().flatten();
    for address in addresses {
        if !address.ip().is_loopback() && options.remote.is_none() {
            return Err(Failure::usage(format!("`{address}` can be reached from other machines"))
                .hint("`--danger-listen-remote=NAME` allows it"));
        }
    }
    Ok(())
}

/// The listener of a context. An address that was asked for is the current context's, and each of the others
/// has a port of its own.
fn bind(
    options: &Options,
    route: &Route,
    current: &str,
    ports: &mut Ports,
) -> Result<TcpListener, Failure> {
    let address = options.listen;
    let bound = if address.port() != 0 && route.name() == current {
        std::net::TcpListener::bind(address)
    } else {
        ports.bind(address.ip(), route.name(), &mask(&route.target.cluster.server))
    };
    bound
        .and_then(|socket| {
            socket.set_nonblocking(true)?;
            TcpListener::from_std(socket)
        })
        .map_err(|error| {
            Failure::failed(format!("cannot listen on `{address}`"))
                .note("cause", error.to_string())
        })
}

/// The address of the current context.
fn url(served: &[Arc<Served>], current: &str) -> String {
    let current = served.iter().find(|served| served.name == current);
    current.map(|served| served.url.clone()).unwrap_or_default()
}

fn broken(what: &str, error: &dyn std::error::Error) -> Failure {
    Failure::failed(format!("{what} could not be made")).note("cause", error.to_string())
}

fn report_start() -> jiff::Timestamp {
    use keyward_process::clock::Clock;

    SystemClock.now()
}

/// Each client takes a descriptor, and each stream of its own to a server another one: the usual 1,024 would
/// let one busy client keep all others out. No more than this, because some programs that we start
/// close every number up to their limit.
fn raise_descriptors() {
    const ENOUGH: u64 = 65_536;
    let now = getrlimit(Resource::Nofile);
    let wanted = now.maximum.map_or(ENOUGH, |most| most.min(ENOUGH));
    if now.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: now.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit on open files stays as it is");
        }
    }
}

/// Half of the machine, four at most: the clients and their programs need the rest. More threads hand
/// requests to each other, which costs more than it gives (seen on two cores: one thread needs a
/// quarter less time for a request than two).
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 4))
}
