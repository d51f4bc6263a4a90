//! The port of each context: chosen once, stored, and reused at every start.
//!
//! Clients store what they learn of a server under its address: kubectl, helm and k9s have their
//! discovery cache in `~/.kube/cache/discovery/HOST_PORT`. Two contexts with the same address would
//! be mistaken for one server, and a context with a new port at every start would never find its
//! cache again.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{DirBuilder, File},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read},
    net::{IpAddr, TcpListener},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use keyward_process::surroundings::Surroundings;
use serde::{Deserialize, Serialize};

use crate::service::{lock_file, write_private};

/// Below the ports that systems give to clients, and below those of Kubernetes' nodes.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// How many ports are tried for a context that has none. For one of a service all are: its address stays.
const TRIES: u16 = 256;

/// How many ports of one context are stored: that many proxies can serve it at once and find their
/// cache.
const MOST_PORTS: usize = 16;

/// Larger than anybody's list. A larger file is not ours, and is replaced.
const LARGEST: u64 = 1 << 20;

/// The ports of contexts, locked while this lives.
pub(crate) struct Ports {
    kept: Kept,
    /// Where they are stored, if that is possible.
    store: Option<(PathBuf, File)>,
    changed: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// Keyed by context and server.
    ports: BTreeMap<String, Vec<u16>>,
}

impl Ports {
    /// Reads the stored ports. If none can be stored, ports are still chosen: the same ones as long
    /// as nobody else uses them.
    pub(crate) fn open(surroundings: &Surroundings) -> Self {
        let store = directory(surroundings).and_then(|directory| match lock(&directory) {
            Ok(lock) => Some((directory.join("proxy-ports.json"), lock)),
            Err(error) => {
                let directory = directory.display();
                tracing::info!(%error, "cannot store the ports of contexts in `{directory}`");
                None
            }
        });
        let kept = store.as_ref().map(|(path, _)| read(path)).unwrap_or_default();
        Self { kept, store, changed: false }
    }

    /// Listens on a port of a context: one it had before, or one that no other context has.
    pub(crate) fn bind(
        &mut self,
        ip: IpAddr,
        context: &str,
        server: &str,
    ) -> io::Result<TcpListener> {
        let key = format!("{context} at {server}");
        for port in self.kept.ports.get(&key).into_iter().flatten() {
            if let Some(listener) = listen_if_free(ip, *port)? {
                return Ok(listener);
            }
        }
        let offset = first_offset(&key);
        match self.bind_new(ip, key, offset, TRIES)? {
            Some(listener) => Ok(listener),
            // Any port, and another one at the next start: clients only lose their cache.
            None => TcpListener::bind((ip, 0)),
        }
    }

    /// Listens on a port that no context has, the first free one from `FIRST` + `offset` on, and remembers it.
    /// `None` if the first `tries` are taken.
    fn bind_new(
        &mut self,
        ip: IpAddr,
        key: String,
        offset: u16,
        tries: u16,
    ) -> io::Result<Option<TcpListener>> {
        let taken: HashSet<u16> = self.kept.ports.values().flatten().copied().collect();
        for step in 0..tries {
            let port = FIRST + (offset + step) % COUNT;
            if taken.contains(&port) {
                continue;
            }
            if let Some(listener) = listen_if_free(ip, port)? {
                let own = self.kept.ports.entry(key).or_default();
                if own.len() < MOST_PORTS {
                    own.push(port);
                    self.changed = true;
                }
                return Ok(Some(listener));
            }
        }
        Ok(None)
    }

