//! `keyward-provider-node`: one entry in the kubelet's configuration that asks all other providers.
//!
//! A second configuration, Keyward's own, lists these providers, in the kubelet's form or in that of the original
//! proposal. It is read for every pull, so a change needs no restart of the kubelet.
//!
//! The kubelet starts this program for every pull, so it has no TLS and no runtime, and is small
//! (decision 0063). The crate is a library so that `keyward` can do the same when it is started by this name, and for
//! what the two have in common; nothing else is meant to be used.

mod agent;
mod last_good;
mod place;
mod textfile;

use std::{
    collections::BTreeMap,
    env,
    error::Error as StdError,
    ffi::OsString,
    fmt::Write as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Once},
    thread,
    time::Duration,
};

use clap::{CommandFactory as _, Parser, error::ErrorKind};
use keyward_host::{Error, Kind, NoopObserver, ReloadPace, redact};
use keyward_image::{
    Account, Accounts, Config, Images, Lookup, Name, Pod, Provider, ReloadingConfig, TokenRequest,
};
use keyward_plugin::{ImageQuestion, Logins, Refusal, serve_image};
use keyward_process::{clock::SystemClock, harden, signals, surroundings::Surroundings};
use keyward_protocol::{
    Secret, duration,
    jwt::Claims,
    text::{causes, inline},
};

pub use self::place::{Place, trusted_by_environment};
use self::{agent::NodeAgent, last_good::LastGood, textfile::Textfile};

/// The name of the program.
pub const NAME: &str = "keyward-provider-node";

/// Ask all image credential providers in a configuration that is read for every pull
///
/// An image credential provider, started by the kubelet. In the kubelet's configuration, name only this provider, for
/// all registries. List the other providers in the configuration that `--config` names, which can change while the
/// kubelet runs.
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
struct Args {
    #[command(flatten)]
    place: Place,

    /// Where to keep a copy of the last valid configuration, which stays in force while the file is broken
    #[arg(long, value_name = "DIR", default_value = "/var/lib/keyward/provider-node")]
    state: PathBuf,

    /// Count pulls and runs of providers in this file, for the textfile collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,

    /// The container runtime pulls images of the registry FROM from the mirror TO, which may have a path: also ask
    /// for a login for TO, which the kubelet tries first; can be repeated
    #[arg(long = "mirror", value_name = "FROM=TO", value_parser = Mirror::parse)]
    mirrors: Vec<Mirror>,

    /// How long each provider may take; the kubelet waits a minute for all of them
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration::budget)]
    timeout: Duration,
}

/// A registry and the mirror that a node's container runtime pulls its images from.
#[derive(Debug, Clone)]
struct Mirror {
    from: String,
    to: String,
}

impl Mirror {
    fn parse(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('=').unwrap_or_default();
        let is_name =
            |name: &str| !name.is_empty() && !name.contains("://") && Name::parse(name).is_some();
        if from.contains('/') || !is_name(from) || !is_name(to) {
            return Err("it must be of the form `registry.example=mirror.example/path`".to_owned());
        }
        Ok(Self { from: from.to_owned(), to: to.trim_end_matches('/').to_owned() })
    }

    /// The image's name at the mirror.
    fn name(&self, question: &ImageQuestion) -> Option<String> {
        let path = question.image().strip_prefix(&self.from)?.strip_prefix('/')?;
        Some(format!("{}/{path}", self.to))
    }
}

/// How long all providers may take together: less than the minute that the kubelet waits.
const TOGETHER: Duration = Duration::from_secs(50);

/// The whole program.
pub fn program() -> ExitCode {
    harden::keep_memory_private();
    if let Err(too_few) = harden::require_descriptors() {
        tell(&format!(
            "error: {too_few}\n\nhint: raise the limit, for example with `ulimit -n 1024`\n"
        ));
        return ExitCode::FAILURE;
    }
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    main(&args)
}

/// Answers the kubelet, in a process whose memory is private.
pub fn main(args: &[OsString]) -> ExitCode {
    let args: Args = match parse(NAME, args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    serve_image(|question: &ImageQuestion| logins(&args, question))
}

/// Lets a signal from now on end the provider that runs before it ends us. Most pulls run no provider, and do without
/// the thread that this takes.
fn expect_run() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(signals::watch);
}

/// The command line, for its manual page.
pub fn command() -> clap::Command {
    Args::command()
}

