use std::path::PathBuf;

use keyward::client::{Builder, Opened};
use keyward_host::{Kubeconfig, Sources, Target};
use keyward_process::surroundings::Surroundings;

use crate::Error;

/// The configuration of a proxy: the current kubeconfig and plugin policy.
///
/// A proxy calls these functions again whenever one of the [files](Config::files) changes.
pub trait Config: Send + Sync + 'static {
    /// The environment of the proxy: its home, its runtime directory.
    fn surroundings(&self) -> &Surroundings;

    /// The files that [`kubeconfig`](Config::kubeconfig) and [`open`](Config::open) read, whether or not
    /// they exist.
    fn files(&self) -> Vec<PathBuf>;

    /// Reads the kubeconfig.
    fn kubeconfig(&self) -> Result<Kubeconfig, Error>;

    /// The cluster and user of a context; for `None`, of the current one.
    fn target(&self, kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<Target, Error>;

    /// A client for the target's server, as its user, with the settings of `builder` and the
    /// credentials of `sources`. Runs no plugin and opens no connection.
    fn open(&self, target: Target, builder: Builder, sources: &Sources) -> Result<Opened, Error>;
}
