//! How proxies are stopped, and what happens to those who wait for one.

use keyward_protocol::agent::{Message, ProxyRequest, Served};

use super::{Progress, Wish, apart};
use crate::server::{
    Server,
    connection::{Id, State},
};

impl Server {
    pub(super) fn stop_wanted(&mut self, id: Id, name: &str) {
        self.stop_draining(Some(name));
        let Some(service) = self.proxies.all.get_mut(name) else {
            return self.end_with(id, &Message::Served(Served::Absent));
        };
        service.restart = false;
        service.stopped = true;
        let connection = match &service.state {
            Progress::Absent => return self.end_with(id, &Message::Served(Served::Absent)),
            // It is stopped as soon as it serves.
            Progress::Starting { .. } | Progress::Stopping { .. } => None,
            Progress::Serving { connection, .. } => Some(*connection),
        };
        service.waiting.push((id, Wish::Stop));
        if let Some(client) = self.connections.get_mut(&id) {
            client.state = State::Proxied { service: name.to_owned() };
        }
        if let Some(connection) = connection {
            self.stop_proxy(name, connection);
        }
    }

    pub(super) fn stop_proxy(&mut self, name: &str, connection: Id) {
        let since = self.settings.clock.elapsed();
        if let Some(service) = self.proxies.all.get_mut(name) {
            service.state = Progress::Stopping { connection, since };
        }
        self.say_stop(name, connection);
    }

    pub(super) fn say_stop(&mut self, name: &str, connection: Id) {
        if let Some(proxy) = self.connections.get_mut(&connection) {
            proxy.say(&Message::Proxy(ProxyRequest::Stop(name.to_owned())));
            self.flush(connection);
        }
    }

    /// Stops proxies that no longer listen, with this name or all: streams with credentials are still open
    /// in them.
    fn stop_draining(&mut self, name: Option<&str>) {
        let draining = self.connections.iter().filter_map(|(id, connection)| {
            let State::Draining { service } = &connection.state else { return None };
            name.is_none_or(|name| name == service).then(|| (*id, service.clone()))
        });
        for (id, service) in draining.collect::<Vec<_>>() {
            self.say_stop(&service, id);
        }
    }

    /// Stops all proxies: they hold credentials that the agent is to forget.
    pub(in crate::server) fn stop_proxies(&mut self) {
        let serving = self.proxies.all.iter().filter_map(|(name, service)| match service.state {
            Progress::Serving { connection, .. } => Some((name.clone(), connection)),
            _ => None,
        });
        for (name, connection) in serving.collect::<Vec<_>>() {
            self.stop_proxy(&name, connection);
        }
        self.stop_draining(None);
    }

    /// Sends everybody away who waits for a proxy to serve.
    pub(in crate::server) fn refuse_proxy_clients(&mut self, why: &str) {
        let mut refused = Vec::new();
        for service in self.proxies.all.values_mut() {
            let (stops, others) = apart(std::mem::take(&mut service.waiting));
            service.waiting = stops;
            refused.extend(others);
        }
        for (client, _) in refused {
            self.fail(client, why);
        }
    }
}