/// Parses the arguments of a provider with this name. `get-credentials`, the argument of the original proposal, is
/// ignored: the request says the same.
pub fn parse<A: Parser>(name: &str, args: &[OsString]) -> Result<A, ExitCode> {
    let own = args.iter().filter(|arg| *arg != "get-credentials").cloned();
    A::try_parse_from(std::iter::once(name.into()).chain(own)).map_err(|wrong| {
        let help = matches!(wrong.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        let _ = wrong.print();
        ExitCode::from(if help { 0 } else { 2 })
    })
}

fn logins(args: &Args, question: &ImageQuestion) -> Result<Logins, Refusal> {
    let surroundings = Surroundings::process();
    let mut metrics = args.metrics.as_deref().map(|path| Textfile::open(path, &args.state));
    let result = configured(args, &surroundings).and_then(|in_force| {
        if let Some(metrics) = &mut metrics {
            metrics.configuration(&in_force.config.hash, in_force.is_newest);
        }
        let names = names(args, question);
        let share = share(&in_force.config, &names);
        let agent = NodeAgent::connect(&surroundings);
        let mut settings = args.place.settings(&surroundings);
        settings.budget = args.timeout.min(share);
        let (clock, observer) = (Arc::new(SystemClock), Arc::new(NoopObserver));
        let images = Images::new(settings, surroundings.clone(), clock, observer);
        let mut images = images.on_own_thread();
        match agent.clone() {
            Some(agent) => images = images.with_sharing(agent, share),
            None => expect_run(),
        }
        let found = lookups(images, &in_force.config, names, question);
        if let Some(metrics) = &mut metrics {
            for found in &found {
                metrics.providers(found);
            }
            metrics.agent(agent.is_some_and(|agent| agent.is_serving()));
        }
        answer(&found, question)
    });
    if let Some(mut metrics) = metrics {
        metrics.pull(result.as_ref().is_ok_and(|logins| !logins.is_empty()), result.is_err());
        if let Err(error) = metrics.save() {
            // Metrics never stop a pull.
            tell(&format!("warning: the metrics cannot be written: {error}\n"));
        }
    }
    result
}

/// The configuration to use.
struct InForce {
    config: Arc<Config>,
    /// Whether it is what the file says now; otherwise the file is broken, and this is what it said before.
    is_newest: bool,
}

/// Reads the configuration. While it is broken, the last valid one stays in force.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing tells a process that lives for one pull that an editor is done"
)]
fn configured(args: &Args, surroundings: &Surroundings) -> Result<InForce, Refusal> {
    let path = args.place.config(surroundings).map_err(|error| refusal(&error))?;
    let reading = args.place.reading(surroundings).map_err(|error| refusal(&error))?;
    let last_good = LastGood { dir: &args.state };
    let reload = |before: Option<Arc<Config>>, path: &Path| {
        let (clock, observer) = (Arc::new(SystemClock), Arc::new(NoopObserver));
        ReloadingConfig::resume(before, reading, path, ReloadPace::default(), clock, observer)
    };
    let mut follow = reload(None, &path);
    // Nearly every pull finds a valid file and does not need the copy.
    if follow.config().is_err() {
        let mut before = reload(None, &last_good.copy()).config().ok();
        if !path.exists() {
            if before.is_some() {
                // Some editors remove a file before they write it.
                thread::sleep(ReloadPace::default().confirm);
            } else if last_good.is_removed() {
                before = Some(Arc::new(Config { providers: Vec::new(), hash: String::new() }));
            }
        }
        follow = reload(before, &path);
    }
    let config = follow.config().map_err(|error| refusal(&error))?;
    for (_, value) in config.providers.iter().flat_map(|provider| &provider.env) {
        redact::remember_value(value);
    }
    let faults = follow.faults();
    match &faults {
        Some(faults) => {
            tell(&format!("warning: the last valid configuration is in force: {faults}\n"));
        }
        None => {
            if let Err(error) = last_good.save(&path, &config.hash) {
                let dir = args.state.display();
                tell(&format!("warning: the configuration cannot be copied to `{dir}`: {error}\n"));
            }
        }
    }
    Ok(InForce { config, is_newest: faults.is_none() })
}

/// How long each provider may take, including the wait for another pull that runs it: they are asked one after another,
/// and together they must answer before the kubelet stops waiting, or the logins that some of them have are lost.
fn share(config: &Config, names: &[String]) -> Duration {
    let asked = |name: &String| {
        let name = Name::parse(name);
        let matches = |provider: &&Arc<Provider>| {
            name.as_ref().is_some_and(|name| provider.index().first(name).is_some())
        };
        config.providers.iter().filter(matches).count()
    };
    let asked = names.iter().map(asked).sum::<usize>().max(1);
    TOGETHER / u32::try_from(asked).unwrap_or(u32::MAX)
}

/// The names that the image is pulled by, in the order of their logins: at its mirrors, then its own.
fn names(args: &Args, question: &ImageQuestion) -> Vec<String> {
    let mirrored = args.mirrors.iter().filter_map(|mirror| mirror.name(question));
    mirrored.chain([question.image().to_owned()]).collect()
}

fn lookups(
    images: Images,
    config: &Config,
    names: Vec<String>,
    question: &ImageQuestion,
) -> Vec<Lookup> {
    let pod = question.token().map(|_| Pod {
        // The kubelet does not say whose token it is; the providers get the token, not the name.
        service_account: "pod".to_owned(),
        ..Pod::default()
    });
    let annotations = question.annotations().map(|(k, v)| (k.to_owned(), v.to_owned()));
    let given = Given { token: question.token().cloned(), annotations: annotations.collect() };
    let images = Arc::new(images.with_accounts(Arc::new(given)));
    names.into_iter().map(|name| images.lookup_name(config, name, pod.as_ref())).collect()
}

