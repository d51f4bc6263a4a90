//! `keyward proxy dashboard`: opens a page about the running proxy.

use keyward_process::browser::Browser;
use keyward_proxy::Running;

use super::service;
use crate::{
    failure::Failure,
    globals::Globals,
    output::{self, inline},
};

/// Open a page about the proxy in your browser
///
/// Shows the contexts and who you are on each, when credentials expire, plugin runs, errors, open
/// streams and grants. Starts the background proxy if it is not running. The link works once, within a
/// minute, and only in browsers of this user on this machine.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the link instead of opening it
    #[arg(long)]
    print: bool,
}

/// Opens the page, or prints the link.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<(), Failure> {
    let running = running(globals)?;
    let link = running.dashboard().map_err(|error| {
        Failure::failed(format!("the proxy of process {} shows no dashboard", running.pid))
            .note("cause", inline(&error.to_string()))
    })?;
    let opened = if args.print {
        Err(None)
    } else {
        Browser::find(&globals.surroundings)
            .map_err(str::to_owned)
            .and_then(|browser| {
                let opened = browser.open(link.expose());
                opened.map_err(|error| format!("no browser starts: {error}"))
            })
            .map_err(Some)
    };
    match opened {
        Ok(()) => output::tell("opening the dashboard in your browser\n"),
        Err(why) => {
            if let Some(why) = why {
                output::tell(&format!("{why}; open this link within a minute\n"));
            }
            output::print(&format!("{}\n", link.expose()))?;
        }
    }
    Ok(())
}

/// The background proxy of the kubeconfig, which is started if necessary. Without one, the proxy that was
/// started last.
fn running(globals: &Globals) -> Result<Running, Failure> {
    let Some(service) = service::chosen(globals) else {
        return newest(globals, None)?.ok_or_else(|| {
            Failure::failed("no proxy is running").hint("`keyward proxy start` starts one")
        });
    };
    if let Some(running) = newest(globals, Some(service.name()))? {
        return Ok(running);
    }
    service::run(&service, globals)?;
    newest(globals, Some(service.name()))?.ok_or_else(|| {
        Failure::failed("the proxy has ended again; `keyward proxy start` says more")
    })
}

/// The proxy that was started last, of this service if one is named. After an upgrade, an old one may
/// still finish its streams.
fn newest(globals: &Globals, service: Option<&str>) -> Result<Option<Running>, Failure> {
    let all = keyward_proxy::running(&globals.surroundings)?.into_iter();
    let known = all.filter_map(|running| Some((running.status().ok()?, running)));
    let wanted = known.filter(|(status, _)| service.is_none_or(|name| status["service"] == name));
    let started = |status: &serde_json::Value| -> Option<jiff::Timestamp> {
        status["started"].as_str()?.parse().ok()
    };
    Ok(wanted.max_by_key(|(status, _)| started(status)).map(|(_, running)| running))
}
