//! From an image to its logins.
//!
//! ```text
//! image ──► name ──► providers that match ──► answers ──► keyring ──► logins, best first
//!      normalise                  cache, flight, run          lookup
//! ```

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use keyward_host::{Error, Kind, Observer, SingleFlight, Waiter, redact, rules::Program};
use keyward_process::{clock::SharedClock, lock, surroundings::Surroundings};
use keyward_protocol::{Secret, image::token_expiry, text::inline};

use super::{
    Config, Keyring, Name, Pod, Reading, Settings,
    account::{Accounts, TokenRequest},
    answer::{Answer, Scope},
    cache::{Cache, Key},
    config::{Provider, TokenCache},
    failure::needed_by,
    lookup::{FoundLogin, Lookup, Outcome, ProviderResult},
    normalise,
    provider::{Runner, Told},
    question::{Client, Question, annotations, with_token},
    shared::{SharedQuestion, SharedStore, Sharing},
};

/// Asks image credential providers, and caches their answers.
///
/// A cached answer belongs to a provider with its exact configuration, so a changed configuration
/// loses only the answers of the providers that changed.
pub struct Images {
    runner: Runner,
    accounts: Option<Arc<dyn Accounts>>,
    cache: Cache<Answer>,
    /// Runs in progress, by question. No foreign code runs under this lock, nor under the next.
    flights: Mutex<HashMap<Key, SingleFlight<Shared>>>,
    /// The known cache keys of providers.
    known: Mutex<HashMap<Key, Scope>>,
    /// Where answers are shared with other processes.
    sharing: Option<Sharing>,
    /// Whether a provider runs on the thread that asks.
    on_own_thread: bool,
    /// The tokens of pods, so that no new one is requested while the old one or its answer is
    /// valid.
    tokens: Cache<Held>,
}

/// A token of a pod.
struct Held {
    /// The part of the cache key that stands for the token.
    hash: Key,
    /// The token itself, if it contains its expiry.
    token: Option<Secret>,
}

type Shared = Result<Arc<Answer>, Failed>;

/// A run that failed.
#[derive(Clone)]
struct Failed {
    /// The image that the provider was asked for.
    image: String,
    error: Error,
}