    /// Listens on the port of a context of a service, which has only one: clients that have read its
    /// kubeconfig know no other. Also returns the port if another process uses it.
    pub(crate) fn bind_only(
        &mut self,
        ip: IpAddr,
        service: &str,
        context: &str,
    ) -> io::Result<(u16, Option<TcpListener>)> {
        let key = service_key(service, context);
        if let Some(port) = self.kept.ports.get(&key).and_then(|ports| ports.first()) {
            return Ok((*port, listen_if_free(ip, *port)?));
        }
        let offset = self.service_offset(&key);
        let listener = self.bind_new(ip, key, offset, COUNT)?.ok_or_else(|| {
            let last = FIRST + COUNT - 1;
            let message = format!("no port from {FIRST} to {last} is free");
            io::Error::new(io::ErrorKind::AddrInUse, message)
        })?;
        Ok((listener.local_addr()?.port(), Some(listener)))
    }

    /// Listens on the port that clients know for a context of a service; `None` if another process uses it.
    /// Stores the port again if the list has lost it.
    pub(crate) fn bind_known(
        &mut self,
        ip: IpAddr,
        service: &str,
        context: &str,
        port: u16,
    ) -> io::Result<Option<TcpListener>> {
        let own = self.kept.ports.entry(service_key(service, context)).or_default();
        if own.first() != Some(&port) {
            *own = vec![port];
            self.changed = true;
        }
        listen_if_free(ip, port)
    }

    /// Where the search for a context of a service starts. Another home of this user may have a service of
    /// the same name, which must not have its ports.
    fn service_offset(&self, key: &str) -> u16 {
        let home = self.store.as_ref().map(|(path, _)| path.display().to_string());
        first_offset(&format!("{key} in {}", home.unwrap_or_default()))
    }

    /// Stores new ports.
    pub(crate) fn keep(self) {
        let Some((path, _lock)) = self.store.filter(|_| self.changed) else { return };
        let text = serde_json::to_vec_pretty(&self.kept).map_err(io::Error::from);
        if let Err(error) = text.and_then(|text| write_private(&path, &text)) {
            tracing::warn!(%error, "cannot store the ports of contexts in `{}`", path.display());
        }
    }
}

/// Under what the port of a context of a service is stored.
fn service_key(service: &str, context: &str) -> String {
    format!("{context} of the service {service}")
}

