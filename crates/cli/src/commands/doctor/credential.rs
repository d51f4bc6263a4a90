//! Runs the plugin, or does whatever else brings the credential.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use keyward_host::{
    Broker, BrokerQuestion, Brokered, Credential, Draft, Error, Kind, Method, Plan, Source, Sources,
};
use keyward_process::{
    clock::{Clock as _, SystemClock},
    runner::{Failure as RunFailure, Output, Sink},
};

use super::{
    fix,
    step::{Check, Report, Step},
};
use crate::{failure::Failure, globals::Globals, output::inline, waiting::Waiting};

/// What is seen of a run from outside.
#[derive(Default)]
pub(super) struct Witness {
    said: Mutex<Vec<String>>,
    by_agent: AtomicBool,
}

impl Sink for Witness {
    fn line(&self, _plugin: &str, line: &str) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
    }
}

/// The agent, watched.
struct Watched {
    agent: Arc<dyn Broker>,
    witness: Arc<Witness>,
}

impl Broker for Watched {
    fn obtain(
        &self,
        question: &BrokerQuestion<'_>,
        run: &mut dyn FnMut() -> Result<Output, RunFailure>,
    ) -> Brokered {
        let brokered = self.agent.obtain(question, run);
        let answered = matches!(brokered, Brokered::Answer(..));
        self.witness.by_agent.store(answered, Ordering::Relaxed);
        brokered
    }
}

/// Globals under which a plugin's stderr goes into the report.
pub(super) fn watched(globals: &Globals) -> (Globals, Arc<Witness>) {
    let witness = Arc::new(Witness::default());
    let stderr = Arc::clone(&witness) as Arc<dyn Sink>;
    let watch =
        |agent| Arc::new(Watched { agent, witness: Arc::clone(&witness) }) as Arc<dyn Broker>;
    (globals.clone().watched(stderr, watch), Arc::clone(&witness))
}

/// The credential, and how it was obtained.
pub(super) struct Got {
    /// The plan and its source; `None` if there can be no credential.
    pub(super) opened: Option<(Plan, Source)>,
    /// The credential, if there is one.
    pub(super) credential: Option<Arc<Credential>>,
    /// Why the plugin's answer is no credential.
    pub(super) bad_answer: Option<Error>,
    /// The program in front of the plugin's command.
    pub(super) wrapper: Option<String>,
}

/// Gets the credential as every command does.
pub(super) fn check(
    report: &mut Report,
    globals: &Globals,
    draft: Option<Draft>,
    witness: &Witness,
) -> Got {
    let mut got = Got {
        opened: None,
        credential: None,
        bad_answer: None,
        wrapper: draft.as_ref().and_then(|draft| draft.wrapper().map(str::to_owned)),
    };
    let planned = match draft {
        Some(draft) => planned(report, globals, draft),
        None => Err(Box::new(Step::skipped(Check::Run, Check::Policy))),
    };
    match planned {
        Ok(plan) => run(report, &mut got, globals, plan, witness),
        Err(step) => report.add(*step),
    }
    got
}

/// The plan, or why nothing runs.
fn planned(report: &Report, globals: &Globals, draft: Draft) -> Result<Plan, Box<Step>> {
    let alone = draft.faults().iter().find(|fault| fault.kind() == Kind::NeedsTerminal).cloned();
    let place = draft.target().user.place.clone();
    let user = draft.target().user.name.clone();
    if let Some(fault) = alone {
        let command = fix::set_user(globals, &user, &["--exec-interactive-mode=IfAvailable"]);
        let step = Step::failed(Check::Run, &fault.into()).at(&place);
        return Err(Box::new(step.advice(format!(
            "run this in a terminal; if the plugin can do without a person, run `{command}`"
        ))));
    }
    draft.finish().map_err(|fault| {
        let failed = [Check::Policy, Check::Program, Check::Entry];
        Box::new(match failed.into_iter().find(|check| report.has_fault(*check)) {
            Some(check) => Step::skipped(Check::Run, check),
            None => Step::failed(Check::Run, &fault.into()).at(&place),
        })
    })
}

fn run(report: &mut Report, got: &mut Got, globals: &Globals, plan: Plan, witness: &Witness) {
    let source = Sources::global().open(&plan);
    let place = plan.target().user.place.clone();
    let waiting = Waiting::begin(&plan, &source, None);
    let start = SystemClock.elapsed();
    let result = source.credential_blocking();
    let took = SystemClock.elapsed().saturating_sub(start);
    drop(waiting);
    let said = witness.said.lock().unwrap_or_else(PoisonError::into_inner).join("\n");
    match result {
        Ok(credential) => {
            got.credential = Some(credential);
            let step = Step::ok(Check::Run, done(&plan, witness));
            report.add(if plan.is_static() { step } else { step.took(took).said(&said) });
        }
        Err(error) if error.kind() == Kind::BadAnswer => {
            let step = Step::ok(Check::Run, done(&plan, witness)).took(took);
            report.add(step.said(&said));
            got.bad_answer = Some(error);
        }
        Err(error) => {
            let repeated = error.stderr_shown();
            let step =
                Step::failed(Check::Run, &Failure::from(error.clone())).at(&place).took(took);
            let step = if repeated { step.said(&said) } else { step };
            report.add(advised(step, &error, &plan, globals));
        }
    }
    got.opened = Some((plan, source));
}

fn done(plan: &Plan, witness: &Witness) -> String {
    match (plan.plugin(), plan.signer()) {
        (Some(plugin), _) if witness.by_agent.load(Ordering::Relaxed) => {
            format!("the agent had the credential of plugin `{}`", inline(plugin.command()))
        }
        (Some(plugin), _) => format!("plugin `{}` exited with 0", inline(plugin.command())),
        (_, Some(signer)) => format!("signer `{}` has a certificate", inline(signer.command())),
        _ => match plan.methods().as_slice() {
            [] => "nothing to run: requests are anonymous".to_owned(),
            [Method::Oidc] => "the `oidc` auth-provider has an id-token".to_owned(),
            methods => {
                let names: Vec<_> = methods.iter().map(|method| method.name()).collect();
                format!("nothing to run: the user has {}", names.join(" and "))
            }
        },
    }
}

/// Adds what to do where the error itself does not say it.
fn advised(step: Step, error: &Error, plan: &Plan, globals: &Globals) -> Step {
    let largest = error.notes().iter().any(|(label, _)| *label == "largest field");
    if largest {
        let user = &plan.target().user.name;
        return step.fix(fix::set_user(globals, user, &["--exec-provide-cluster-info=false"]));
    }
    match error.kind() {
        Kind::TimedOut => step.usual_advice(
            "run the plugin's command by hand to see what it waits for; `--plugin-timeout` gives \
             it more time",
        ),
        _ => step.usual_advice("do what the plugin's message says, or run its command by hand"),
    }
}
