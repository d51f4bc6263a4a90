//! `keyward node install`: a new version beside the old one, tested, then switched to in one step.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
    process::ExitCode,
};

use keyward_agent::store::digest_of;
use keyward_process::file::{self, Limits};

use super::{
    dir::{BIN, KUBELET, NodeDir, PROVIDERS, create_dir, failed, unless_missing},
    program::Program,
};
use crate::{
    bridge::{self, Bridge},
    commands::image::{
        explain, lint,
        setup::{Place, Setup},
    },
    failure::Failure,
    flags,
    globals::Globals,
    output,
};

/// Install this program, the providers and their configuration on this node
///
/// Writes a new version beside the one in use, checks its configuration, makes its providers log in for
/// the images of `--test`, and only then switches to the new version, in one step. If a check fails,
/// the node keeps the version that it has.
#[derive(Debug, clap::Args)]
#[command(args = flags::only_general(), after_long_help = "\
Examples:
  # The kubelet then runs with these flags, which stay the same for every version:
  #   --image-credential-provider-config=/opt/keyward/current/kubelet.yaml
  #   --image-credential-provider-bin-dir=/opt/keyward/current/bin
  keyward node install --kubelet-config kubelet.yaml --providers providers.yaml")]
pub(super) struct Args {
    #[command(flatten)]
    dir: NodeDir,

    /// The kubelet's configuration, which names `keyward-provider-node`
    #[arg(long, value_name = "FILE")]
    kubelet_config: PathBuf,

    /// The configuration of the providers, which `keyward-provider-node` reads for every pull
    #[arg(long, value_name = "FILE")]
    providers: PathBuf,

    /// Also install the programs in this directory, such as other providers
    #[arg(long, value_name = "DIR")]
    programs: Vec<PathBuf>,

    /// Refuse to switch unless the new version has a login for this image
    #[arg(long, value_name = "IMAGE")]
    test: Vec<String>,

    /// Write `restart-kubelet` in the directory when the kubelet has to be restarted, so that a service
    /// on the node can do it
    #[arg(long)]
    request_restart: bool,
}

pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let dir = &args.dir;
    let _lock = dir.lock()?;
    let version = Version::collect(args, globals)?;
    let before = dir.version();
    let versions = dir.versions();
    create_dir(&versions).map_err(failed("create", &versions))?;
    let kept: Vec<&str> = before.as_deref().into_iter().collect();
    dir.remove_versions_but(&kept)?;
    let path = versions.join(&version.name);
    if before.as_deref() == Some(&version.name) {
        check(args, &path, globals)?;
    } else {
        let new = versions.join(format!(".{}.new", version.name));
        version.write(&new)?;
        check(args, &new, globals)
            .and_then(|()| fs::rename(&new, &path).map_err(failed("create", &path)))
            .inspect_err(|_| _ = fs::remove_dir_all(&new))?;
        dir.switch_to(&version.name)?;
    }
    if args.request_restart {
        request_restart(dir, &version)?;
    }
    let shown = output::path(&dir.path);
    output::tell(&match before {
        Some(before) if before == version.name => format!("`{before}` is installed in `{shown}`\n"),
        Some(before) => format!("installed `{}` in `{shown}`, was `{before}`\n", version.name),
        None => format!("installed `{}` in `{shown}`\n", version.name),
    });
    Ok(())
}

/// A version before it is written: everything is in memory or open, and its name says what is in it.
struct Version {
    name: String,
    files: Vec<(PathBuf, Content)>,
    kubelet_hash: String,
}

enum Content {
    /// A copy of this program.
    Program(Program),
    /// A link to a program beside it.
    Link(PathBuf),
    /// Only for root: the environment of a provider may have secrets.
    Config(Vec<u8>),
}

impl Version {
    fn collect(args: &Args, globals: &Globals) -> Result<Self, Failure> {
        let own = bridge::program()?;
        let beside = own.parent().unwrap_or(Path::new("/"));
        let mut files = vec![(Path::new(BIN).join("keyward"), Content::Program(Program::own()?))];
        for bridge in Bridge::ALL {
            let content = match bridge.beside(&own) {
                Some(program) => Content::Program(Program::open(&program, globals)?),
                None => Content::Link("keyward".into()),
            };
            files.push((Path::new(BIN).join(bridge.name()), content));
        }
        files.extend(providers(beside, globals)?);
        for directory in &args.programs {
            for path in list(directory)? {
                let name = path.file_name().unwrap_or_default();
                let program = Program::open(&path, globals)?;
                files.push((Path::new(BIN).join(name), Content::Program(program)));
            }
        }
        let kubelet = read(&args.kubelet_config)?;
        let kubelet_hash = digest_of(&kubelet);
        files.push((PathBuf::from(KUBELET), Content::Config(kubelet)));
        files.push((PathBuf::from(PROVIDERS), Content::Config(read(&args.providers)?)));
        files.sort_by(|(one, _), (other, _)| one.cmp(other));
        files.dedup_by(|(later, _), (first, _)| later == first);
        let name = format!("{}-{}", env!("CARGO_PKG_VERSION"), &hash(&files)[..12]);
        Ok(Self { name, files, kubelet_hash })
    }

