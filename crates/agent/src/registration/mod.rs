//! The commands that the agent may run: registrations, one file each.
//!
//! `keyward wrap` writes them. They contain no secret values: arguments and environment are stored
//! as digests, which is enough to recognise them.

mod format;

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use keyward_host::kubeconfig::Exec;
use keyward_process::{
    FileId,
    clock::{Clock as _, SystemClock},
    file::{self, Limits},
    surroundings::Surroundings,
};
use sha2::{Digest as _, Sha256};

use crate::{
    identity::{Asker, Profile, find, is_steering},
    record,
    store::hex,
};

/// A plugin's command that the agent may run.
#[derive(Clone, PartialEq, Eq)]
pub struct Registration {
    /// The command, as written in the kubeconfig.
    pub command: String,
    /// A digest of command and arguments.
    pub arguments: [u8; 32],
    /// The names of the configured variables, with a digest of each value.
    pub environment: Vec<(String, [u8; 32])>,
    /// Variables that can load code, with digests of their values at registration.
    pub steering: Vec<(String, [u8; 32])>,
    /// Variables that the user says select an identity.
    pub identity_env: Vec<String>,
    /// Files that the user says select an identity.
    pub identity_files: Vec<PathBuf>,
    /// The program that the command resolved to.
    pub program: PathBuf,
    /// `PATH` at registration.
    pub path: String,
    /// The plugin, if we know it.
    pub profile: Profile,
    /// The kubeconfig that contains the command.
    pub kubeconfig: PathBuf,
    /// The kubeconfig's user.
    pub user: String,
    /// The contexts of the kubeconfig that use this user.
    pub contexts: Vec<String>,
    /// The server of the first context, where a rejected credential can be checked.
    pub server: String,
    /// The version of the protocol.
    pub api_version: String,
    /// Whether the plugin wants a terminal.
    pub interactive_mode: String,
    /// Whether the plugin is told about the cluster.
    pub provide_cluster_info: bool,
}

impl Registration {
    /// A registration of an `exec` stanza, without the wrapper, for a user of a kubeconfig. Fails if the
    /// command resolves to no program.
    pub fn new(
        exec: &Exec,
        kubeconfig: &Path,
        user: &str,
        surroundings: &Surroundings,
    ) -> Result<Self, String> {
        let path = surroundings.var("PATH").unwrap_or_default();
        let path = path.into_string().map_err(|_| "`PATH` is not UTF-8".to_owned())?;
        let directory = surroundings.cwd().unwrap_or_default();
        let program = find(exec.command.as_bytes(), path.as_bytes(), &directory)
            .ok_or_else(|| format!("`{}` is not on `PATH`", exec.command))?;
        let args: Vec<_> = exec.args.iter().map(|arg| arg.clone().into_bytes()).collect();
        let arguments = arguments(exec.command.as_bytes(), &args);
        let environment =
            exec.env.iter().map(|(name, value)| (name.clone(), value_digest(value.expose_bytes())));
        let mut steering: Vec<_> = surroundings
            .vars()
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| is_steering(name.as_bytes()))
            .map(|(name, value)| (name, value_digest(value.as_bytes())))
            .collect();
        steering.sort_unstable();
        Ok(Self {
            command: exec.command.clone(),
            arguments,
            environment: environment.collect(),
            steering,
            identity_env: Vec::new(),
            identity_files: Vec::new(),
            profile: Profile::of_command(exec.command.as_bytes(), &args),
            program,
            path,
            kubeconfig: kubeconfig.to_owned(),
            user: user.to_owned(),
            contexts: Vec::new(),
            server: String::new(),
            api_version: exec.api_version.text().to_owned(),
            interactive_mode: exec.interactive_mode.text().to_owned(),
            provide_cluster_info: exec.provide_cluster_info,
        })
    }

    /// Identifies the registration: the name of its file.
    pub fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.arguments);
        for (name, value) in &self.environment {
            digest.update((name.len() as u64).to_le_bytes());
            digest.update(name);
            digest.update(value);
        }
        let place = self.kubeconfig.as_os_str().as_bytes();
        digest.update((place.len() as u64).to_le_bytes());
        digest.update(place);
        digest.update(&self.user);
        digest.finalize().into()
    }

    /// Whether a user or context name refers to this command.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.user == name || self.contexts.iter().any(|context| context == name)
    }

    /// Whether a variable was configured for this command, in the kubeconfig or by the user of `wrap`.
    pub(crate) fn names(&self, name: &[u8]) -> bool {
        self.environment.iter().any(|(known, _)| known.as_bytes() == name)
            || self.identity_env.iter().any(|known| known.as_bytes() == name)
    }

    /// Whether an environment contains every configured variable with its value.
    fn is_configured(&self, environment: &[(Vec<u8>, Vec<u8>)]) -> bool {
        // For a duplicated name the last value counts, as in the kubeconfig reader.
        self.environment.iter().enumerate().all(|(index, (name, digest))| {
            let later = self.environment[index + 1..].iter().any(|(other, _)| other == name);
            later || has(environment, name, digest)
        })
    }

    /// Whether the variables that can load code have the values they had at registration.
    pub(crate) fn steering_matches(&self, environment: &[(Vec<u8>, Vec<u8>)]) -> bool {
        let configured = |name: &[u8]| self.environment.iter().any(|(n, _)| n.as_bytes() == name);
        let now = environment.iter().filter(|(name, _)| is_steering(name) && !configured(name));
        let then = self.steering.iter().filter(|(name, _)| !configured(name.as_bytes()));
        then.clone().count() == now.count()
            && then.into_iter().all(|(name, digest)| has(environment, name, digest))
    }
}

