//! Where the agent's socket is.

use std::{
    ffi::OsString,
    fmt, fs, io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
};

use keyward_process::runtime::is_ours;

/// The variable with the socket of the user's agent.
const OWN: &str = "KEYWARD_AGENT_SOCK";

/// The variable with the socket of the node's agent.
const NODE: &str = "KEYWARD_SYSTEM_AGENT_SOCK";

/// The longest path that a Unix socket can have on every system.
const LONGEST: usize = 103;

/// The bits of a mode that let others in.
const OTHERS: u32 = 0o077;

/// The socket of the node's agent.
const SYSTEM: &str = "/run/keyward/agent.sock";

/// The agent's socket, and the directory that it and its locks are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The directory, with mode 0700.
    pub directory: PathBuf,
    /// The socket.
    pub socket: PathBuf,
}

/// Why no agent can be reached or started here.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unusable {
    /// A variable names a path that is longer than a socket's path can be, or not absolute.
    Path(&'static str, PathBuf),
    /// Neither a runtime directory nor a home directory is usable.
    Nowhere,
    /// The directory belongs to another user, is a symlink, or is open to others.
    Directory(PathBuf),
    /// The directory cannot be created.
    Io(PathBuf, io::Error),
}

impl Address {
    /// Finds the socket: `KEYWARD_AGENT_SOCK`, else `keyward/agent.sock` in `XDG_RUNTIME_DIR` or
    /// `/run/user/UID` if that directory is ours, else in `.keyward/run/HOST` in the home
    /// directory, which several machines may share.
    ///
    /// Never in `TMPDIR` or `/tmp`: they differ between shells, which would start two agents, and
    /// sandboxed programs can see them.
    pub fn find(var: impl Fn(&str) -> Option<OsString>) -> Result<Self, Unusable> {
        let path = |name: &str| var(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if let Some(socket) = path(OWN) {
            return Self::named(OWN, socket);
        }
        let user = rustix::process::geteuid().as_raw();
        let runtime =
            path("XDG_RUNTIME_DIR").into_iter().chain([format!("/run/user/{user}").into()]);
        let runtime = runtime.filter(|path| path.is_absolute() && is_ours(path));
        let home = path("HOME").filter(|home| home.is_absolute());
        let home = home.map(|home| home.join(".keyward/run").join(host()));
        runtime
            .map(|path| path.join("keyward"))
            .chain(home)
            .map(|directory| Self { socket: directory.join("agent.sock"), directory })
            .find(|address| fits(&address.socket))
            .ok_or(Unusable::Nowhere)
    }

    /// The socket of the node's agent, which root's programs share: `KEYWARD_SYSTEM_AGENT_SOCK`, else
    /// `/run/keyward/agent.sock`. It depends on nothing else, so that every program finds the same one.
    pub fn system(var: impl Fn(&str) -> Option<OsString>) -> Result<Self, Unusable> {
        let said = var(NODE).filter(|value| !value.is_empty());
        Self::named(NODE, said.map_or_else(|| SYSTEM.into(), PathBuf::from))
    }

    /// The socket at a path that a variable names.
    fn named(variable: &'static str, socket: PathBuf) -> Result<Self, Unusable> {
        match (fits(&socket), socket.parent()) {
            (true, Some(directory)) if socket.is_absolute() => {
                Ok(Self { directory: directory.to_owned(), socket })
            }
            _ => Err(Unusable::Path(variable, socket)),
        }
    }

    /// Creates the directory, and checks that nobody else can put a socket into it.
    pub fn prepare(&self) -> Result<(), Unusable> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| Unusable::Io(self.directory.clone(), error))?;
        self.check()
    }

    /// Checks that the directory is ours alone and not a symlink.
    pub fn check(&self) -> Result<(), Unusable> {
        let found = fs::symlink_metadata(&self.directory)
            .map_err(|error| Unusable::Io(self.directory.clone(), error))?;
        let ours = found.is_dir()
            && found.uid() == rustix::process::geteuid().as_raw()
            && found.mode() & OTHERS == 0;
        if ours { Ok(()) } else { Err(Unusable::Directory(self.directory.clone())) }
    }

    /// Opens a lock next to the socket, and creates it if need be.
    #[cfg(target_os = "linux")]
    pub(crate) fn open_lock(&self, name: &str) -> io::Result<fs::File> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        options.open(self.beside(name))
    }

    /// A file next to the socket.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Whether no agent is wanted here: continuous integration ends with whatever still runs, or waits for
