use std::path::PathBuf;

use keyward_host::{Kubeconfig, Plan, Target};
use keyward_process::surroundings::Surroundings;

use crate::Error;

/// What a proxy serves: the kubeconfig and the plugin policy as they are now.
///
/// A proxy calls these functions again whenever one of the [files](Config::files) changes.
pub trait Config: Send + Sync + 'static {
    /// The environment of the proxy: its home, its runtime directory.
    fn surroundings(&self) -> &Surroundings;

    /// The files that [`kubeconfig`](Config::kubeconfig) and [`plan`](Config::plan) read, whether or not
    /// they exist.
    fn files(&self) -> Vec<PathBuf>;

    /// Reads the kubeconfig.
    fn kubeconfig(&self) -> Result<Kubeconfig, Error>;

    /// The cluster and user of a context; for `None`, of the current one.
    fn target(&self, kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<Target, Error>;

    /// How the target's user gets credentials. Runs nothing.
    fn plan(&self, target: Target) -> Result<Plan, Error>;
}
