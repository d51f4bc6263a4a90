//! What Keyward itself does on this machine: the wrapped kubeconfig, the agent, the proxies.

use keyward_host::{Kubeconfig, rules::Rules};

use super::{
    credential::Got,
    step::{Check, Report, Step},
};
use crate::{globals::Globals, output::inline};

/// Adds the steps.
pub(super) fn check(report: &mut Report, globals: &Globals, config: &Kubeconfig, got: &Got) {
    wrap(report, globals, config, got);
    #[cfg(target_os = "linux")]
    report.add(agent::step(globals, got.wrapper.is_some()));
    #[cfg(unix)]
    proxies(report, globals);
}

fn wrap(report: &mut Report, globals: &Globals, config: &Kubeconfig, got: &Got) {
    let has_plugin = got.opened.as_ref().is_some_and(|(plan, _)| plan.plugin().is_some());
    match &got.wrapper {
        Some(wrapper) => {
            let (_, found) = Rules::default().judge(wrapper, &globals.surroundings);
            report.add(match found {
                Ok(_) => Step::ok(Check::Wrap, "kubectl gets its credential from the agent"),
                Err(_) => Step::fault(
                    Check::Wrap,
                    format!("kubectl cannot run `{}`, which does not exist", inline(wrapper)),
                )
                .fix("keyward unwrap --all")
                .advice("or install `keyward-exec` and run `keyward wrap --all` again"),
            });
        }
        None if has_plugin => {
            let step = Step::ok(Check::Wrap, "not wrapped: each kubectl command runs the plugin");
            report.add(step);
        }
        None => {}
    }
    #[cfg(unix)]
    overwritten(report, globals, config);
    #[cfg(not(unix))]
    let _ = config;
}

/// Notes kubeconfigs of ours that another program has rewritten since they were wrapped.
#[cfg(unix)]
fn overwritten(report: &mut Report, globals: &Globals, config: &Kubeconfig) {
    use keyward_agent::wrap::Journal;

    use crate::output::list;

    let journals = Journal::directory(&globals.surroundings);
    for journal in journals.map(|directory| Journal::list(&directory)).unwrap_or_default() {
        let ours = config
            .files
            .iter()
            .any(|(file, _)| globals.surroundings.absolute(file) == journal.kubeconfig);
        let users = journal.overwritten();
        if ours && !users.is_empty() {
            let message = format!("another program undid the wrapping of {}", list(&users));
            let step = Step::note(Check::Wrap, message).file(&journal.kubeconfig);
            report.add(step.fix("keyward wrap --all"));
        }
    }
}

#[cfg(target_os = "linux")]
mod agent {
    use keyward_agent::is_off;
    use serde_json::Value;

    use crate::{
        commands::{
            agent::reported_status,
            doctor::step::{Check, Step},
        },
        globals::Globals,
        output::{self, inline},
    };

    /// What the agent keeps, if it runs.
    pub(super) fn step(globals: &Globals, wrapped: bool) -> Step {
        if is_off(|name| globals.surroundings.var(name)) {
            return Step::ok(Check::Agent, "switched off here, by `KEYWARD_AGENT` or `CI`");
        }
        let status = match reported_status(globals) {
            Ok(Some(status)) => status,
            Ok(None) if wrapped => {
                return Step::ok(Check::Agent, "not running; the next kubectl starts it");
            }
            Ok(None) => return Step::ok(Check::Agent, "not running"),
            Err(failure) => return Step::failed(Check::Agent, &failure),
        };
        describe(&status, wrapped)
    }

    fn describe(status: &Value, wrapped: bool) -> Step {
        let count = status["credentials"].as_array().map_or(0, Vec::len);
        let version = inline(status["version"].as_str().unwrap_or_default());
        let pid = &status["pid"];
        if status["locked"] == true {
            let make = if wrapped { Step::fault } else { Step::note };
            return make(Check::Agent, "the agent is locked and gives out nothing".to_owned())
                .fix("keyward agent unlock");
        }
        let keeps = output::count(count, "credential");
        let message = format!("version {version} (pid {pid}) keeps {keeps}");
        if version == env!("CARGO_PKG_VERSION") {
            Step::ok(Check::Agent, message)
        } else {
            Step::note(Check::Agent, format!("{message}, and is not of this version"))
                .fix("keyward agent stop")
        }
    }

    #[cfg(test)]
    mod tests {
        use serde_json::json;

        use super::describe;
        use crate::commands::doctor::step::State;

        #[test]
        fn an_agent_that_is_locked_or_of_another_version_is_reported() {
            let own = env!("CARGO_PKG_VERSION");
            for (locked, version, wrapped, state, fix) in [
                (false, own, true, State::Ok, None),
                (false, "0.0.0", true, State::Note, Some("keyward agent stop")),
                (true, own, true, State::Fault, Some("keyward agent unlock")),
                (true, own, false, State::Note, Some("keyward agent unlock")),
            ] {
                let status =
                    json!({ "version": version, "pid": 7, "locked": locked, "credentials": [] });
                let step = describe(&status, wrapped);
                assert_eq!((step.state, step.fix.as_deref()), (state, fix), "{}", step.message);
            }
        }
    }
}

#[cfg(unix)]
fn proxies(report: &mut Report, globals: &Globals) {
    let running = match keyward_proxy::running(&globals.surroundings) {
        Ok(running) => running,
        Err(error) => return report.add(Step::failed(Check::KeywardProxy, &error.into())),
    };
    if running.is_empty() {
        return report.add(Step::ok(Check::KeywardProxy, "none is running"));
    }
    for proxy in running {
        let pid = proxy.pid;
        report.add(match proxy.status() {
            Ok(status) => {
                let url = inline(status["url"].as_str().unwrap_or_default());
                Step::ok(Check::KeywardProxy, format!("process {pid} serves `{url}`"))
            }
            Err(error) => Step::fault(
                Check::KeywardProxy,
                format!("the proxy of process {pid} does not answer: {error}"),
            )
            .fix(format!("kill {pid}")),
        });
    }
}
