//! Finds the configured providers and their settings: for the commands, and for the bridges, which
//! have no flags and take both from the environment.

use std::{path::PathBuf, sync::Arc};

use keyward_host::{NoopObserver, ReloadPace, redact};
use keyward_image::{Config, Images, Lookup, Pod, Reading, ReloadingConfig, Settings};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};

use super::pod::PodArgs;
use crate::{failure::Failure, globals::Globals};

/// The variable that names the configuration where no flag does.
pub(crate) const CONFIG: &str = "KEYWARD_IMAGE_CONFIG";
/// The variable that names the folder of the programs where no flag does.
pub(crate) const BIN_DIR: &str = "KEYWARD_IMAGE_BIN_DIR";

/// The variable that asks for whole segments where no flag does.
pub(crate) const SEGMENTS: &str = "KEYWARD_IMAGE_SEGMENTS";

/// The variable that trusts programs although others could change them, for the bridges, which have no
/// flags.
pub(crate) const TRUST: &str = "KEYWARD_TRUST_PLUGIN";

/// Where the providers are. Without flags ([`Place::default`]) the environment says it.
///
/// No group of clap's: it would have the name of the command's own.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Place {
    /// The configuration of the providers, a file or a directory of files, instead of
    /// `$KEYWARD_IMAGE_CONFIG`
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,

    /// The directory of the providers' programs, instead of `$KEYWARD_IMAGE_BIN_DIR`; without either
    /// they are looked for in $PATH
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,

    /// Let a pattern's path end where a segment of the image's path ends, stricter than the kubelet:
    /// `/team` does not mean `/teammates`; instead of `$KEYWARD_IMAGE_SEGMENTS`
    #[arg(long)]
    segments: bool,
}

impl Place {
    /// How the patterns of the kubelet's form are read.
    pub(crate) fn reading(&self, surroundings: &Surroundings) -> Result<Reading, Failure> {
        let said = surroundings.var(SEGMENTS).unwrap_or_default();
        match said.to_str() {
            _ if self.segments => Ok(Reading::Strict),
            Some("1" | "true") => Ok(Reading::Strict),
            Some("" | "0" | "false") => Ok(Reading::Kubelet),
            _ => Err(Failure::usage(format!("`{SEGMENTS}` must be `true` or `false`"))),
        }
    }

    /// The file or folder of the configuration.
    pub(crate) fn config(&self, surroundings: &Surroundings) -> Result<PathBuf, Failure> {
        said(self.config.as_ref(), CONFIG, surroundings).ok_or_else(|| {
            Failure::usage("no provider configuration given")
                .hint(format!("`--config` or `{CONFIG}` names the file, as for the kubelet"))
        })
    }

    /// Who asks the providers, whatever they are.
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

    /// The folder of the programs; `None` is to look in `PATH`.
    pub(crate) fn bin_dir(&self, surroundings: &Surroundings) -> Option<PathBuf> {
        said(self.bin_dir.as_ref(), BIN_DIR, surroundings)
    }
}

/// Programs that run although others could change them: what the flag says, and the variable, which
/// lists them as `PATH` lists directories.
fn trusted(globals: &Globals) -> Vec<PathBuf> {
    let mut trusted = globals.flags.trust_plugin.clone();
    trusted.extend(trusted_by_environment(&globals.surroundings));
    trusted
}

/// What [`TRUST`] lists.
pub(crate) fn trusted_by_environment(surroundings: &Surroundings) -> Vec<PathBuf> {
    let listed = surroundings.var(TRUST).unwrap_or_default();
    std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// A flag, or else the variable. An empty text says nothing.
fn said(flag: Option<&PathBuf>, variable: &str, surroundings: &Surroundings) -> Option<PathBuf> {
    let variable = || surroundings.var(variable).map(PathBuf::from);
    let full = |path: &PathBuf| !path.as_os_str().is_empty();
    flag.cloned().filter(full).or_else(|| variable().filter(full))
}

/// Providers that can be asked, and their configuration, which may change while they are.
pub(crate) struct Setup {
    follow: ReloadingConfig,
    images: Arc<Images>,
    pod: Option<Pod>,
}

impl Setup {
    /// Reads the configuration. Runs nothing. Fails when there is none that is good.
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

    /// The configuration in force now.
    pub(crate) fn config(&self) -> Result<Arc<Config>, Failure> {
        let config = self.follow.config()?;
        for (_, value) in config.providers.iter().flat_map(|provider| &provider.env) {
            redact::remember_value(value);
        }
        Ok(config)
    }

    /// The logins for an image, under the configuration in force now.
    pub(crate) fn lookup(&self, image: &str) -> Result<Lookup, Failure> {
        Ok(self.images.lookup(&*self.config()?, image, self.pod())?)
    }

    /// The pod that pulls, if one was named.
    pub(crate) fn pod(&self) -> Option<&Pod> {
        self.pod.as_ref()
    }

    /// Who asks the providers.
    pub(crate) fn images(&self) -> &Arc<Images> {
        &self.images
    }
}
