//! What a proxy serves: the contexts with their listeners and certificates, and the clients' kubeconfig.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use keyward_host::Kubeconfig;
use keyward_process::surroundings::Surroundings;
use keyward_protocol::url::mask;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::mpsc;

use crate::{
    Contexts, Error, Options, Service,
    activity::Activity,
    certificates::{Authority, ListenerIdentity},
    context::{Opening, ServedContext, ServedContexts, State},
    directory::Directory,
    growth::{self, Growth},
    kubeconfig::{self, Written},
    names::Names,
    ports::Ports,
    route::Routes,
    server::Listener,
    service::write_private,
    service_kubeconfig,
};

/// How long a client may hold the lock of a service's kubeconfig while the service starts.
const CLIENT_WRITES: Duration = Duration::from_secs(2);

/// How often it is tried again meanwhile.
const POLL: Duration = Duration::from_millis(50);

/// What a proxy serves, and how clients know it.
pub(crate) struct Site {
    pub(crate) contexts: Arc<ServedContexts>,
    pub(crate) current: Arc<ServedContext>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) more: mpsc::UnboundedReceiver<Listener>,
    /// What the listeners show.
    pub(crate) identity: (CertificateDer<'static>, PrivateKeyDer<'static>),
    /// Signed the clients' certificates.
    pub(crate) clients: CertificateDer<'static>,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) written: Option<Written>,
    pub(crate) growth: Option<Growth>,
}

/// The chosen contexts of the kubeconfig, with a private directory.
pub(crate) fn site(
    options: &Options,
    kubeconfig: &Kubeconfig,
    routes: &Routes,
    activity: &Arc<Activity>,
) -> Result<(Site, Directory), Error> {
    let surroundings = routes.config.surroundings();
    let (opened, current) = open_contexts(&options.contexts, kubeconfig, routes)?;
    let directory = Directory::make(surroundings)?;
    let authority = Authority::new().map_err(unsigned)?;
    let (listeners, names) = listen(options, opened, &current, &authority, activity, surroundings)?;
    let all: Vec<_> = listeners.iter().map(|listener| listener.context.clone()).collect();
    let identity = authority.listener(names.certificate()).map_err(unsigned)?;
    let text = kubeconfig::compose(&authority.pem, &all, &current);
    let path = options.kubeconfig.clone().unwrap_or_else(|| directory.kubeconfig());
    let written = directory.alone(|| kubeconfig::write(&path, &text, kubeconfig, surroundings))?;
    let current = all.iter().find(|context| context.name == current).cloned();
    let site = Site {
        current: current.ok_or_else(no_context)?,
        contexts: ServedContexts::new(all),
        listeners,
        // Nobody sends any.
        more: mpsc::unbounded_channel().1,
        clients: authority.der,
        identity,
        kubeconfig: written.path.clone(),
        written: Some(written),
        growth: None,
    };
    Ok((site, directory))
}

/// All contexts of a service, at the addresses and with the kubeconfig that its clients know.
pub(crate) async fn service_site(
    service: &Service,
    options: &Options,
    kubeconfig: Result<Kubeconfig, Error>,
    routes: &Routes,
    activity: &Arc<Activity>,
) -> Result<Site, Error> {
    let identity = listener_identity(service, options)?;
    let (listeners, more) = mpsc::unbounded_channel();
    let mut growth = Growth {
        service: service.clone(),
        surroundings: routes.config.surroundings().clone(),
        ip: options.listen.ip(),
        allowed: options.allowed,
        authority: Authority::new().map_err(unsigned)?,
        listener_authority: identity.authority.clone(),
        contexts: ServedContexts::new(Vec::new()),
        listeners,
        activity: activity.clone(),
        current: String::new(),
        dirty: true,
        waited: 0,
    };
    match kubeconfig {
        Ok(kubeconfig) => growth.apply(&kubeconfig, routes),
        // Clients of the contexts that were served before are told why they are not now.
        Err(error) => {
            let (known, current) = service_kubeconfig::known_contexts(service);
            if known.is_empty() {
                return Err(error);
            }
            let openings =
                known.into_iter().map(|(name, namespace)| growth::closed(&name, namespace, &error));
            growth.take_in(openings.collect());
            growth.current = current;
        }
    }
    let contexts = growth.contexts.clone();
    let first = contexts.all().first().cloned();
    let current = contexts.named(&growth.current).or(first).ok_or_else(|| {
        no_context()
            .hint("the kubeconfig has no contexts; add one, for example with your cloud's tool")
    })?;
    let mut waited = Duration::ZERO;
    while growth.dirty && waited < CLIENT_WRITES {
        growth.write();
        if growth.dirty {
            tokio::time::sleep(POLL).await;
            waited += POLL;
        }
    }
    Ok(Site {
        current,
        contexts,
        listeners: Vec::new(),
        more,
        clients: growth.authority.der.clone(),
        identity: (identity.certificate, identity.key),
        kubeconfig: service.kubeconfig(),
        written: None,
        growth: Some(growth),
    })
}

