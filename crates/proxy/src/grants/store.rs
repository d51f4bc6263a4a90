//! The files of grants.
//!
//! ```text
//! $XDG_STATE_HOME/keyward/
//!   proxy/SERVICE/grants/NAME.json  what a grant allows, and its certificate; the proxy reads it
//!   grants/NAME/                    for the consumer; can be mounted into a container
//!     kubeconfig                    with the grant's own key
//!     proxy.sock, address           with `--socket`
//!   grant-logs/NAME.jsonl           every request; stays after the grant has ended
//! ```
//!
//! The consumer can write into its own directory, so nothing there decides what it may do.

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use keyward_host::{
    Kubeconfig,
    kubeconfig::{Cluster, Context, Named},
};
use keyward_process::{
    clock::{Clock as _, SystemClock},
    file::{self, Limits},
    surroundings::Surroundings,
};
use keyward_protocol::text::inline;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};

use super::rules::Rules;
use crate::{Error, Service, certificates::Authority, kubeconfig, ports, service::write_private};

/// The longest name of a grant.
const LONGEST_NAME: usize = 64;

/// The longest path of a Unix socket.
const LONGEST_SOCKET: usize = 107;

/// A grant on disk. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredGrant {
    /// The name; the file has it too.
    #[serde(skip)]
    pub name: String,
    /// The service whose proxy enforces it.
    #[serde(skip)]
    pub service: String,
    /// The context that it gives access to.
    pub context: String,
    /// What it allows.
    pub rules: Rules,
    /// When it was made.
    pub created: String,
    /// When it ends.
    pub expires: String,
    /// Whether the proxy also listens on a socket in the consumer's directory.
    pub socket: bool,
    /// The client certificate that it admits.
    pub(crate) certificate: String,
}

/// What a new grant is to be.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// The name.
    pub name: String,
    /// The context that it gives access to.
    pub context: String,
    /// What it allows.
    pub rules: Rules,
    /// How long it lasts.
    pub ttl: Duration,
    /// Whether the consumer gets a socket too.
    pub socket: bool,
}

/// The directories of grants.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    state: PathBuf,
}

impl Places {
    pub(crate) fn of(surroundings: &Surroundings) -> Option<Self> {
        Some(Self { state: ports::directory(surroundings)? })
    }

    pub(crate) fn consumer(&self, name: &str) -> PathBuf {
        self.state.join("grants").join(name)
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.consumer(name).join("proxy.sock")
    }

    /// Where a socket is made before the consumer can reach it. No grant has such a name.
    pub(crate) fn private_socket(&self, name: &str) -> PathBuf {
        self.state.join("grants").join(format!(".{name}.sock"))
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.state.join("grant-logs").join(format!("{name}.jsonl"))
    }
}

impl StoredGrant {
    /// The grants of a service, by name. A file that is not one is ignored, with a warning.
    pub fn of_service(service: &Service) -> Vec<Self> {
        Self::scan(service).0
    }