impl Images {
    /// An empty cache.
    pub fn new(
        settings: Settings,
        surroundings: Surroundings,
        clock: SharedClock,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let most = settings.most;
        Self {
            cache: Cache::new(Arc::clone(&clock), most),
            tokens: Cache::new(Arc::clone(&clock), most),
            runner: Runner { settings, surroundings, clock, observer },
            accounts: None,
            sharing: None,
            on_own_thread: false,
            flights: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Asks the cluster about service accounts through `accounts`.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Arc<dyn Accounts>) -> Self {
        self.accounts = Some(accounts);
        self
    }

    /// Shares runs and answers with other processes through `store`. `within` is how long a provider may take
    /// including the wait for the run of another process; its own run still has its own budget.
    ///
    /// An answer for a pod then belongs to the token that it was got with: whoever shows another token gets nothing of
    /// it, whatever that token says about itself.
    #[must_use]
    pub fn with_sharing(mut self, store: Arc<dyn SharedStore>, within: Duration) -> Self {
        self.sharing = Some(Sharing { store, within });
        self
    }

    /// Runs providers on the thread that asks, for a process that asks one question and ends. Questions of several
    /// threads then share no runs.
    #[must_use]
    pub fn on_own_thread(mut self) -> Self {
        self.on_own_thread = true;
        self
    }

    /// The program that a provider would be run as.
    pub fn locate(&self, provider: &Provider) -> Result<Program, Error> {
        self.runner.locate(provider)
    }

    /// The logins for an image as people write it. Blocks while providers run; a failed provider
    /// does not affect the others.
    pub fn lookup(
        self: &Arc<Self>,
        config: &Config,
        image: &str,
        pod: Option<&Pod>,
    ) -> Result<Lookup, Error> {
        let name = normalise(image).map_err(|wrong| {
            let shown = inline(image);
            Error::new(Kind::BadConfig, format!("`{shown}` cannot be pulled")).because(wrong)
        })?;
        Ok(self.lookup_name(config, name, pod))
    }

    /// The logins for a name that is matched unchanged, such as a registry's `host:port`.
    pub fn lookup_name(
        self: &Arc<Self>,
        config: &Config,
        name: String,
        pod: Option<&Pod>,
    ) -> Lookup {
        let parsed = Name::parse(&name);
        // If providers are matched by whole segments, so are their answers.
        let strict = config.providers.iter().any(|p| p.reading() == Reading::Segments);
        let mut keyring = Keyring::new(if strict { Reading::Segments } else { Reading::Kubelet });
        let mut results = Vec::new();
        for provider in &config.providers {
            let pattern = parsed.as_ref().and_then(|parsed| provider.index().first(parsed));
            let outcome = match pattern {
                None => Outcome::NoMatch,
                Some(_) => self.ask(provider, &name, pod),
            };
            if let Some(answer) = outcome.answer() {
                let logins = answer.auth.iter();
                keyring.add(logins.map(|(key, login)| (key.clone(), (login.clone(), provider))));
            }
            results.push(ProviderResult { provider: Arc::clone(provider), pattern, outcome });
        }
        let account = |provider: &Provider| {
            provider.tokens.as_ref()?;
            let pod = pod.filter(|pod| !pod.service_account.is_empty())?;
            Some((pod.namespace.clone(), pod.service_account.clone()))
        };
        let logins = keyring.lookup(&name).into_iter();
        let logins = logins
            .map(|(key, (login, provider))| FoundLogin {
                key: key.to_owned(),
                login: login.clone(),
                provider: Arc::clone(provider),
                account: account(provider),
            })
            .collect();
        Lookup { image: name, logins, results }
    }

    fn ask(self: &Arc<Self>, provider: &Arc<Provider>, image: &str, pod: Option<&Pod>) -> Outcome {
        let client = match self.client(provider, pod) {
            Ok(client) => client,
            Err(outcome) => return outcome,
        };
        let question = Question {
            provider: Arc::clone(provider),
            image: image.to_owned(),
            client,
            alone: false,
        };
        match self.answer(question.clone()) {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(provider = provider.name, %error, "a provider failed");
                match self.cache.last_good(&self.keys(&question)) {
                    Some(answer) => Outcome::LastGood(answer, error),
                    None => Outcome::Failed(error),
                }
            }
        }
    }

    /// The client: nobody in particular, or a service account (SA-01 to SA-05).
    fn client(&self, provider: &Provider, pod: Option<&Pod>) -> Result<Client, Outcome> {
        let Some(attributes) = &provider.tokens else { return Ok(Client::default()) };
        let pod = pod.filter(|pod| !pod.service_account.is_empty());
        let Some(pod) = pod else {
            if attributes.require {
                let reason = "it needs a service account and there is none";
                return Err(Outcome::Skipped(reason.to_owned()));
            }
            return Ok(Client::default());
        };
        let failed = |what: &str| {
            Error::new(Kind::Failed, what.to_owned())
                .needed_by(needed_by(provider))
                .note("service account", format!("{}/{}", pod.namespace, pod.service_account))
        };
        let Some(accounts) = &self.accounts else {
            let error = failed("there is no access to service accounts");
            return Err(Outcome::Failed(error));
        };
        let account = accounts.account(pod).map_err(|source| {
            Outcome::Failed(
                failed("the service account cannot be read").note("cause", source.to_string()),
            )
        })?;
        let annotations = annotations(attributes, &account).map_err(Outcome::Skipped)?;
        Ok(Client { account: Some((pod.clone(), account, attributes.clone())), annotations })
    }