/// The listener's certificate of a service: made once, because clients may have read the kubeconfig
/// before a restart.
fn listener_identity(service: &Service, options: &Options) -> Result<ListenerIdentity, Error> {
    let path = service.listener_path();
    let kept = std::fs::read(&path).map(zeroize::Zeroizing::new);
    if let Some(identity) = kept.ok().and_then(|text| ListenerIdentity::parse(&text)) {
        return Ok(identity);
    }
    let names = Names::new(SocketAddr::new(options.listen.ip(), 0), None);
    let (identity, text) = ListenerIdentity::make(names.certificate()).map_err(unsigned)?;
    write_private(&path, text.expose().as_bytes()).map_err(|error| {
        Error::caused(format!("`{}` cannot be written", path.display()), &error)
    })?;
    Ok(identity)
}

/// The chosen contexts, and the name of the current one.
fn open_contexts(
    contexts: &Contexts,
    kubeconfig: &Kubeconfig,
    routes: &Routes,
) -> Result<(Vec<Opening>, String), Error> {
    let open = |name: Option<&str>| -> Result<Opening, Error> {
        Ok(routes.open(routes.config.target(kubeconfig, name)?)?.into())
    };
    let mut opened: Vec<Opening> = Vec::new();
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
        Contexts::Every => {
            let current = open(None)?;
            let others = kubeconfig.contexts.iter().filter(|other| other.name != current.name);
            let others = others.map(|other| growth::open(routes, kubeconfig, &other.name));
            opened = others.collect();
            opened.insert(0, current);
        }
    }
    let named = opened
        .iter()
        .find(|opening| *contexts == Contexts::All && opening.name == kubeconfig.current_context);
    let current = named.or(opened.first()).ok_or_else(no_context)?.name.clone();
    Ok((opened, current))
}

/// A listener for each context, and the names that all share.
fn listen(
    options: &Options,
    openings: Vec<Opening>,
    current: &str,
    authority: &Authority,
    activity: &Arc<Activity>,
    surroundings: &Surroundings,
) -> Result<(Vec<Listener>, Names), Error> {
    let remote = options.danger_listen_remote.as_deref();
    let mut ports = Ports::open(surroundings);
    let mut listeners = Vec::new();
    let mut first = None;
    let unheard =
        |error: io::Error| Error::caused(format!("cannot listen on `{}`", options.listen), &error);
    for opening in openings {
        let socket = bind(options.listen, &opening, current, &mut ports).map_err(unheard)?;
        let address = socket.local_addr().map_err(|error| broken("the listener", &error))?;
        let names = Names::new(address, remote);
        let url = format!("https://{}", names.first());
        let client = authority.client().map_err(unsigned)?;
        let context = Arc::new(ServedContext::new(opening, url, client, activity));
        let listener = Listener::new(socket, names.hosts.clone(), options.allowed, context);
        listeners.push(listener.map_err(unheard)?);
        first.get_or_insert(names);
    }
    ports.keep();
    Ok((listeners, first.ok_or_else(no_context)?))
}

/// The listener of a context. A requested address is for the current context; each of the others
/// has its own port.
fn bind(
    address: SocketAddr,
    opening: &Opening,
    current: &str,
    ports: &mut Ports,
) -> io::Result<TcpListener> {
    if address.port() != 0 && opening.name == current {
        TcpListener::bind(address)
    } else {
        let server = match &opening.state {
            State::Open(route) => mask(&route.target.cluster.value.server),
            State::Closed(_) => String::new(),
        };
        ports.bind(address.ip(), &opening.name, &server)
    }
}

fn no_context() -> Error {
    Error::failed("no context to serve")
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` asks for")]
fn unsigned(error: rcgen::Error) -> Error {
    broken("the proxy's certificates", &error)
}

pub(crate) fn broken(what: &str, error: &dyn std::error::Error) -> Error {
    Error::caused(format!("cannot create {what}"), error)
}
