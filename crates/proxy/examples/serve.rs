//! Serves the current context to unmodified clients until Ctrl-C.
//! `cargo run -p keyward-proxy --example serve`, then set `KUBECONFIG` as it says.
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use std::{error::Error, path::PathBuf, sync::Arc};

use keyward::client::{Builder, Opened};
use keyward_host::{Kubeconfig, Overrides, Plan, PlanSettings, Sources, Target, rules::Rules};
use keyward_process::surroundings::Surroundings;
use keyward_proxy::{Config, Options, Proxy};

/// The kubeconfig and the plugin policy that kubectl would read.
struct Usual(Surroundings);

impl Config for Usual {
    fn surroundings(&self) -> &Surroundings {
        &self.0
    }

    fn files(&self) -> Vec<PathBuf> {
        Kubeconfig::paths(&self.0, None).into_iter().chain(Rules::path(&self.0, None)).collect()
    }

    fn kubeconfig(&self) -> Result<Kubeconfig, keyward_proxy::Error> {
        Ok(Kubeconfig::load(&self.0, None)?)
    }

    fn target(
        &self,
        kubeconfig: &Kubeconfig,
        context: Option<&str>,
    ) -> Result<Target, keyward_proxy::Error> {
        let overrides = Overrides { context: context.map(str::to_owned), ..Overrides::default() };
        Ok(kubeconfig.resolve(&overrides, &self.0)?)
    }

    fn open(
        &self,
        target: Target,
        builder: Builder,
        sources: &Sources,
    ) -> Result<Opened, keyward_proxy::Error> {
        let rules = Rules::load(&self.0, None)?;
        let plan = Plan::new(target, &rules, &self.0, PlanSettings::default())?;
        Ok(builder.open_plan(plan, sources)?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Usual(Surroundings::process());
    let proxy = Proxy::start(&Options::default(), Arc::new(config)).await?;
    println!("export KUBECONFIG={}", proxy.kubeconfig().display());
    std::future::pending().await
}
