use std::{borrow::Cow, sync::Arc};

use keyward_process::{clock::SharedClock, runner::Output};

use super::{Runner, Watch};
use crate::{
    Credential, Error, Plan,
    cell::{Fetch, Fetched, Occasion},
    plan::Choice,
    plugin::counted,
};

/// The plugin of one plan, for programs that decide themselves who runs it and keep what it brings.
///
/// [`Fetch::fetch`] runs it here; [`PluginRunner::accept`] takes what another process got by running
/// it.
pub struct PluginRunner(Runner);

impl PluginRunner {
    pub(crate) fn new(plan: Plan, clock: SharedClock, watch: Watch) -> Option<Self> {
        let Choice::Exec(plugin) = plan.choice() else { return None };
        let plugin = Arc::clone(plugin);
        Some(Self(Runner::new(plugin, plan, clock, watch)))
    }

    /// The credential in the output of a run that another process made, checked and counted as one of
    /// our own runs is.
    pub fn accept(&self, output: &Output) -> Result<Fetched<Credential>, Error> {
        let observer = &self.0.watch.observer;
        let (code, status, took) = counted(Ok(output));
        observer.ran(self.0.plugin.command(), code, status, took);
        let result = self.read(output);
        observer.refreshed(took, result.is_ok());
        result
    }

    fn read(&self, output: &Output) -> Result<Fetched<Credential>, Error> {
        let Runner { plan, plugin, .. } = &self.0;
        let (run, request) = plugin.prepare(&plan.context(), true, None)?;
        if output.status.success() {
            self.0.read(&run, &request, output, None)
        } else {
            Err(run.ended(output.status, &output.stderr, &output.stdout))
        }
        .map_err(|error| error.needed_by(plan.needed_by()))
    }
}

/// The certificate of a runner that is gone counts no longer.
impl Drop for PluginRunner {
    fn drop(&mut self) {
        let Runner { watch, clock, .. } = &self.0;
        watch.ends.set(watch.id, None, clock.now());
    }
}

impl Fetch<Credential> for PluginRunner {
    fn fetch(&self, occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        self.0.fetch(occasion)
    }

    fn name(&self) -> Cow<'_, str> {
        self.0.name()
    }
}
