//! The identity behind a credential: the key under which the agent caches it.
//!
//! The key covers everything that selects an identity: the command and its program file, the
//! arguments, the configured environment, the cluster if the plugin is told about it, and the
//! variables and files that the plugin chooses an account by. For an unknown plugin every variable
//! counts except those on a published list. Two requests with the same key would get the same
//! identity from the plugin; when in doubt, keys differ and the plugin runs again.

mod files;
mod harmless;
mod profile;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use keyward_host::rules::Rules;
use keyward_process::{
    FileId,
    surroundings::{Fixed, Surroundings},
};
use sha2::{Digest as _, Sha256};

pub use files::Files;
pub use harmless::{HARMLESS, is_harmless};
pub use profile::Profile;

use crate::registration::Registration;
use files::State;
use harmless::is_in;
pub(crate) use harmless::is_steering;

/// A process that asks for a credential, and how the plugin would run for it.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    /// The plugin's command, without `keyward-exec --` in front of it.
    pub command: &'a [u8],
    /// The plugin's arguments.
    pub args: &'a [Vec<u8>],
    /// The environment that the plugin would see, each name once.
    pub environment: &'a [(Vec<u8>, Vec<u8>)],
    /// The working directory.
    pub directory: &'a Path,
    /// The requested version of the protocol.
    pub api_version: &'a str,
    /// What the plugin would be told about the cluster, if anything.
    pub cluster: Option<&'a [u8]>,
}

/// A key, and what else was learned while computing it.
#[derive(Clone)]
pub struct Selected {
    /// Equal for requests of the same identity. A digest, so it reveals nothing.
    pub key: [u8; 32],
    /// The plugin, if we know it.
    pub profile: Profile,
    /// The program, if it was found.
    pub program: Option<PathBuf>,
    /// The environment for a run by the agent: the registered `PATH` and the variables that the
    /// plugin chooses by. `KUBERNETES_EXEC_INFO` is not included.
    pub variables: Vec<(OsString, OsString)>,
    /// Why the agent must not run the plugin itself for this asker: its run would differ from the
    /// asker's own, or might start something that was never registered.
    pub lease_only: Option<&'static str>,
}

impl Asker<'_> {
    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.environment.iter().find(|(key, _)| key == name.as_bytes())?;
        Some(value)
    }

    /// The path in a variable; `None` for an empty one.
    fn path(&self, name: &str) -> Option<PathBuf> {
        let value = self.variable(name).filter(|value| !value.is_empty())?;
        Some(self.absolute(value))
    }

    /// The path in a flag's value.
    fn flag(&self, name: &[u8]) -> Option<PathBuf> {
        let mut args = self.args.iter();
        while let Some(arg) = args.next() {
            match arg.strip_prefix(name) {
                Some([b'=', value @ ..]) => return Some(self.absolute(value)),
                Some([]) => return args.next().map(|value| self.absolute(value)),
                // Another flag, whose name may begin the same.
                _ => {}
            }
        }
        None
    }

    /// A path as a plugin reads it, with `~` for the home directory.
    fn absolute(&self, path: &[u8]) -> PathBuf {
        let home = self.variable("HOME").unwrap_or_default();
        match path.strip_prefix(b"~/") {
            Some(rest) => {
                self.directory.join(OsStr::from_bytes(home)).join(OsStr::from_bytes(rest))
            }
            None => self.directory.join(OsStr::from_bytes(path)),
        }
    }
}

impl Selected {
    /// Computes the key of an asker, and what follows from the registration of its command, if there is one.
    pub fn of(registration: Option<&Registration>, asker: &Asker<'_>, files: &mut Files) -> Self {
        let mut look = Look { asker, registration, lease_only: None };
        let Keyed { key, profile, program, selecting, narrow } = look.key(files);
        let variables = look.run_variables(&selecting, narrow);
        look.compare_steering();
        Self { key, profile, program, variables, lease_only: look.lease_only }
    }

    /// The key alone: all that is needed to find a credential that the agent has.
    pub(crate) fn key_of(
        registration: Option<&Registration>,
        asker: &Asker<'_>,
        files: &mut Files,
    ) -> [u8; 32] {
        Look { asker, registration, lease_only: None }.key(files).key
    }
}

