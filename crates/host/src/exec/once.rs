use std::{borrow::Cow, sync::Arc};

use keyward_process::{
    clock::SharedClock,
    runner::{Output, Status},
};

use super::{Runner, Watch, failure};
use crate::{
    Credential, Error, Kind, Plan,
    cell::{Fetch, Fresh, Occasion},
    observer::{Ends, Nobody},
    plan::Context,
};

/// The plugin of one plan, for programs that decide themselves who runs it and keep what it brings.
///
/// [`Fetch::fetch`] runs it here; [`PluginRunner::accept`] takes what another process got by running
/// it.
pub struct PluginRunner(Runner);

impl PluginRunner {
    /// The runner of a plan that has a plugin. Runs nothing.
    pub fn new(plan: Plan, clock: SharedClock) -> Self {
        let observer = Arc::new(Nobody);
        let ends = Arc::new(Ends::new(Arc::clone(&observer) as _));
        Self(Runner::new(plan, clock, Watch { id: 0, observer, ends }))
    }

    /// The credential in the output of a run that another process made, checked as one of our own
    /// runs is.
    pub fn accept(&self, output: &Output) -> Result<Fresh<Credential>, Error> {
        let Runner { plan, .. } = &self.0;
        let Some(plugin) = plan.plugin() else {
            return Err(Error::new(Kind::BadConfig, "the plan has no plugin"));
        };
        let context = Context {
            rules: plan.rules(),
            surroundings: plan.surroundings(),
            settings: plan.settings(),
        };
        let turn = plugin.turn(&context, true, None)?;
        match output.status {
            Status::Code(0) => self.0.read(plugin, &turn, output),
            _ => Err(failure::ended(plugin, &turn, output)),
        }
        .map_err(|error| error.note_first("needed by", plan.needed_by()))
    }
}

impl Fetch<Credential> for PluginRunner {
    fn fetch(&self, occasion: &Occasion) -> Result<Fresh<Credential>, Error> {
        self.0.fetch(occasion)
    }

    fn name(&self) -> Cow<'_, str> {
        self.0.name()
    }
}