    /// The grants of a service, by name, and whether all of its files could be read.
    pub(super) fn scan(service: &Service) -> (Vec<Self>, bool) {
        let (mut found, mut complete) = (Vec::new(), true);
        let mut failed = |path: &Path, error: &io::Error| {
            // A file may have been removed meanwhile, and what is no file fails without the system's help.
            if error.kind() != io::ErrorKind::NotFound && error.raw_os_error().is_some() {
                tracing::warn!(%error, "cannot read `{}`", path.display());
                complete = false;
            }
        };
        let directory = service.grants();
        let entries = fs::read_dir(&directory).map_err(|error| failed(&directory, &error));
        for entry in entries.into_iter().flatten() {
            let path = match entry {
                Ok(entry) => entry.path(),
                Err(error) => {
                    failed(&directory, &error);
                    continue;
                }
            };
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            let Some(name) = file.strip_suffix(".json").filter(|name| is_name(name)) else {
                continue;
            };
            match Self::read(&path, name, service.name()) {
                Ok(Some(grant)) => found.push(grant),
                Ok(None) => tracing::warn!("`{}` is not a grant", path.display()),
                Err(error) => failed(&path, &error),
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        (found, complete)
    }

    /// All grants of this user, by name.
    pub fn all(surroundings: &Surroundings) -> Vec<Self> {
        let mut found: Vec<_> =
            Service::all(surroundings).iter().flat_map(Self::of_service).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Reads a grant; `None` if the file is not one.
    fn read(path: &Path, name: &str, service: &str) -> io::Result<Option<Self>> {
        let text = file::read(path, &Limits::GIVEN.regular())?;
        let Ok(mut grant) = serde_json::from_slice::<Self>(&text) else { return Ok(None) };
        name.clone_into(&mut grant.name);
        service.clone_into(&mut grant.service);
        let rules = &grant.rules;
        let usable = rules.headers().is_some() && rules.bad_namespace().is_none();
        Ok((usable && grant.end().is_some() && grant.der().is_some()).then_some(grant))
    }

    pub(crate) fn end(&self) -> Option<Timestamp> {
        self.expires.parse().ok()
    }

    pub(crate) fn der(&self) -> Option<CertificateDer<'static>> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()
    }

    /// Whether it has ended by itself.
    pub fn is_expired(&self) -> bool {
        self.end().is_none_or(|end| end <= SystemClock.now())
    }
}

/// Makes a grant, and returns the kubeconfig for its consumer. The service must have served the context
/// before: its kubeconfig has the address.
pub fn create(
    service: &Service,
    surroundings: &Surroundings,
    new: &NewGrant,
) -> Result<(StoredGrant, PathBuf), Error> {
    let name = &inline(&new.name);
    if !is_name(&new.name) {
        return Err(Error::usage(format!("`{name}` cannot be the name of a grant"))
            .hint("use letters, digits, `-`, `_` and `.`, at most 64"));
    }
    if new.rules.headers().is_none() {
        return Err(Error::usage("no request can act as this user and these groups").hint(
            "give `--as-group` only with `--as-user`, and neither empty nor with white space at an end",
        ));
    }
    if let Some(namespace) = new.rules.bad_namespace() {
        return Err(Error::usage(format!(
            "`{}` cannot be the name of a namespace",
            inline(namespace)
        ))
        .hint("a namespace has lower-case letters, digits and `-`, at most 63"));
    }
    let cluster = cluster(service, &new.context)?;
    let places = Places::of(surroundings)
        .ok_or_else(|| Error::failed("no directory for grants").hint("set `HOME`"))?;
    let directory = places.consumer(&new.name);
    if new.socket && places.socket(&new.name).as_os_str().len() > LONGEST_SOCKET {
        return Err(Error::usage(format!(
            "the path `{}` is too long for a socket",
            directory.display()
        ))
        .hint("give the grant a shorter name, or set `XDG_STATE_HOME` to a shorter directory"));
    }
    let expires = SignedDuration::try_from(new.ttl)
        .ok()
        .and_then(|ttl| SystemClock.now().checked_add(ttl).ok())
        .ok_or_else(|| Error::usage("a grant cannot last that long"))?;
    let failed = |error: io::Error| unwritten(name, &error);
    let parent = directory.parent().unwrap_or(&directory);
    for path in [parent, &service.grants()] {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    }
    // Two of the same name at once: the second finds the first.
    let lock = File::create(parent.join(".lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    make_room(surroundings, &places, &new.name);
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::usage(format!("there is a grant `{name}` already")).hint(format!(
                "choose another name, or end it with `keyward grant revoke {name}`"
            )));
        }
        made => made.map_err(failed)?,
    }
    let written = write(service, &places, new, cluster, expires);
    if written.is_err() {
        let _ = fs::remove_dir_all(&directory);
    }
    written
}

fn write(
    service: &Service,
    places: &Places,
    new: &NewGrant,
    cluster: Cluster,
    expires: Timestamp,
) -> Result<(StoredGrant, PathBuf), Error> {
    let failed = |error: io::Error| unwritten(&new.name, &error);
    let client = Authority::new()
        .and_then(|authority| authority.grant(&new.name))
        .map_err(|error| unwritten(&new.name, &error))?;
    let address = cluster.server.strip_prefix("https://").unwrap_or_default().to_owned();
    let context = Context {
        cluster: new.context.clone(),
        user: new.name.clone(),
        namespace: new.rules.namespaces.first().cloned().unwrap_or_default(),
        ..Context::default()
    };
    let mut config = Kubeconfig { current_context: new.context.clone(), ..Kubeconfig::default() };
    config.clusters.push(Named::new(new.context.as_str(), cluster));
    config.users.push(Named::new(new.name.as_str(), client.user()));
    config.contexts.push(Named::new(new.context.as_str(), context));
    let directory = places.consumer(&new.name);
    let kubeconfig = directory.join("kubeconfig");
    write_private(&kubeconfig, config.to_json().expose().as_bytes()).map_err(failed)?;
    if new.socket {
        write_private(&directory.join("address"), address.as_bytes()).map_err(failed)?;
    }
    let grant = StoredGrant {
        name: new.name.clone(),
        service: service.name().to_owned(),
        context: new.context.clone(),
        rules: new.rules.clone(),
        created: SystemClock.now().to_string(),
        expires: expires.to_string(),
        socket: new.socket,
        certificate: client.certificate_pem,
    };
    let text = serde_json::to_vec_pretty(&grant).map_err(|error| unwritten(&new.name, &error))?;
    write_private(&rules_file(service, &new.name), &text).map_err(failed)?;
    Ok((grant, kubeconfig))
}

fn unwritten(name: &str, error: &dyn std::error::Error) -> Error {
    Error::caused(format!("the grant `{name}` cannot be written"), error)
}

/// Removes the files of a grant but its log. Those that are missing are no error.
pub(super) fn remove(service: &Service, places: &Places, name: &str) -> Result<(), Error> {
    // First what counts.
    match fs::remove_file(rules_file(service, name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::caused(format!("the grant `{name}` cannot be removed"), &error));
        }
        _ => {}
    }
    let _ = fs::remove_dir_all(places.consumer(name));
    Ok(())
}