/// A listener, or `None` if another process uses the port.
fn listen_if_free(ip: IpAddr, port: u16) -> io::Result<Option<TcpListener>> {
    match TcpListener::bind((ip, port)) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where the search starts: different for each user and context but the same each time, so that
/// most get their port even if nothing can be stored.
fn first_offset(key: &str) -> u16 {
    let mut hasher = DefaultHasher::new();
    (rustix::process::geteuid().as_raw(), key).hash(&mut hasher);
    u16::try_from(hasher.finish() % u64::from(COUNT)).unwrap_or_default()
}

/// `$XDG_STATE_HOME/keyward`, by default `~/.local/state/keyward`.
pub(crate) fn directory(surroundings: &Surroundings) -> Option<PathBuf> {
    let named = surroundings.var("XDG_STATE_HOME").map(PathBuf::from);
    let base = named
        .filter(|path| path.is_absolute())
        .or_else(|| Some(surroundings.home()?.join(".local/state")))?;
    Some(base.join("keyward"))
}

fn lock(directory: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let file = lock_file(&directory.join("proxy-ports.lock"))?;
    file.lock()?;
    Ok(file)
}

fn read(path: &Path) -> Kept {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
        Err(error) => {
            tracing::warn!(%error, "`{}` cannot be read", path.display());
            Kept::default()
        }
        Ok(_) => serde_json::from_slice(&text).unwrap_or_else(|_| {
            tracing::warn!("`{}` is replaced: it is not a list of ports", path.display());
            Kept::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{fs, net::Ipv4Addr};

    use keyward_process::surroundings::Fixed;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn surroundings(home: &Path) -> Surroundings {
        let vars = vec![("HOME".into(), home.into())];
        Surroundings::fixed(Fixed { vars, ..Fixed::default() })
    }

    /// Binds each of these contexts, and returns their ports. Tests run at once, so each has contexts of its own.
    fn ports(home: &Path, contexts: &[&str]) -> (Vec<u16>, Vec<TcpListener>) {
        let mut ports = Ports::open(&surroundings(home));
        let bind = |context: &&str| ports.bind(HERE, context, "https://one").unwrap();
        let listeners: Vec<TcpListener> = contexts.iter().map(bind).collect();
        ports.keep();
        (listeners.iter().map(|one| one.local_addr().unwrap().port()).collect(), listeners)
    }

    #[test]
    fn a_context_has_the_same_port_again_whatever_else_is_served() {
        let home = tempfile::tempdir().unwrap();
        let (first, _) = ports(home.path(), &["a", "b"]);
        assert_ne!(first[0], first[1]);
        assert_eq!(ports(home.path(), &["b"]).0, first[1..]);
        assert_eq!(ports(home.path(), &["c", "b", "a"]).0[1..], [first[1], first[0]]);
    }

    #[test]
    fn a_second_proxy_of_a_context_has_a_port_of_its_own_that_is_kept_too() {
        let home = tempfile::tempdir().unwrap();
        let (first, open) = ports(home.path(), &["second"]);
        let (second, _) = ports(home.path(), &["second"]);
        assert_ne!(first, second);
        assert_eq!(ports(home.path(), &["second"]).0, second);
        drop(open);
        assert_eq!(ports(home.path(), &["second"]).0, first);
    }

    #[test]
    fn a_context_of_a_service_has_one_port_even_while_another_process_uses_it() {
        let home = tempfile::tempdir().unwrap();
        let here = surroundings(home.path());
        let bind = |service: &str| {
            let mut ports = Ports::open(&here);
            let bound = ports.bind_only(HERE, service, "a").unwrap();
            ports.keep();
            bound
        };
        let (port, listener) = bind("one");
        assert!(listener.is_some());
        assert!(matches!(bind("one"), (same, None) if same == port), "it is in use");
        assert_ne!(bind("two").0, port);
        drop(listener);
        assert!(matches!(bind("one"), (same, Some(_)) if same == port));
    }

    #[test]
    fn a_context_of_a_service_has_a_port_that_stays_however_many_are_taken() {
        let home = tempfile::tempdir().unwrap();
        let here = surroundings(home.path());
        let mut ports = Ports::open(&here);
        let offset = ports.service_offset(&service_key("crowded", "a"));
        let taken: Vec<_> = (0..=TRIES).map(|step| FIRST + (offset + step) % COUNT).collect();
        ports.kept.ports.insert("others".to_owned(), taken.clone());
        let (port, listener) = ports.bind_only(HERE, "crowded", "a").unwrap();
        ports.keep();
        assert!((FIRST..FIRST + COUNT).contains(&port) && !taken.contains(&port), "{port}");
        drop(listener);
        assert_eq!(Ports::open(&here).bind_only(HERE, "crowded", "a").unwrap().0, port);
    }

    #[test]
    fn a_port_that_clients_know_is_stored_again_when_the_list_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let here = surroundings(home.path());
        let mut ports = Ports::open(&here);
        let (port, open) = ports.bind_only(HERE, "lost", "a").unwrap();
        ports.keep();
        fs::remove_file(home.path().join(".local/state/keyward/proxy-ports.json")).unwrap();
        let mut ports = Ports::open(&here);
        assert!(ports.bind_known(HERE, "lost", "a", port).unwrap().is_none(), "it is in use");
        ports.keep();
        assert_eq!(Ports::open(&here).bind_only(HERE, "lost", "a").unwrap().0, port);
        drop(open);
    }

    #[test]
    fn a_file_that_is_no_list_of_ports_stops_nobody() {
        let home = tempfile::tempdir().unwrap();
        let (first, _) = ports(home.path(), &["no-list"]);
        let path = home.path().join(".local/state/keyward/proxy-ports.json");
        fs::write(&path, "{").unwrap();
        assert_eq!(ports(home.path(), &["no-list"]).0, first, "the search starts at the same port");
        assert!(fs::read_to_string(&path).unwrap().contains("no-list at https://one"));
    }
}