fn has(environment: &[(Vec<u8>, Vec<u8>)], name: &str, digest: &[u8; 32]) -> bool {
    let value = environment.iter().find(|(key, _)| key == name.as_bytes());
    value.is_some_and(|(_, value)| value_digest(value) == *digest)
}

/// The registrations of a directory.
pub struct Registrations {
    directory: PathBuf,
    /// The directory's state when it was read, if a later change would be visible in it.
    read: Option<FileId>,
    by_arguments: HashMap<[u8; 32], Vec<Arc<Registration>>>,
}

impl Registrations {
    /// The registrations in `directory`, which may not exist yet.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, read: None, by_arguments: HashMap::new() }
    }

    /// Where a user's registrations are: `keyward/entries` in `$XDG_CONFIG_HOME` or `~/.config`.
    pub fn directory(surroundings: &Surroundings) -> Option<PathBuf> {
        let config = surroundings.var("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.filter(|path| path.is_absolute());
        let config = config.or_else(|| surroundings.home().map(|home| home.join(".config")))?;
        Some(config.join("keyward").join("entries"))
    }

    /// The registration that matches `asker`: the same command and arguments, and every configured
    /// variable with its value.
    pub fn find(&mut self, asker: &Asker<'_>) -> Option<Arc<Registration>> {
        self.reload();
        let found = self.by_arguments.get(&arguments(asker.command, asker.args))?;
        let fits = |known: &&Arc<Registration>| known.is_configured(asker.environment);
        let own = asker.variable("PATH").unwrap_or_default();
        // Prefer one that the agent may run itself over one made for another shell.
        let best = |known: &&Arc<Registration>| {
            (known.steering_matches(asker.environment), known.path.as_bytes() == own)
        };
        match found.as_slice() {
            [only] => Some(only).filter(fits).cloned(),
            several => several.iter().filter(fits).max_by_key(best).cloned(),
        }
    }

    /// All registrations.
    pub fn list(&mut self) -> Vec<Arc<Registration>> {
        self.reload();
        let mut all: Vec<_> = self.by_arguments.values().flatten().cloned().collect();
        all.sort_by(|a, b| (&a.kubeconfig, &a.user).cmp(&(&b.kubeconfig, &b.user)));
        all
    }

    /// Adds a registration, or replaces an equal one.
    pub fn add(&mut self, registration: &Registration) -> io::Result<()> {
        record::write(&self.path(registration), &format::write(registration))?;
        self.read = None;
        Ok(())
    }

    /// Removes a registration. A missing one is no error.
    pub fn remove(&mut self, registration: &Registration) -> io::Result<()> {
        self.read = None;
        record::remove(&self.path(registration))
    }

    fn path(&self, registration: &Registration) -> PathBuf {
        self.directory.join(hex(&registration.digest()))
    }

    /// Reads the directory again if it changed.
    fn reload(&mut self) {
        let now = FileId::read(&self.directory).ok();
        if now.is_some() && now == self.read {
            return;
        }
        self.by_arguments.clear();
        let names = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut paths: Vec<_> = names.map(|entry| entry.path()).collect();
        paths.sort_unstable();
        for known in paths.iter().filter_map(|path| read(path)) {
            self.by_arguments.entry(known.arguments).or_default().push(Arc::new(known));
        }
        self.read = now.filter(|now| now.is_settled(SystemClock.now().as_second()));
    }
}

/// Reads one file, if it is ours alone and its content matches its name.
fn read(path: &Path) -> Option<Registration> {
    const MOST: u64 = 1 << 20;
    let name = path.file_name()?.to_str().filter(|name| name.len() == 64)?;
    let file = file::open(path).ok()?;
    if !is_ours(&file) {
        return None;
    }
    let bytes = file::read_open(&file, &Limits::NAMED.at_most(MOST).regular()).ok()?;
    format::read(&bytes).filter(|known| hex(&known.digest()) == name)
}

fn is_ours(file: &File) -> bool {
    let user = rustix::process::geteuid().as_raw();
    file.metadata().is_ok_and(|found| found.uid() == user && found.mode() & 0o022 == 0)
}

/// A digest of a command and its arguments.
fn arguments(command: &[u8], args: &[Vec<u8>]) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(b"keyward arguments 1");
    for part in std::iter::once(command).chain(args.iter().map(Vec::as_slice)) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

fn value_digest(value: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(b"keyward value 1").chain_update(value).finalize().into()
}

#[cfg(test)]
mod tests;