/// Revokes a grant of this user: its certificate is worth nothing as soon as the proxy has heard of it.
/// Returns the grant; `None` if there is none with this name.
pub fn revoke(surroundings: &Surroundings, name: &str) -> Result<Option<StoredGrant>, Error> {
    let Some(places) = Places::of(surroundings) else { return Ok(None) };
    for service in Service::all(surroundings) {
        let known = StoredGrant::of_service(&service).into_iter().find(|one| one.name == name);
        if let Some(grant) = known {
            remove(&service, &places, name)?;
            return Ok(Some(grant));
        }
    }
    Ok(None)
}

/// The files of a grant's log that exist, the oldest first.
pub fn log_files(surroundings: &Surroundings, name: &str) -> Vec<PathBuf> {
    let Some(places) = Places::of(surroundings).filter(|_| is_name(name)) else {
        return Vec::new();
    };
    let newest = places.log(name);
    let older = (1..=super::audit::KEPT).rev().map(|number| super::audit::older(&newest, number));
    older.chain([newest.clone()]).filter(|path| path.exists()).collect()
}

/// Removes what is left of a grant that has ended while no proxy ran.
fn make_room(surroundings: &Surroundings, places: &Places, name: &str) {
    let known = StoredGrant::all(surroundings).into_iter().find(|one| one.name == name);
    match known {
        None => {
            let _ = fs::remove_dir_all(places.consumer(name));
        }
        Some(known) if known.is_expired() => {
            let service = Service::named(surroundings, &known.service);
            let _ = service.map(|service| remove(&service, places, name));
        }
        Some(_) => {}
    }
}

/// Whether nobody has removed a grant.
pub(super) fn exists(service: &Service, name: &str) -> bool {
    let found = fs::symlink_metadata(rules_file(service, name));
    !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn rules_file(service: &Service, name: &str) -> PathBuf {
    service.grants().join(format!("{name}.json"))
}

/// The address of a context, and the authority of its listener.
fn cluster(service: &Service, context: &str) -> Result<Cluster, Error> {
    let path = service.kubeconfig();
    let config = kubeconfig::read(&path)
        .ok_or_else(|| Error::failed(format!("`{}` cannot be read", path.display())))?;
    let found = config.clusters.iter().find(|cluster| cluster.name == context);
    let served =
        |cluster: &Cluster| crate::certificates::is_authority(&cluster.certificate_authority_data);
    match found {
        Some(cluster) if served(&cluster.value) => Ok(cluster.value.clone()),
        _ => {
            let names: Vec<_> =
                config.contexts.iter().map(|context| inline(&context.name)).collect();
            Err(Error::usage(format!("the proxy does not serve a context `{}`", inline(context)))
                .hint(format!("choose one of {}", names.join(", "))))
        }
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=LONGEST_NAME).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain)
}