/// A key, and what it was computed from.
struct Keyed<'a> {
    key: [u8; 32],
    profile: Profile,
    program: Option<PathBuf>,
    selecting: BTreeMap<&'a [u8], &'a [u8]>,
    /// Whether only the variables of the profile and the registration select.
    narrow: bool,
}

/// The computation of one asker's key.
struct Look<'a> {
    asker: &'a Asker<'a>,
    registration: Option<&'a Registration>,
    lease_only: Option<&'static str>,
}

impl<'a> Look<'a> {
    fn only_by_lease(&mut self, why: &'static str) {
        self.lease_only.get_or_insert(why);
    }

    fn key(&mut self, files: &mut Files) -> Keyed<'a> {
        let (asker, registration) = (self.asker, self.registration);
        let program = self.program();
        let found = program.as_deref().and_then(|p| Some((p, FileId::read(p).ok()?)));
        let profile = Profile::of_program(asker, found, files);
        // An unregistered command may have been configured by hand: the profile cannot know.
        let narrow = profile != Profile::Unknown && registration.is_some();

        let mut key = Row::new();
        key.put(asker.command);
        key.count(asker.args.len());
        asker.args.iter().for_each(|arg| key.put(arg));
        key.put(asker.api_version.as_bytes());
        key.option(asker.cluster);
        self.put_program(&mut key, found, program.as_deref());
        self.put_helpers(&mut key, profile);

        let mut paths = profile.files(asker);
        paths.extend(registration.iter().flat_map(|one| one.identity_files.iter().cloned()));
        let runs = put_files(&mut key, &paths, files);

        let selecting = self.selecting(narrow.then_some(profile), runs);
        key.count(selecting.len());
        for (name, value) in &selecting {
            key.put(name);
            key.put(value);
        }
        Keyed { key: key.finish(), profile, program, selecting, narrow }
    }

    /// The program: the one that the asker would run, or the registered one if the asker would find
    /// none, such as a program started from a desktop.
    fn program(&mut self) -> Option<PathBuf> {
        let own = self.asker.variable("PATH").unwrap_or_default();
        let found = find(self.asker.command, own, self.asker.directory);
        let Some(Registration { program, path, .. }) = self.registration else { return found };
        match found {
            Some(found) if found == *program || is_same(&found, program) => Some(found),
            Some(found) => {
                self.only_by_lease("the caller's `PATH` leads to another program");
                Some(found)
            }
            None => find(program.as_os_str().as_bytes(), path.as_bytes(), self.asker.directory),
        }
    }

    /// Adds the program's path and file, and the working directory if the choice depends on it.
    fn put_program(
        &mut self,
        key: &mut Row,
        found: Option<(&Path, FileId)>,
        program: Option<&Path>,
    ) {
        key.option(program.map(|path| path.as_os_str().as_bytes()));
        key.option(found.map(|(_, file_id)| file_id.to_bytes()).as_ref().map(<[u8; 56]>::as_slice));
        let command = self.asker.command;
        let relative = command.contains(&b'/') && !command.starts_with(b"/");
        let shim = program.is_some_and(is_shim);
        if relative || shim {
            self.only_by_lease("the working directory decides which program runs");
        }
        key.option((relative || shim).then(|| self.asker.directory.as_os_str().as_bytes()));
    }

    /// Adds the programs that the plugin starts by name: other programs may return another
    /// identity.
    fn put_helpers(&mut self, key: &mut Row, profile: Profile) {
        for name in profile.helpers(self.asker) {
            let own = self.asker.variable("PATH").unwrap_or_default();
            let own = find(name.as_bytes(), own, self.asker.directory);
            if let Some(registration) = self.registration {
                let path = registration.path.as_bytes();
                if own != find(name.as_bytes(), path, self.asker.directory) {
                    self.only_by_lease("the caller's `PATH` leads to another helper program");
                }
            }
            let file_id = own.as_deref().and_then(|path| FileId::read(path).ok());
            key.option(own.as_deref().map(|path| path.as_os_str().as_bytes()));
            key.option(file_id.map(|file_id| file_id.to_bytes()).as_ref().map(|b| &b[..]));
        }
    }

    /// The selecting variables: those of the profile and the registration, or all that are not
    /// harmless. Sorted, because the order of an environment does not matter.
    fn selecting(&mut self, profile: Option<Profile>, runs: bool) -> BTreeMap<&'a [u8], &'a [u8]> {
        let selects = |name: &[u8]| {
            if name == b"KUBERNETES_EXEC_INFO" {
                return false;
            }
            let configured = self.registration.is_some_and(|registration| registration.names(name));
            configured
                || match profile {
                    // Programs named in a configuration are looked up in `PATH`.
                    Some(profile) => is_in(profile.variables(), name) || runs && name == b"PATH",
                    None => !is_harmless(name),
                }
        };
        let environment = self.asker.environment.iter();
        let pairs = environment.map(|(name, value)| (name.as_slice(), value.as_slice()));
        let selecting: BTreeMap<_, _> = pairs.filter(|(name, _)| selects(name)).collect();
        if let (Some(registration), Some(path)) =
            (self.registration, selecting.get(b"PATH".as_slice()))
            && *path != registration.path.as_bytes()
            && !registration.names(b"PATH")
        {
            self.only_by_lease("the caller's `PATH` differs from the registered one");
        }
        selecting
    }

    /// The environment for a run by the agent.
    fn run_variables(
        &self,
        selecting: &BTreeMap<&[u8], &[u8]>,
        narrow: bool,
    ) -> Vec<(OsString, OsString)> {
        let mut all = selecting.clone();
        let network = Profile::network_variables();
        for (name, value) in self.asker.environment {
            if narrow && is_in(network, name) {
                all.insert(name, value);
            }
        }
        if let Some(registration) = self.registration
            && !registration.names(b"PATH")
        {
            all.insert(b"PATH", registration.path.as_bytes());
        }
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        all.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    /// Checks that variables that can make the plugin run other code have their registered values.
    fn compare_steering(&mut self) {
        let Some(registration) = self.registration else { return };
        if !registration.steering_matches(self.asker.environment) {
            self.only_by_lease("a variable that can load code has changed since registration");
        }
    }
}