    /// An answer from the cache, or from a run that others may share.
    fn answer(self: &Arc<Self>, mut question: Question) -> Result<Outcome, Error> {
        loop {
            if let Some(kept) = self.kept(&question) {
                return Ok(kept);
            }
            let answer = if self.on_own_thread {
                self.run(&question)?
            } else {
                let waiter = match self.join(&question, self.sharing(&question)) {
                    Err(kept) => return Ok(kept),
                    Ok(waiter) => waiter,
                };
                match waiter.wait(None).unwrap_or_else(no_result) {
                    Ok(answer) => answer,
                    Err(failed) if question.alone || failed.image == question.image => {
                        return Err(failed.error);
                    }
                    // A provider may refuse one image and have a login for the next.
                    Err(_) => {
                        question.alone = true;
                        continue;
                    }
                }
            };
            // A caller that shared a run for a registry may find that the answer is for another
            // image only; then it must ask again.
            if question.covered(&answer) {
                let scope = answer.scope;
                return Ok(match answer.runs {
                    0 => Outcome::Kept(answer, scope),
                    _ => Outcome::Answered(answer),
                });
            }
            question.alone = true;
        }
    }

    fn kept(&self, question: &Question) -> Option<Outcome> {
        let (number, answer) = self.cache.find(&self.keys(question))?;
        Some(Outcome::Kept(answer, Scope::ALL[number]))
    }

    /// The other images that a run may answer for: as in the provider's last answer, or as its
    /// configuration declares.
    fn sharing(&self, question: &Question) -> Scope {
        if question.alone {
            return Scope::Image;
        }
        let learnt = lock(&self.known).get(&question.provider_key()).copied();
        learnt.or(question.provider.known_key).unwrap_or(Scope::Image)
    }

    fn join(
        self: &Arc<Self>,
        question: &Question,
        sharing: Scope,
    ) -> Result<Waiter<Shared>, Outcome> {
        let key = question.key(sharing, &question.client_key());
        let images = Arc::clone(self);
        let asked = question.clone();
        let mut flights = lock(&self.flights);
        let flight = flights.entry(key).or_insert_with(|| SingleFlight::new(no_result));
        flight.run_unless(
            || self.kept(question),
            move || {
                let result = images.run(&asked);
                let result = result.map_err(|error| Failed { image: asked.image, error });
                // Whoever comes from now on finds the answer in the cache, or asks afresh.
                lock(&images.flights).remove(&key);
                result
            },
        )
    }

    fn run(&self, question: &Question) -> Result<Arc<Answer>, Error> {
        let provider = &question.provider;
        let told = self.tell(question)?;
        let answer = match &self.sharing {
            Some(sharing) => self.run_shared(sharing, question, &told)?,
            None => self.runner.ask(provider, &question.image, &told)?,
        };
        self.learn(question, &answer);
        let answer = Arc::new(answer);
        let Some(time) = answer.kept_for else { return Ok(answer) };
        let mut client = question.client_key();
        if let (Some(token), Some(TokenCache::Token)) = (&told.token, question.cache()) {
            let hash = Key::of([token.expose().as_bytes()]);
            if token_expiry(token.expose()).is_none() {
                let held = Held { hash, token: None };
                self.tokens.put(client, &Arc::new(held), time, None);
            }
            client = with_token(&client, &hash);
        }
        let key = question.key(answer.scope, &client);
        self.cache.put(key, &answer, time, answer.own_expiry());
        Ok(answer)
    }

    /// Like [`Images::run`], for several processes. If the provider fails, its last answer that is still valid
    /// becomes ours.
    fn run_shared(
        &self,
        sharing: &Sharing,
        question: &Question,
        told: &Told,
    ) -> Result<Answer, Error> {
        let provider = &question.provider;
        let program = self.runner.locate_or_report(provider)?;
        let hash = told.token.as_ref().map(|token| Key::of([token.expose().as_bytes()]));
        let own = question.client_key();
        let client = hash.map_or(own, |hash| with_token(&own, &hash));
        let now = self.runner.clock.wall_millis();
        let shared = SharedQuestion::new(sharing, question, &program, &client, now);
        let result = shared.obtain(self.runner.settings.budget, |budget| {
            self.runner.ask_program(provider, &program, &question.image, told, budget)
        });
        if result.is_err()
            && let Some(good) = shared.last_good()
        {
            let client = if question.cache() == Some(TokenCache::Token) { client } else { own };
            let (key, end) = (question.key(good.scope, &client), good.own_expiry());
            self.cache.put(key, &Arc::new(good), Duration::ZERO, end);
        }
        result
    }

