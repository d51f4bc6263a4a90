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
use keyward_protocol::agent::{Message, ProxyContext, ProxyRequest};
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
    Draining,
    Close,
}

/// How much of what clients need goes into one frame, in bytes.
const PART: usize = 1 << 20;

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

    /// Tells the agent that nothing listens any more. It can still stop the streams that are open.
    pub(super) fn draining(&self) {
        let _ = self.orders.send(Order::Draining);
    }

    /// Ends the connection. Requests that are open go on meanwhile, also where all is one thread.
    pub(super) async fn close(&mut self) {
        let _ = self.orders.send(Order::Close);
        if let Some(thread) = self.thread.take() {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Whether the proxy listens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    Draining,
}

impl Worker {
    fn run(self) {
        let mut phase = Phase::Serving;
        loop {
            // An error is an agent that went away; the next one is told everything again.
            let closed =
                self.connect(phase).and_then(|mut client| self.talk(&mut client, &mut phase));
            self.connected.store(false, Ordering::Release);
            match closed {
                Ok(()) => return,
                Err(_) => match self.orders.recv_timeout(PACE) {
                    Ok(Order::Close) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    // It no longer listens, or will not in a moment: no agent may send clients here.
                    Ok(Order::Replaced | Order::Draining) => phase = Phase::Draining,
                    _ => {}
                },
            }
        }
    }

    /// Connects, and says what clients need.
    fn connect(&self, phase: Phase) -> Result<(Client, u64), Unreachable> {
        // The agent has to see this process's namespaces.
        let _visible = Inspection::begin();
        let mut client = Client::connect(&self.address.socket)?;
        let version = self.clients.version();
        let mut messages = match phase {
            Phase::Serving => self.serving(),
            Phase::Draining => vec![self.say(ProxyRequest::Draining)],
        }
        .into_iter();
        if let Some(first) = messages.next() {
            client.ask(&first)?;
        }
        client.greeted()?;
        for message in messages {
            client.send(&message)?;
        }
        self.clients.told(version);
        self.connected.store(true, Ordering::Release);
        Ok((client, version))
    }

    fn say(&self, request: fn(String) -> ProxyRequest) -> Message {
        Message::Proxy(request(self.service.clone()))
    }

    fn serving(&self) -> Vec<Message> {
        frames(&self.service, self.clients.list())
    }

    /// Returns when the proxy has closed the connection.
    fn talk(
        &self,
        (client, told): &mut (Client, u64),
        phase: &mut Phase,
    ) -> Result<(), Unreachable> {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Idle) => client.send(&self.say(ProxyRequest::Idle))?,
                Ok(Order::Replaced) => client.send(&self.say(ProxyRequest::Replaced))?,
                Ok(Order::Draining) => {
                    *phase = Phase::Draining;
                    client.send(&self.say(ProxyRequest::Draining))?;
                }
                Ok(Order::Close) | Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
                Err(mpsc::TryRecvError::Empty) => {}
            }
            let version = self.clients.version();
            if version != *told && *phase == Phase::Serving {
                for message in self.serving() {
                    client.send(&message)?;
                }
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

/// What clients need, in as many frames as it takes.
fn frames(service: &str, contexts: Vec<ProxyContext>) -> Vec<Message> {
    let mut parts = vec![Vec::new()];
    let mut size = 0;
    for context in contexts {
        let ProxyContext { name, certificate, key, fault } = &context;
        let own = name.len() + certificate.len() + key.expose().len() + fault.len();
        if size + own > PART && size > 0 {
            parts.push(Vec::new());
            size = 0;
        }
        size += own;
        if let Some(part) = parts.last_mut() {
            part.push(context);
        }
    }
    let last = parts.pop().unwrap_or_default();
    let service = || service.to_owned();
    let part = |contexts| Message::Proxy(ProxyRequest::Part { service: service(), contexts });
    let last = ProxyRequest::Serving { service: service(), contexts: last };
    parts.into_iter().map(part).chain([Message::Proxy(last)]).collect()
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

#[cfg(test)]
mod tests {
    use keyward_protocol::{Secret, agent::MOST};

    use super::*;

    #[test]
    fn ten_thousand_contexts_fit_into_frames_that_the_agent_reads() {
        let context = |number| ProxyContext {
            name: format!("context-{number}"),
            certificate: "c".repeat(800),
            key: Secret::new("k".repeat(300)),
            fault: String::new(),
        };
        let all: Vec<_> = (0..10_000).map(context).collect();
        let mut named = Vec::new();
        let frames = frames("config", all.clone());
        for (number, frame) in frames.iter().enumerate() {
            let mut wire = Vec::new();
            frame.write(&mut wire);
            assert!(wire.len() < MOST, "{}", wire.len());
            match frame {
                Message::Proxy(ProxyRequest::Part { contexts, .. }) => named.extend(contexts),
                Message::Proxy(ProxyRequest::Serving { contexts, .. }) => {
                    assert_eq!(number, frames.len() - 1, "the last one completes the list");
                    named.extend(contexts);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(named.into_iter().eq(&all));
        assert_eq!(super::frames("config", Vec::new()).len(), 1, "no context is a list too");
    }
}
