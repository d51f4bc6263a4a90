use std::{borrow::Cow, sync::Arc};

use keyward_process::{clock::SharedClock, runner::Output};

use super::{Runner, Watch};
use crate::{
    Credential, Error, Plan,
    cell::{Fetch, Fetched, Occasion},
    observer::{Ends, NoopObserver},
    plan::Choice,
};

/// The plugin of one plan, for programs that decide themselves who runs it and keep what it brings.
///
/// [`Fetch::fetch`] runs it here; [`PluginRunner::accept`] takes what another process got by running
/// it.
pub struct PluginRunner(Runner);

impl PluginRunner {
    /// The runner of a plan; `None` for a plan without a plugin. Runs nothing.
    pub fn new(plan: Plan, clock: SharedClock) -> Option<Self> {
        let Choice::Exec(plugin) = plan.choice() else { return None };
        let plugin = Arc::clone(plugin);
        let observer = Arc::new(NoopObserver);
        let ends = Arc::new(Ends::new(Arc::clone(&observer) as _));
        Some(Self(Runner::new(plugin, plan, clock, Watch { id: 0, observer, ends })))
    }

    /// The credential in the output of a run that another process made, checked as one of our own
    /// runs is.
    pub fn accept(&self, output: &Output) -> Result<Fetched<Credential>, Error> {
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

impl Fetch<Credential> for PluginRunner {
    fn fetch(&self, occasion: &Occasion) -> Result<Fetched<Credential>, Error> {
        self.0.fetch(occasion)
    }

    fn name(&self) -> Cow<'_, str> {
        self.0.name()
    }
}
