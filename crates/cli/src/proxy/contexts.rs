//! Which contexts are served.

use keyward_host::{Kubeconfig, Overrides, Sources, Target};

use super::{Options, route::Route};
use crate::{failure::Failure, globals::Globals};

/// The routes of everything that was asked for, and the name of the one that is current.
pub(crate) fn open(
    options: &Options,
    config: &Kubeconfig,
    globals: &Globals,
    sources: &Sources,
) -> Result<(Vec<Route>, String), Failure> {
    let open = |target: Target| Route::open(target, globals, sources, options.refresh_on_403);
    let names = names(options, config, globals)?;
    let mut routes = Vec::new();
    for name in &names {
        let opened = target(config, globals, name.as_deref()).and_then(open);
        match opened {
            Ok(route) => routes.push(route),
            // One broken context of many must not take the others away.
            Err(failure) if options.all => {
                let name = name.as_deref().unwrap_or_default();
                tracing::warn!("context `{name}` is not served: {}", failure.message());
            }
            Err(failure) => return Err(failure),
        }
    }
    let current = &config.current_context;
    let first = routes.first().ok_or_else(|| Failure::failed("there is no context to serve"))?;
    let chosen = routes.iter().find(|route| options.all && route.name() == current);
    let current = chosen.unwrap_or(first).name().to_owned();
    Ok((routes, current))
}

/// `None` is whatever the kubeconfig and the flags lead to.
fn names(
    options: &Options,
    config: &Kubeconfig,
    globals: &Globals,
) -> Result<Vec<Option<String>>, Failure> {
    let flags = &globals.flags;
    if options.all && flags.context.iter().any(|name| !name.is_empty()) {
        return Err(Failure::usage("`--all-contexts` and `--context` contradict each other"));
    }
    let names: Vec<Option<String>> = if options.all {
        config.contexts.iter().map(|context| Some(context.name.clone())).collect()
    } else {
        let mut names: Vec<String> = Vec::new();
        for name in flags.context.iter().filter(|name| !name.is_empty()) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names.into_iter().map(Some).collect()
    };
    let one_for_all = [&flags.cluster, &flags.user, &flags.server].into_iter().any(Option::is_some)
        || flags.token.is_some();
    if names.len() > 1 && one_for_all {
        return Err(Failure::usage(
            "`--cluster`, `--user`, `--server` and `--token` are for one context only",
        ));
    }
    Ok(if names.is_empty() && !options.all { vec![None] } else { names })
}

/// The cluster and user of a context, or of whatever the kubeconfig and the flags lead to.
pub(crate) fn target(
    config: &Kubeconfig,
    globals: &Globals,
    context: Option<&str>,
) -> Result<Target, Failure> {
    let mut overrides: Overrides = globals.overrides();
    if let Some(context) = context {
        overrides.context = Some(context.to_owned());
    }
    globals.resolve_with(config, &overrides)
}