    /// Writes all files to this directory, which must not exist.
    fn write(&self, dir: &Path) -> Result<(), Failure> {
        let _ = fs::remove_dir_all(dir);
        create_dir(&dir.join(BIN)).map_err(failed("create", dir))?;
        for (name, content) in &self.files {
            let path = dir.join(name);
            write(&path, content).map_err(failed("write", &path))?;
        }
        Ok(())
    }
}

/// `keyward-providers` and the links to it, if they are beside this program.
fn providers(dir: &Path, globals: &Globals) -> Result<Vec<(PathBuf, Content)>, Failure> {
    const PROGRAM: &str = "keyward-providers";
    let program = dir.join(PROGRAM);
    if !program.is_file() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for path in list(dir)? {
        let is_link =
            fs::read_link(&path).is_ok_and(|target| target.file_name() == Some(PROGRAM.as_ref()));
        if is_link {
            let name = path.file_name().unwrap_or_default();
            files.push((Path::new(BIN).join(name), Content::Link(PROGRAM.into())));
        }
    }
    let program = Program::open(&program, globals)?;
    files.push((Path::new(BIN).join(PROGRAM), Content::Program(program)));
    Ok(files)
}

/// The files of a directory.
fn list(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed("read", dir))? {
        let path = entry.map_err(failed("read", dir))?.path();
        if path.is_file() {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    file::read(path, &Limits::NAMED).map(|bytes| bytes.to_vec()).map_err(failed("read", path))
}

/// A file is complete on the disk before `current` can lead to it.
fn write(path: &Path, content: &Content) -> io::Result<()> {
    match content {
        Content::Link(target) => symlink(target, path),
        Content::Program(program) => program.copy_to(path),
        Content::Config(bytes) => {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(bytes)?;
            file.sync_all()
        }
    }
}

/// The digest over all names and contents.
fn hash(files: &[(PathBuf, Content)]) -> String {
    let mut all = Vec::new();
    let mut add = |bytes: &[u8]| {
        all.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        all.extend_from_slice(bytes);
    };
    for (name, content) in files {
        add(name.as_os_str().as_encoded_bytes());
        match content {
            Content::Link(target) => add(target.as_os_str().as_encoded_bytes()),
            Content::Program(program) => add(program.digest()),
            Content::Config(bytes) => add(bytes),
        }
    }
    digest_of(&all)
}

/// Checks the configuration in this directory, and its logins for the images of `--test`.
fn check(args: &Args, version: &Path, globals: &Globals) -> Result<(), Failure> {
    let keeps = || match args.dir.version() {
        Some(current) => format!("`{current}` stays in use"),
        None => "nothing was installed".to_owned(),
    };
    let place = |config: &str| Place::at(version.join(config), version.join(BIN));
    for config in [KUBELET, PROVIDERS] {
        // An empty list turns all providers off, which the kubelet's rules do not allow.
        let is_off = || Setup::open(&place(config), globals)?.config();
        if config == PROVIDERS && is_off().is_ok_and(|config| config.providers.is_empty()) {
            continue;
        }
        if lint::check(place(config), globals)? != ExitCode::SUCCESS {
            return Err(Failure::failed(format!("`{config}` is not valid, so {}", keeps()))
                .hint("the findings are above; fix the configuration and install it again"));
        }
    }
    if args.test.is_empty() {
        return Ok(());
    }
    if explain::check(place(PROVIDERS), &args.test, globals)? != ExitCode::SUCCESS {
        return Err(Failure::failed(format!("a test login failed, so {}", keeps()))
            .hint("the explanation above names the provider and what it said"));
    }
    Ok(())
}

/// Writes the flags that the kubelet needs, if they or their configuration have changed.
fn request_restart(dir: &NodeDir, version: &Version) -> Result<(), Failure> {
    let current = dir.current();
    let text = format!(
        "--image-credential-provider-config={}\n--image-credential-provider-bin-dir={}\n# sha256:{}\n",
        current.join(KUBELET).display(),
        current.join(BIN).display(),
        version.kubelet_hash,
    );
    let path = dir.request();
    let limits = Limits::NAMED.regular();
    if file::read(&path, &limits).is_ok_and(|found| found.as_slice() == text.as_bytes()) {
        return Ok(());
    }
    replace(&path, text.as_bytes()).map_err(failed("write", &path))
}

/// Replaces a file in one step. A new file never follows a link.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    unless_missing(fs::remove_file(&new))?;
    OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?.write_all(bytes)?;
    fs::rename(&new, path)
}
