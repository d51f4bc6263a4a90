//! The contexts of a service: they come and go with the kubeconfig that it serves.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use keyward_host::{Kubeconfig, redact::redact};
use keyward_process::{lock, surroundings::Surroundings};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    Allowed, Error, Kind, Service,
    activity::Activity,
    certificates::Authority,
    context::{Opening, REMOVED, ServedContext, ServedContexts, State, UNUSABLE},
    forward::next_step,
    names::Names,
    ports::Ports,
    refusal::Refusal,
    reload,
    route::Routes,
    server::Listener,
    service_kubeconfig,
};

/// Takes in contexts of a service while it runs.
pub(crate) struct Growth {
    pub(crate) service: Service,
    pub(crate) surroundings: Surroundings,
    pub(crate) ip: IpAddr,
    pub(crate) allowed: Allowed,
    /// Signs the certificates of clients.
    pub(crate) authority: Authority,
    /// What clients check the listener against.
    pub(crate) listener_authority: String,
    pub(crate) contexts: Arc<ServedContexts>,
    pub(crate) listeners: UnboundedSender<Listener>,
    pub(crate) activity: Arc<Activity>,
    /// The current context of the kubeconfig that is served.
    pub(crate) current: String,
    /// Whether the clients' kubeconfig has to be written.
    pub(crate) dirty: bool,
    /// How often that was put off, because clients could not use it yet.
    pub(crate) waited: u32,
}

/// How often at most: there may be no agent to tell.
const UNTOLD: u32 = 8;

impl Growth {
    /// Serves what the kubeconfig says now.
    pub(crate) fn apply(&mut self, kubeconfig: &Kubeconfig, routes: &Routes) {
        let mut new = Vec::new();
        for context in &kubeconfig.contexts {
            let opening = open(routes, kubeconfig, &context.name);
            match self.contexts.named(&context.name) {
                Some(known) => renew(&known, opening),
                None => new.push(opening),
            }
        }
        for known in self.contexts.all().iter().filter(|known| !known.is_closed_as(REMOVED)) {
            if !kubeconfig.contexts.iter().any(|context| context.name == known.name) {
                reload::apply(known, Some(reload::removed(&known.name)));
            }
        }
        kubeconfig.current_context.clone_into(&mut self.current);
        self.take_in(new);
        self.contexts.changed();
        self.dirty = true;
    }

    /// Adds contexts, and listens for them.
    pub(crate) fn take_in(&self, new: Vec<Opening>) {
        let mut made = Vec::new();
        let mut ports = Ports::open(&self.surroundings);
        for opening in new {
            let name = opening.name.clone();
            match self.make(opening, &mut ports) {
                Ok(one) => made.push(one),
                Err(error) => tracing::warn!("context `{name}` is not served: {}", error.line()),
            }
        }
        ports.keep();
        let (contexts, sockets): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        // Known before the first client can come.
        self.contexts.add(contexts);
        for listener in sockets.into_iter().flatten() {
            let _ = self.listeners.send(listener);
        }
    }

    fn make(
        &self,
        opening: Opening,
        ports: &mut Ports,
    ) -> Result<(Arc<ServedContext>, Option<Listener>), Error> {
        let unheard = |error: io::Error| Error::caused("cannot listen", &error);
        let client = self
            .authority
            .client()
            .map_err(|error| Error::caused("cannot create a client certificate", &error))?;
        let (port, socket) =
            ports.bind_only(self.ip, self.service.name(), &opening.name).map_err(unheard)?;
        let url = format!("https://{}", Names::new(SocketAddr::new(self.ip, port), None).first());
        let context = Arc::new(ServedContext::new(opening, url, client, &self.activity));
        let Some(socket) = socket else {
            *lock(&context.fault) = Some(taken(&context.name, port));
            return Ok((context, None));
        };
        let listener = self.listener(socket, &context).map_err(unheard)?;
        Ok((context, Some(listener)))
    }