/// The logins of all providers that know the image. A provider that fails only matters if no other has a login.
fn answer(lookups: &[Lookup], question: &ImageQuestion) -> Result<Logins, Refusal> {
    let failures = || lookups.iter().flat_map(Lookup::failures);
    for error in failures() {
        tell(&format!("warning: {}\n", redact::redact(&error.to_string())));
    }
    let mut logins = Logins::none();
    let mut keys = Vec::new();
    let found = lookups.iter().flat_map(|lookup| lookup.logins.iter().map(move |l| (lookup, l)));
    for (lookup, found) in found {
        // The kubelet tries a login for the image itself before those for its registry.
        let mirrored = lookup.image != question.image();
        let key = if mirrored { question.image() } else { key(&found.key, question) };
        let name = &found.login.username;
        if name.contains(|c: char| c == ':' || c.is_control()) {
            let provider = &found.provider.name;
            tell(&format!("warning: `{provider}` answered with an unusable user name\n"));
            continue;
        }
        // An answer has one login for a key: the best comes first.
        if keys.contains(&key) {
            continue;
        }
        logins = if found.is_empty() {
            logins.and_anonymous(key)
        } else {
            logins.and(key, name, found.login.password.expose())
        };
        keys.push(key);
    }
    match failures().next() {
        Some(error) if lookups.iter().all(|lookup| lookup.logins.is_empty()) => Err(refusal(error)),
        // The kubelet keeps nothing, so that a change of the configuration counts from the next pull on.
        _ => Ok(logins.kept_for(Duration::ZERO)),
    }
}

/// The key of a login in our answer: the provider's own, unless it is another name of the registry, as Docker Hub has.
fn key<'a>(key: &'a str, question: &'a ImageQuestion) -> &'a str {
    let host = key.split('/').next().unwrap_or(key);
    if host == question.registry() || host.contains('*') { key } else { question.registry() }
}

/// Each error of the chain describes only its own part, so each gets a line.
fn refusal(error: &Error) -> Refusal {
    let mut text = error.to_string();
    for cause in causes(error) {
        _ = write!(text, "\n  {}: {cause}", Error::CAUSE);
    }
    for (label, note) in error.notes() {
        _ = write!(text, "\n  {label}: {note}");
    }
    if let Some(said) = error.stderr().filter(|_| !error.stderr_shown()) {
        _ = write!(text, "\n  it said: {}", said.trim());
    }
    let patience = "`--timeout` says how long a provider may take";
    let usual = (error.kind() == Kind::TimedOut).then_some(patience);
    if let Some(hint) = error.hint().or(usual) {
        _ = write!(text, "\n\nhint: {hint}");
    }
    Refusal::Failed(redact::redact(&text).into_owned())
}

/// Writes a message to stderr. If that fails, nobody can be told.
fn tell(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// The token and the annotations that came with the kubelet's request.
struct Given {
    token: Option<Secret>,
    annotations: BTreeMap<String, String>,
}

impl Accounts for Given {
    fn account(&self, _: &Pod) -> Result<Account, Box<dyn StdError + Send + Sync>> {
        Ok(Account { annotations: self.annotations.clone(), ..Account::default() })
    }

    /// The kubelet's token, if it is for the audience that the provider wants: another service could use it elsewhere.
    fn token(&self, wanted: &TokenRequest<'_>) -> Result<Secret, Box<dyn StdError + Send + Sync>> {
        let token = self.token.clone().ok_or("the request has no token")?;
        let claims = Claims::read(token.expose());
        if claims.is_some_and(|claims| claims.audience().contains(&wanted.audience)) {
            return Ok(token);
        }
        Err(format!("the kubelet's token is not for the audience `{}`", inline(wanted.audience))
            .into())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use keyward_image::{Files, Reading};

    use super::*;

    #[test]
    fn providers_that_match_share_the_time_that_the_kubelet_waits() {
        let entry = "- name: NAME\n  matchImages: [r.io]\n  defaultCacheDuration: 1m\n  \
                     apiVersion: credentialprovider.kubelet.k8s.io/v1\n";
        let shares = |names: &[&str], image: &str| {
            let entries: String = names.iter().map(|name| entry.replace("NAME", name)).collect();
            let text = format!(
                "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n{entries}"
            );
            let files = Files::from_bytes(Path::new("p.yaml"), text.into_bytes());
            let config = Config::from_files_by(&files, Reading::Kubelet).unwrap();
            share(&config, &[image.to_owned()]).as_secs()
        };
        assert_eq!(shares(&["a"], "r.io/app"), 50);
        assert_eq!(shares(&["a", "b"], "r.io/app"), 25);
        assert_eq!(shares(&["a", "b", "c", "d", "e"], "r.io/app"), 10);
        assert_eq!(shares(&["a", "b", "c", "d", "e"], "other.io/app"), 50);
    }
}
