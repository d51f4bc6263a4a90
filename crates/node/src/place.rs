//! Where the configured providers are: flags and variables that `keyward image` has too.

use std::path::PathBuf;

use keyward_host::{Error, Kind};
use keyward_image::{Reading, Settings};
use keyward_process::surroundings::Surroundings;

/// The variable with the configuration, if no flag gives it.
const CONFIG: &str = "KEYWARD_IMAGE_CONFIG";
/// The variable with the directory of the programs, if no flag gives it.
const BIN_DIR: &str = "KEYWARD_IMAGE_BIN_DIR";
/// The variable that enables matching by whole segments.
const SEGMENTS: &str = "KEYWARD_IMAGE_SEGMENTS";
/// The variable that trusts programs although others could change them; for the bridges, which have no flags.
const TRUST: &str = "KEYWARD_TRUST_PLUGIN";

/// The configuration and programs of the providers. Without flags ([`Place::default`]) they come from the environment.
///
/// Not a clap group: it would have the same name as the command's own.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Place {
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
    pub fn at(config: PathBuf, bin_dir: PathBuf) -> Self {
        Self { config: Some(config), bin_dir: Some(bin_dir), segments: false }
    }

    /// How patterns in the kubelet's form are matched.
    pub fn reading(&self, surroundings: &Surroundings) -> Result<Reading, Error> {
        let said = surroundings.var(SEGMENTS).unwrap_or_default();
        match said.to_str() {
            _ if self.segments => Ok(Reading::Segments),
            Some("1" | "true") => Ok(Reading::Segments),
            Some("" | "0" | "false") => Ok(Reading::Kubelet),
            _ => {
                let wrong = format!("`{SEGMENTS}` must be `true` or `false`");
                Err(Error::new(Kind::BadConfig, wrong))
            }
        }
    }

    /// The file or directory of the configuration.
    pub fn config(&self, surroundings: &Surroundings) -> Result<PathBuf, Error> {
        said(self.config.as_ref(), CONFIG, surroundings).ok_or_else(|| {
            Error::new(Kind::BadConfig, "no provider configuration given")
                .with_hint(format!("`--config` or `{CONFIG}` names the file, as for the kubelet"))
        })
    }

    /// How providers are run.
    pub fn settings(&self, surroundings: &Surroundings) -> Settings {
        Settings {
            bin_dir: self.bin_dir(surroundings),
            trusted: trusted_by_environment(surroundings),
            ..Settings::default()
        }
    }

    /// The directory of the programs; `None` means `PATH`.
    pub fn bin_dir(&self, surroundings: &Surroundings) -> Option<PathBuf> {
        said(self.bin_dir.as_ref(), BIN_DIR, surroundings)
    }
}

/// Programs that run although others could change them, from a variable that lists them as `PATH` lists directories.
pub fn trusted_by_environment(surroundings: &Surroundings) -> Vec<PathBuf> {
    let listed = surroundings.var(TRUST).unwrap_or_default();
    std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// The flag, else the variable. An empty value counts as unset.
fn said(flag: Option<&PathBuf>, variable: &str, surroundings: &Surroundings) -> Option<PathBuf> {
    let variable = || surroundings.var(variable).map(PathBuf::from);
    let full = |path: &PathBuf| !path.as_os_str().is_empty();
    flag.cloned().filter(full).or_else(|| variable().filter(full))
}
