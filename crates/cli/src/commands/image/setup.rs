//! Finds the configured providers and their settings: for the commands, and for the bridges, which
//! have no flags and take both from the environment.

use std::sync::Arc;

use keyward_host::{Error, NoopObserver, ReloadPace, redact};
use keyward_image::{Config, Images, Lookup, Pod, ReloadingConfig};
pub(crate) use keyward_node::{Place, trusted_by_environment};
use keyward_process::clock::SystemClock;

use super::pod::PodArgs;
use crate::{failure::Failure, globals::Globals, output::inline, waiting::Waiting};

/// An [`Images`] that asks the providers of a place, as the flags say.
pub(crate) fn images(place: &Place, globals: &Globals) -> Images {
    let mut settings = place.settings(&globals.surroundings);
    settings.environment = globals.environment();
    settings.trusted.splice(..0, globals.flags.trust_plugin.clone());
    if let Some(budget) = globals.flags.plugin_timeout {
        settings.budget = budget;
    }
    let surroundings = globals.surroundings.clone();
    Images::new(settings, surroundings, Arc::new(SystemClock), Arc::new(NoopObserver))
}

/// A place that is not given, or not in the right form.
pub(crate) fn usage(error: &Error) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The providers and their configuration, which may change at any time.
pub(crate) struct Setup {
    follow: ReloadingConfig,
    images: Arc<Images>,
    /// The pod that pulls, if given.
    pub(super) pod: Option<Pod>,
}

impl Setup {
    /// Reads the configuration. Runs nothing. Fails if there is no valid one.
    pub(crate) fn open(place: &Place, globals: &Globals) -> Result<Self, Failure> {
        Self::open_for(place, &PodArgs::default(), globals)
    }

    /// Like [`open`](Self::open), for a pod; may ask the cluster about it.
    pub(crate) fn open_for(
        place: &Place,
        pod: &PodArgs,
        globals: &Globals,
    ) -> Result<Self, Failure> {
        let path = place.config(&globals.surroundings).map_err(|error| usage(&error))?;
        let mut images = images(place, globals);
        let (pod, accounts) = pod.find(globals)?.unzip();
        if let Some(accounts) = accounts {
            images = images.with_accounts(accounts);
        }
        let reading = place.reading(&globals.surroundings).map_err(|error| usage(&error))?;
        let (clock, observer) = (Arc::new(SystemClock), Arc::new(NoopObserver));
        let follow = ReloadingConfig::new(reading, path, ReloadPace::default(), clock, observer);
        let setup = Self { follow, images: Arc::new(images), pod };
        setup.config()?;
        Ok(setup)
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Result<Arc<Config>, Failure> {
        let config = self.follow.config()?;
        for (_, value) in config.providers.iter().flat_map(|provider| &provider.env) {
            redact::remember_value(value);
        }
        Ok(config)
    }

    /// The logins for an image under the configuration in force.
    pub(crate) fn lookup(&self, image: &str) -> Result<Lookup, Failure> {
        Ok(self.images.lookup(&*self.config()?, image, self.pod.as_ref())?)
    }

    /// Tells a person at the terminal that providers are asked about these images, if it takes long.
    pub(crate) fn waiting(images: &[String]) -> Waiting {
        Waiting::on(match images {
            [image] => format!("the image credential providers, for `{}`", inline(image)),
            many => format!("the image credential providers, for {} images", many.len()),
        })
    }

    /// The [`Images`] that asks the providers.
    pub(crate) fn images(&self) -> &Arc<Images> {
        &self.images
    }
}
