//! A background proxy's connection to the agent: says what clients need, hears when to stop.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use keyward_agent::{Address, Client, Unreachable};
use keyward_process::harden::Inspection;
use keyward_protocol::agent::{Message, ProxyRequest};
use keyward_proxy::Clients;
use tokio::sync::Notify;

use crate::globals::Globals;

/// How often the contexts, and an agent that went away, are looked for.
const PACE: Duration = Duration::from_millis(250);

/// The connection, kept by a thread of its own.
pub(super) struct Link {
    orders: mpsc::Sender<Order>,
    stop: Arc<Notify>,
    connected: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Idle,
    Replaced,
    Close,
}

/// What the thread works with.
struct Worker {
    address: Address,
    service: String,
    clients: Clients,
    orders: mpsc::Receiver<Order>,
    stop: Arc<Notify>,
    connected: Arc<AtomicBool>,
}

impl Link {
    /// Connects, now and whenever the agent was replaced.
    pub(super) fn open(globals: &Globals, service: &str, clients: Clients) -> Self {
        let (orders, received) = mpsc::channel();
        let (stop, connected) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let thread = Address::find(|name| globals.surroundings.var(name)).ok().map(|address| {
            let worker = Worker {
                address,
                service: service.to_owned(),
                clients,
                orders: received,
                stop: stop.clone(),
                connected: connected.clone(),
            };
            thread::spawn(move || worker.run())
        });
        Self { orders, stop, connected, thread }
    }

    /// Returns when the agent wants the proxy to stop.
    pub(super) async fn stopped(&self) {
        self.stop.notified().await;
    }

    /// Asks the agent whether the idle proxy may end. Returns whether there is an agent to ask.
    pub(super) fn ask_to_end(&self) -> bool {
        let connected = self.connected.load(Ordering::Acquire);
        connected && self.orders.send(Order::Idle).is_ok()
    }

    /// Tells the agent to start the program that has replaced this one.
    pub(super) fn replaced(&self) {
        let _ = self.orders.send(Order::Replaced);
    }

    /// Ends the connection: the agent takes it that nothing listens any more.
    pub(super) fn close(&mut self) {
        let _ = self.orders.send(Order::Close);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Worker {
    fn run(self) {
        loop {
            // An error is an agent that went away; the next one is told everything again.
            let closed = self.connect().and_then(|mut client| self.talk(&mut client));
            self.connected.store(false, Ordering::Release);
            match closed {
                Ok(()) => return,
                Err(_) => match self.orders.recv_timeout(PACE) {
                    Ok(Order::Close) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    _ => {}
                },
            }
        }
    }

    /// Connects, and says what clients need.
    fn connect(&self) -> Result<(Client, u64), Unreachable> {
        // The agent has to see this process's namespaces.
        let _visible = Inspection::begin();
        let mut client = Client::connect(&self.address.socket)?;
        let version = self.clients.version();
        client.ask(&self.serving())?;
        client.greeted()?;
        self.clients.told(version);
        self.connected.store(true, Ordering::Release);
        Ok((client, version))
    }

    fn serving(&self) -> Message {
        let contexts = self.clients.list();
        Message::Proxy(ProxyRequest::Serving { service: self.service.clone(), contexts })
    }

    /// Returns when the proxy has closed the connection.
    fn talk(&self, (client, told): &mut (Client, u64)) -> Result<(), Unreachable> {
        let say =
            |request: fn(String) -> ProxyRequest| Message::Proxy(request(self.service.clone()));
        loop {
            match self.orders.try_recv() {
                Ok(Order::Idle) => client.send(&say(ProxyRequest::Idle))?,
                Ok(Order::Replaced) => client.send(&say(ProxyRequest::Replaced))?,
                Ok(Order::Close) | Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
                Err(mpsc::TryRecvError::Empty) => {}
            }
            let version = self.clients.version();
            if version != *told {
                client.send(&self.serving())?;
                *told = version;
                self.clients.told(version);
            }
            match client.receive(PACE) {
                Ok(Message::Proxy(ProxyRequest::Stop(_))) => {
                    self.stop.notify_one();
                    // The agent sends no more. The connection stays until nothing listens.
                    while !matches!(self.orders.recv(), Ok(Order::Close) | Err(_)) {}
                    return Ok(());
                }
                Ok(_) | Err(Unreachable::Late | Unreachable::Stuck) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Tells the agent why a proxy cannot serve. If there is no agent, nobody waits for it either.
pub(super) fn failed(globals: &Globals, service: &str, why: &str) {
    let Ok(address) = Address::find(|name| globals.surroundings.var(name)) else { return };
    let _visible = Inspection::begin();
    let request = ProxyRequest::Failed { service: service.to_owned(), why: why.to_owned() };
    if let Ok(mut client) = Client::connect(&address.socket)
        && client.ask(&Message::Proxy(request)).is_ok()
    {
        let _ = client.receive(Duration::from_secs(1));
    }
}
