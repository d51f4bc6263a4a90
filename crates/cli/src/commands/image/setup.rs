//! Finds the configured providers and their settings: for the commands, and for the bridges, which
//! have no flags and take both from the environment.

use std::{path::PathBuf, sync::Arc};

use keyward_host::{NoopObserver, ReloadPace, redact};
use keyward_image::{Config, Images, Lookup, Pod, Reading, ReloadingConfig, Settings};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};

use super::pod::PodArgs;
use crate::{failure::Failure, globals::Globals, output::inline, waiting::Waiting};

/// The variable with the configuration, if no flag gives it.
pub(crate) const CONFIG: &str = "KEYWARD_IMAGE_CONFIG";
/// The variable with the directory of the programs, if no flag gives it.
pub(crate) const BIN_DIR: &str = "KEYWARD_IMAGE_BIN_DIR";

/// The variable that enables matching by whole segments.
pub(crate) const SEGMENTS: &str = "KEYWARD_IMAGE_SEGMENTS";

/// The variable that trusts programs although others could change them; for the bridges, which have
/// no flags.
pub(crate) const TRUST: &str = "KEYWARD_TRUST_PLUGIN";

/// The configuration and programs of the providers. Without flags ([`Place::default`]) they come
/// from the environment.
///
/// Not a clap group: it would have the same name as the command's own.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Place {
    /// The provider configuration, a file or a directory of files, instead of
    /// `$KEYWARD_IMAGE_CONFIG`
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,

    /// The directory of the providers' programs, instead of `$KEYWARD_IMAGE_BIN_DIR`; without
    /// either, they are looked up in $PATH
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,

    /// Match whole path segments, which is stricter than the kubelet: `/team` does not match
    /// `/teammates`; instead of `$KEYWARD_IMAGE_SEGMENTS`
    #[arg(long)]
    segments: bool,
}

impl Place {
    /// The configuration at this path, with programs in this directory.
    pub(crate) fn at(config: PathBuf, bin_dir: PathBuf) -> Self {
        Self { config: Some(config), bin_dir: Some(bin_dir), segments: false }
    }

    /// How patterns in the kubelet's form are matched.
    pub(crate) fn reading(&self, surroundings: &Surroundings) -> Result<Reading, Failure> {
        let said = surroundings.var(SEGMENTS).unwrap_or_default();
        match said.to_str() {
            _ if self.segments => Ok(Reading::Strict),
            Some("1" | "true") => Ok(Reading::Strict),
            Some("" | "0" | "false") => Ok(Reading::Kubelet),
            _ => Err(Failure::usage(format!("`{SEGMENTS}` must be `true` or `false`"))),
        }
    }

    /// The file or directory of the configuration.
    pub(crate) fn config(&self, surroundings: &Surroundings) -> Result<PathBuf, Failure> {
        said(self.config.as_ref(), CONFIG, surroundings).ok_or_else(|| {
            Failure::usage("no provider configuration given")
                .hint(format!("`--config` or `{CONFIG}` names the file, as for the kubelet"))
        })
    }

    /// An [`Images`] that asks the providers.
    pub(crate) fn images(&self, globals: &Globals) -> Images {
        let mut settings =
            Settings { bin_dir: self.bin_dir(&globals.surroundings), ..Settings::default() };
        settings.environment = globals.environment();
        settings.trusted = trusted(globals);
        if let Some(budget) = globals.flags.plugin_timeout {
            settings.budget = budget;
        }
        let surroundings = globals.surroundings.clone();
        Images::new(settings, surroundings, Arc::new(SystemClock), Arc::new(NoopObserver))
    }

    /// The directory of the programs; `None` means `PATH`.
    pub(crate) fn bin_dir(&self, surroundings: &Surroundings) -> Option<PathBuf> {
        said(self.bin_dir.as_ref(), BIN_DIR, surroundings)
    }
}

/// Programs that run although others could change them: those of the flag and of the variable,
/// which lists them as `PATH` lists directories.
fn trusted(globals: &Globals) -> Vec<PathBuf> {
    let mut trusted = globals.flags.trust_plugin.clone();
    trusted.extend(trusted_by_environment(&globals.surroundings));
    trusted
}

/// The programs in [`TRUST`].
pub(crate) fn trusted_by_environment(surroundings: &Surroundings) -> Vec<PathBuf> {
    let listed = surroundings.var(TRUST).unwrap_or_default();
    std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// The flag, else the variable. An empty value counts as unset.
fn said(flag: Option<&PathBuf>, variable: &str, surroundings: &Surroundings) -> Option<PathBuf> {
    let variable = || surroundings.var(variable).map(PathBuf::from);
    let full = |path: &PathBuf| !path.as_os_str().is_empty();
    flag.cloned().filter(full).or_else(|| variable().filter(full))
}

/// The providers and their configuration, which may change at any time.
pub(crate) struct Setup {
    follow: ReloadingConfig,
    images: Arc<Images>,
    pod: Option<Pod>,
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
        let path = place.config(&globals.surroundings)?;
        let mut images = place.images(globals);
        let puller = pod.find(globals)?;
        if let Some(puller) = &puller {
            images = images.with_accounts(Arc::clone(&puller.accounts));
        }
        let reading = place.reading(&globals.surroundings)?;
        let (clock, observer) = (Arc::new(SystemClock), Arc::new(NoopObserver));
        let follow = ReloadingConfig::new(reading, path, ReloadPace::default(), clock, observer);
        let pod = puller.map(|puller| puller.pod);
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
        Ok(self.images.lookup(&*self.config()?, image, self.pod())?)
    }

    /// Tells a person at the terminal that providers are asked about these images, if it takes long.
    pub(crate) fn waiting(images: &[String]) -> Waiting {
        Waiting::on(match images {
            [image] => format!("the image credential providers, for `{}`", inline(image)),
            many => format!("the image credential providers, for {} images", many.len()),
        })
    }

    /// The pod that pulls, if given.
    pub(crate) fn pod(&self) -> Option<&Pod> {
        self.pod.as_ref()
    }

    /// The [`Images`] that asks the providers.
    pub(crate) fn images(&self) -> &Arc<Images> {
        &self.images
    }
}