/// Adds the state of each file to the key. Returns whether one of them names programs to run.
fn put_files(key: &mut Row, paths: &[PathBuf], files: &mut Files) -> bool {
    let mut any = false;
    key.count(paths.len());
    for path in paths {
        key.put(path.as_os_str().as_bytes());
        match files.state(path) {
            State::Missing => key.put(b"missing"),
            State::Unreadable => key.put(b"unreadable"),
            State::Content { digest, runs } => {
                key.put(&digest);
                any |= runs;
            }
        }
    }
    any
}

/// Finds a program as the host does.
pub(crate) fn find(command: &[u8], path: &[u8], directory: &Path) -> Option<PathBuf> {
    let command = std::str::from_utf8(command).ok()?;
    let surroundings = Surroundings::fixed(Fixed {
        vars: vec![("PATH".into(), OsStr::from_bytes(path).to_owned())],
        cwd: directory.to_owned(),
        ..Fixed::default()
    });
    let (_, found) = Rules::default().judge(command, &surroundings);
    Some(surroundings.absolute(&found.ok()?))
}

/// Whether two paths lead to the same file, as `/bin/aws` and `/usr/bin/aws` do.
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((FileId::read(one), FileId::read(other)), (Ok(one), Ok(other)) if one == other)
}

/// Whether a path is the shim of a version manager: pyenv, rbenv, asdf and mise choose the program
/// by files in the working directory.
fn is_shim(path: &Path) -> bool {
    let is_shims = |path: &Path| path.components().any(|part| part.as_os_str() == "shims");
    is_shims(path) || path.canonicalize().is_ok_and(|real| is_shims(&real) || is_manager(&real))
}

fn is_manager(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| ["mise", "asdf", "volta-shim", "rtx"].iter().any(|m| name == *m))
}

/// A digest of parts, each with its length, so that different lists of parts never give the same
/// bytes.
struct Row(Sha256);

impl Row {
    fn new() -> Self {
        let mut row = Self(Sha256::new());
        // The version of the scheme: change it with anything below.
        row.put(b"keyward identity 1");
        row
    }

    fn put(&mut self, part: &[u8]) {
        self.count(part.len());
        self.0.update(part);
    }

    fn option(&mut self, part: Option<&[u8]>) {
        self.0.update([u8::from(part.is_some())]);
        self.put(part.unwrap_or_default());
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests;