    fn listener(
        &self,
        socket: std::net::TcpListener,
        context: &Arc<ServedContext>,
    ) -> io::Result<Listener> {
        let names = Names::new(socket.local_addr()?, None);
        Listener::new(socket, names.hosts, self.allowed, context.clone())
    }

    /// Does what could not be done before: listens at addresses that were in use, and writes the
    /// clients' kubeconfig.
    pub(crate) fn settle(&mut self) {
        self.listen_again();
        if self.dirty && (self.contexts.is_told() || self.waited >= UNTOLD) {
            self.write();
            self.waited = 0;
        } else if self.dirty {
            self.waited += 1;
        }
    }

    /// Listens for contexts whose ports were in use. Each keeps its port, which is in the clients' kubeconfig.
    fn listen_again(&self) {
        let all = self.contexts.all();
        let unheard: Vec<_> = all.iter().filter(|one| lock(&one.fault).is_some()).collect();
        if unheard.is_empty() {
            return;
        }
        let mut ports = Ports::open(&self.surroundings);
        for context in unheard {
            let Some(port) = context.port() else { continue };
            let bound = ports.bind_known(self.ip, self.service.name(), &context.name, port);
            if let Ok(Some(socket)) = bound
                && let Ok(listener) = self.listener(socket, context)
            {
                *lock(&context.fault) = None;
                let _ = self.listeners.send(listener);
                self.contexts.changed();
            }
        }
        ports.keep();
    }

    /// Writes the clients' kubeconfig, now or with the next [`settle`](Self::settle).
    pub(crate) fn write(&mut self) {
        let (service, contexts) = (&self.service, &self.contexts);
        let authority = &self.listener_authority;
        match service_kubeconfig::update(service, authority, contexts, &self.current) {
            Ok(done) => self.dirty = !done,
            Err(error) => {
                let path = service.kubeconfig();
                tracing::warn!(%error, "cannot write `{}`", path.display());
            }
        }
    }
}

/// What a kubeconfig says of a context. One that cannot be used is served too: it answers why.
pub(crate) fn open(routes: &Routes, kubeconfig: &Kubeconfig, name: &str) -> Opening {
    let opened =
        routes.config.target(kubeconfig, Some(name)).and_then(|target| routes.open(target));
    match opened {
        Ok(route) => route.into(),
        Err(error) => {
            let named = kubeconfig.contexts.iter().find(|context| context.name == name);
            let namespace = named.map(|context| context.value.namespace.clone());
            closed(name, namespace.unwrap_or_default(), &error)
        }
    }
}

/// A context that answers every request with this error.
pub(crate) fn closed(name: &str, namespace: String, error: &Error) -> Opening {
    let reason = if error.kind() == Kind::NotAllowed { "policy" } else { UNUSABLE };
    let mut message = format!("context `{name}` cannot be used: {}", error.line());
    message += &next_step(name, error.advice());
    let message = redact(&message).into_owned();
    Opening {
        name: name.to_owned(),
        entry: Some(name.to_owned()),
        namespace,
        state: State::Closed(Refusal::closed(reason, message)),
    }
}

/// Gives a known context what the kubeconfig says of it now.
fn renew(known: &ServedContext, opening: Opening) {
    *lock(&known.namespace) = opening.namespace;
    let same = known.state().is_same(&opening.state);
    reload::apply(known, Some(opening.state).filter(|_| !same));
}

/// Why a context has no listener.
fn taken(context: &str, port: u16) -> String {
    let by = match holder(port) {
        Some((process, name)) => format!("process {process} (`{name}`)"),
        None => "another program".to_owned(),
    };
    format!(
        "port {port}, which belongs to context `{context}` of the proxy, is used by {by}; end that, \
         and run the command again"
    )
}

/// The process of this user that listens on a port, with its name.
fn holder(port: u16) -> Option<(u32, String)> {
    #[cfg(target_os = "linux")]
    return keyward_process::sockets::listener(&[port]);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = port;
        None
    }
}