/// it.
pub fn is_off(var: impl Fn(&str) -> Option<OsString>) -> bool {
    let ci = var("CI").is_some_and(|value| !value.is_empty() && value != "false");
    ci || var("KEYWARD_AGENT").is_some_and(|value| value == "off")
}

fn fits(socket: &Path) -> bool {
    socket.as_os_str().as_bytes().len() <= LONGEST
}

/// Distinguishes machines that share a home directory. Short, because socket paths are.
fn host() -> String {
    let name = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", name.trim_ascii().iter().fold(0xcbf2_9ce4_8422_2325, mix))
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(variable, path) => write!(
                f,
                "`{variable}` is `{}`, but a socket needs an absolute path of at most {LONGEST} bytes",
                path.display()
            ),
            Self::Nowhere => f.write_str(
                "no directory for the agent's socket: `XDG_RUNTIME_DIR` and `HOME` are unset, belong to \
                 another user or are too long",
            ),
            Self::Directory(path) => write!(
                f,
                "`{}` must be a directory with mode 0700 that belongs to you, and not a symlink",
                path.display()
            ),
            Self::Io(path, error) => write!(f, "cannot use `{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for Unusable {}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Address, Unusable> {
        let find = |name: &str| pairs.iter().find(|(key, _)| *key == name);
        Address::find(|name| find(name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn the_socket_is_where_it_is_said_to_be() {
        let found = with(&[("KEYWARD_AGENT_SOCK", "/a/b.sock"), ("HOME", "/h")]).unwrap();
        assert_eq!((found.directory, found.socket), ("/a".into(), "/a/b.sock".into()));
    }

    #[test]
    fn the_nodes_socket_depends_on_no_home_or_session() {
        let vars = [("KEYWARD_AGENT_SOCK", "/a/b.sock"), ("HOME", "/h"), ("XDG_RUNTIME_DIR", "/x")];
        let find = |name: &str| vars.iter().find(|(key, _)| *key == name);
        let found = Address::system(|name| find(name).map(|(_, value)| value.into())).unwrap();
        assert_eq!(found.socket, Path::new("/run/keyward/agent.sock"));
        let said = |name: &str| (name == NODE).then(|| OsString::from("/a/c.sock"));
        assert_eq!(Address::system(said).unwrap().socket, Path::new("/a/c.sock"));
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_an_error_before_anything_binds() {
        let long = format!("/{}", "x".repeat(120));
        for path in ["relative.sock", &long] {
            let error = with(&[("KEYWARD_AGENT_SOCK", path)]).unwrap_err();
            assert!(error.to_string().contains("103 bytes"), "{error}");
        }
    }

    #[test]
    fn the_runtime_directory_is_used_if_only_we_can_write_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let found = with(&[("XDG_RUNTIME_DIR", path), ("HOME", "/h")]).unwrap();
        assert_eq!(found.socket, directory.path().join("keyward/agent.sock"));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let found = with(&[("XDG_RUNTIME_DIR", path), ("HOME", "/h")]).unwrap();
        assert!(!found.socket.starts_with(path), "{found:?}");
    }

    #[test]
    fn a_runtime_directory_with_too_long_a_path_is_passed_by() {
        let directory = tempfile::tempdir().unwrap();
        let long = directory.path().join("x".repeat(110));
        fs::DirBuilder::new().mode(0o700).create(&long).unwrap();
        let found = with(&[("XDG_RUNTIME_DIR", long.to_str().unwrap()), ("HOME", "/h")]).unwrap();
        assert!(!found.socket.starts_with(&long), "{found:?}");
    }

    #[test]
    fn a_directory_that_others_can_enter_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("a");
        let address = Address { socket: inner.join("agent.sock"), directory: inner.clone() };
        address.prepare().unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(address.prepare(), Err(Unusable::Directory(_))));
        fs::remove_dir(&inner).unwrap();
        std::os::unix::fs::symlink(directory.path(), &inner).unwrap();
        assert!(matches!(address.check(), Err(Unusable::Directory(_))));
    }
}
