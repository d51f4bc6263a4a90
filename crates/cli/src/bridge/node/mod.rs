//! `keyward-provider-node`: one entry in the kubelet's configuration that asks all other providers.
//!
//! A second configuration, Keyward's own, lists these providers, in the kubelet's form or in that of the original
//! proposal. It is read for every pull, so a change needs no restart of the kubelet.

mod agent;
mod last_good;
mod textfile;

use std::{
    collections::BTreeMap, error::Error as StdError, fmt::Write as _, path::PathBuf,
    process::ExitCode, sync::Arc, time::Duration,
};

use clap::Parser;
use keyward_host::{NoopObserver, ReloadPace, redact};
use keyward_image::{
    Account, Accounts, Config, Images, Lookup, Name, Pod, Provider, ReloadingConfig, TokenRequest,
};
use keyward_plugin::{ImageQuestion, Logins, Refusal, serve_image};
use keyward_process::clock::SystemClock;
use keyward_protocol::{Secret, jwt::Claims, text::inline};

use self::{agent::NodeAgent, last_good::LastGood, textfile::Textfile};
use super::{Bridge, docker::parse};
use crate::{
    commands::image::setup::Place, duration, failure::Failure, flags::Flags, globals::Globals,
    output, signals,
};

/// Ask all image credential providers in a configuration that is read for every pull
///
/// An image credential provider, started by the kubelet. In the kubelet's configuration, name only this provider, for
/// all registries. List the other providers in the configuration that `--config` names, which can change while the
/// kubelet runs.
#[derive(Debug, Parser)]
#[command(name = "keyward-provider-node", version)]
pub(in crate::bridge) struct Args {
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

/// Answers the kubelet.
pub(super) fn main(args: &[std::ffi::OsString]) -> ExitCode {
    let args: Args = match parse(Bridge::Node, args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    signals::watch();
    serve_image(|question: &ImageQuestion| logins(&args, question))
}

fn logins(args: &Args, question: &ImageQuestion) -> Result<Logins, Refusal> {
    let mut globals = Globals::new(Flags::default());
    let mut metrics = args.metrics.as_deref().map(|path| Textfile::open(path, &args.state));
    let result = configured(args, &globals).and_then(|in_force| {
        if let Some(metrics) = &mut metrics {
            metrics.configuration(&in_force.config.hash, in_force.is_newest);
        }
        let names = names(args, question);
        let share = share(&in_force.config, &names);
        globals.flags.plugin_timeout = Some(args.timeout.min(share));
        let agent = NodeAgent::connect(&globals.surroundings);
        let mut images = args.place.images(&globals);
        if let Some(agent) = agent.clone() {
            images = images.with_sharing(agent, share);
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
            output::tell(&format!("warning: the metrics cannot be written: {error}\n"));
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
fn configured(args: &Args, globals: &Globals) -> Result<InForce, Refusal> {
    let path = args.place.config(&globals.surroundings).map_err(|failure| refusal(&failure))?;
    let reading = args.place.reading(&globals.surroundings).map_err(|failure| refusal(&failure))?;
    let last_good = LastGood::in_dir(&args.state);
    let starting_from = |before: Option<Config>| {
        let (clock, observer) = (Arc::new(SystemClock), Arc::new(NoopObserver));
        ReloadingConfig::resume(before, reading, &path, ReloadPace::default(), clock, observer)
    };
    let mut follow = starting_from(None);
    // Nearly every pull finds a valid file and does not need the copy.
    if follow.config().is_err() {
        follow = starting_from(last_good.config(reading));
    }
    let config = follow.config().map_err(|error| refusal(&Failure::from(error)))?;
    for (_, value) in config.providers.iter().flat_map(|provider| &provider.env) {
        redact::remember_value(value);
    }
    let faults = follow.faults();
    match &faults {
        Some(faults) => {
            output::tell(&format!("warning: the last valid configuration is in force: {faults}\n"));
        }
        None => {
            if let Err(error) = last_good.save(&path, &config.hash) {
                let dir = args.state.display();
                output::tell(&format!(
                    "warning: the configuration cannot be copied to `{dir}`: {error}\n"
                ));
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
    let images = Arc::new(images.with_accounts(Arc::new(Given::by(question))));
    names.into_iter().map(|name| images.lookup_name(config, name, pod.as_ref())).collect()
}

/// The logins of all providers that know the image. A provider that fails only matters if no other has a login.
fn answer(lookups: &[Lookup], question: &ImageQuestion) -> Result<Logins, Refusal> {
    let failures = || lookups.iter().flat_map(Lookup::failures);
    for error in failures() {
        output::tell(&format!("warning: {}\n", redact::redact(&error.to_string())));
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
            output::tell(&format!("warning: `{provider}` answered with an unusable user name\n"));
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
        Some(error) if lookups.iter().all(|lookup| lookup.logins.is_empty()) => {
            Err(refusal(&Failure::from(error.clone())))
        }
        // The kubelet keeps nothing, so that a change of the configuration counts from the next pull on.
        _ => Ok(logins.kept_for(Duration::ZERO)),
    }
}

/// The key of a login in our answer: the provider's own, unless it is another name of the registry, as Docker Hub has.
fn key<'a>(key: &'a str, question: &'a ImageQuestion) -> &'a str {
    let host = key.split('/').next().unwrap_or(key);
    if host == question.registry() || host.contains('*') { key } else { question.registry() }
}

fn refusal(failure: &Failure) -> Refusal {
    let mut text = failure.message().to_owned();
    for (label, note) in failure.notes() {
        _ = write!(text, "\n  {label}: {note}");
    }
    if let Some(said) = failure.said() {
        _ = write!(text, "\n  it said: {}", said.trim());
    }
    if let Some(hint) = failure.advice() {
        _ = write!(text, "\n\nhint: {hint}");
    }
    Refusal::Failed(redact::redact(&text).into_owned())
}

/// The token and the annotations that came with the kubelet's request.
struct Given {
    token: Option<Secret>,
    annotations: BTreeMap<String, String>,
}

impl Given {
    fn by(question: &ImageQuestion) -> Self {
        let annotations = question.annotations().map(|(k, v)| (k.to_owned(), v.to_owned()));
        Self { token: question.token().cloned(), annotations: annotations.collect() }
    }
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