    /// The token is requested only here, after the cache had no usable answer (SA-01 is wasteful).
    fn tell(&self, question: &Question) -> Result<Told, Error> {
        let Some((pod, account, attributes)) = &question.client.account else {
            return Ok(Told::default());
        };
        let Some(accounts) = &self.accounts else { return Ok(Told::default()) };
        let told = |token| Told {
            token: Some(token),
            annotations: question.client.annotations.clone(),
            shared: attributes.cache == TokenCache::ServiceAccount,
        };
        let client = question.client_key();
        let held = || self.tokens.find(&[client]).and_then(|(_, held)| held.token.clone());
        if let (TokenCache::Token, Some(token)) = (attributes.cache, held()) {
            return Ok(told(token));
        }
        let request = TokenRequest { pod, account, audience: &attributes.audience };
        let token = accounts.token(&request).map_err(|source| {
            Error::new(Kind::Failed, "cannot get a token of the service account")
                .note("needed by", needed_by(&question.provider))
                .note("service account", format!("{}/{}", pod.namespace, pod.service_account))
                .note("cause", source.to_string())
                .with_hint("`keyward image lint` prints the permission that nodes need for it")
        })?;
        // It may be valid for longer than it is cached; servers grant a day at most by default.
        redact::remember(&token, Some(Duration::from_secs(24 * 3600)));
        if attributes.cache == TokenCache::Token {
            self.hold(client, &token);
        }
        Ok(told(token))
    }

    /// Caches a pod's token for four fifths of its lifetime, as the kubelet does, if it contains
    /// its expiry: so a lookup of another image does not lose the answers for the first.
    fn hold(&self, client: Key, token: &Secret) {
        let Some(end) = token_expiry(token.expose()) else { return };
        let rest = end.saturating_sub(self.runner.clock.now().as_second());
        let rest = Duration::from_secs(u64::try_from(rest).unwrap_or_default());
        let held = Held { hash: Key::of([token.expose().as_bytes()]), token: Some(token.clone()) };
        self.tokens.put(client, &Arc::new(held), rest * 4 / 5, None);
    }

    fn learn(&self, question: &Question, answer: &Answer) {
        let mut known = lock(&self.known);
        match answer.scope {
            Scope::Image => _ = known.remove(&question.provider_key()),
            scope => _ = known.insert(question.provider_key(), scope),
        }
    }

    /// The keys that an answer may be cached under, in lookup order.
    fn keys(&self, question: &Question) -> [Key; 3] {
        let mut client = question.client_key();
        if question.cache() == Some(TokenCache::Token) {
            // Without a cached token there can be no cached answer.
            let hash = self.tokens.find(&[client]);
            client = with_token(&client, &hash.map_or(Key::of([]), |(_, held)| held.hash));
        }
        Scope::ALL.map(|scope| question.key(scope, &client))
    }
}

fn no_result() -> Shared {
    Err(Failed { image: String::new(), error: lost() })
}

fn lost() -> Error {
    Error::new(Kind::Failed, "the provider's run was lost")
}

impl Images {
    /// Starts a lookup on a pooled thread.
    pub fn begin(
        self: &Arc<Self>,
        config: &Arc<Config>,
        image: String,
        pod: Option<Pod>,
    ) -> Waiter<Result<Arc<Lookup>, Error>> {
        let (images, config) = (Arc::clone(self), Arc::clone(config));
        SingleFlight::new(|| Err(lost()))
            .run(move || images.lookup(&config, &image, pod.as_ref()).map(Arc::new))
    }
}
