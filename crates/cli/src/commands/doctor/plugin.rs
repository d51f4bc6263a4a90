//! The policy for plugins, and the program with its trust check.

use keyward_host::{
    Draft, Error, Kind, Preview, Target,
    rules::{Missing, Rules, Verdict},
};

use super::{
    fix,
    step::{Check, Report, Step},
};
use crate::{
    commands::plan::explain::{looked_in, policy, source},
    globals::Globals,
    output::{inline, quoted},
};

/// Decides how the target's user gets credentials. `None` if the policy cannot be read, or the
/// kubeconfig leads back to this program.
pub(super) fn check(report: &mut Report, globals: &Globals, target: Target) -> Option<Draft> {
    let user = target.user.place.clone();
    let rules = match globals.rules() {
        Ok(rules) => rules,
        Err(failure) => {
            report.add(Step::failed(Check::Policy, &failure));
            report.skip(&[Check::Program], Check::Policy);
            return None;
        }
    };
    let draft = match globals.draft(target, &rules) {
        Ok(draft) => draft,
        Err(failure) => {
            report.add(Step::failed(Check::Entry, &failure).at(&user));
            return None;
        }
    };
    let preview = draft
        .plugin()
        .map(|plugin| (&plugin.preview, plugin.command()))
        .or_else(|| draft.signer().map(|signer| (&signer.preview, signer.command())));
    match preview {
        Some((preview, command)) => {
            report.add(judged(&rules, preview, &draft));
            if is_allowed(&preview.verdict) {
                report.add(program(globals, &draft, preview, command));
            } else {
                report.skip(&[Check::Program], Check::Policy);
            }
        }
        None => {
            let message = format!("nothing runs: {}", source(globals, &draft).because);
            report.add(Step::ok(Check::Policy, message));
        }
    }
    // Faults of the kubeconfig itself stand with the entry already.
    Some(draft)
}

fn is_allowed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Allowed | Verdict::Listed(_))
}

fn judged(rules: &Rules, preview: &Preview, draft: &Draft) -> Step {
    let step = if is_allowed(&preview.verdict) {
        allowed(rules, preview)
    } else {
        denied(rules, preview, draft)
    };
    match &rules.origin {
        Some(kuberc) => step.file(kuberc),
        None => step,
    }
}

fn allowed(rules: &Rules, preview: &Preview) -> Step {
    let told = policy(rules, preview);
    let message = match &preview.verdict {
        // The program failed its trust check, and the next step says why.
        _ if preview.program.is_none() && !told.allowed => told.name.to_owned(),
        Verdict::Allowed if rules.origin.is_none() => told.because,
        _ => format!("{}: {}", told.name, told.because),
    };
    Step::ok(Check::Policy, message)
}

fn denied(rules: &Rules, preview: &Preview, draft: &Draft) -> Step {
    let fault = draft
        .faults()
        .iter()
        .find(|fault| matches!(fault.kind(), Kind::NotAllowed) || rules.fault.is_some());
    let step = match fault {
        Some(fault) => Step::failed(Check::Policy, &fault.clone().into()),
        None => Step::fault(Check::Policy, policy(rules, preview).because),
    };
    let command = draft.plugin().map(|plugin| inline(plugin.command())).unwrap_or_default();
    match preview.verdict {
        Verdict::NotListed | Verdict::Unresolvable => step.advice(format!(
            "if you trust it, add `{command}` to `credentialPluginAllowlist` of the kuberc"
        )),
        Verdict::DeniedAll => step.advice(format!(
            "if you trust it, set `credentialPluginPolicy: Allowlist` and \
             `credentialPluginAllowlist: [{command}]` in the kuberc"
        )),
        _ => step,
    }
}

fn program(globals: &Globals, draft: &Draft, preview: &Preview, command: &str) -> Step {
    if let Some(program) = &preview.program {
        let message = format!("`{}`, which only you or root can change", program.path.display());
        return match program.warnings.as_slice() {
            [] => Step::ok(Check::Program, message),
            warnings => warnings.iter().fold(
                Step::note(Check::Program, format!("`{}`", program.path.display())),
                |step, warning| step.detail("warning", warning),
            ),
        };
    }
    let step = match draft.faults().iter().find(|fault| is_about_program(fault)) {
        Some(fault) => Step::failed(Check::Program, &fault.clone().into()),
        None => Step::fault(Check::Program, format!("plugin `{}` cannot run", inline(command))),
    };
    let place = draft.target().user.value.exec.as_ref().map(|exec| exec.place.clone());
    let step = step.at(&place.unwrap_or_else(|| draft.target().user.place.clone()));
    match &preview.found {
        Ok(path) => match fix::protect(&globals.surroundings.absolute(path), &globals.surroundings)
        {
            Some(command) => step.fix(command),
            None => step,
        },
        Err(Missing::NotExecutable(path) | Missing::Nowhere { unusable: Some(path), .. }) => {
            step.fix_alone(format!("chmod +x {}", quoted(&path.to_string_lossy())))
        }
        Err(Missing::Nowhere { .. }) => match fix::directory_of(command, &globals.surroundings) {
            Some(directory) => {
                let mut step = step.fix(fix::extend_path(&directory));
                step.message =
                    format!("{} on `PATH`, but it is in `{}`", step.message, directory.display());
                step.advice = Some(
                    "put the line into your shell's start file; programs that no shell \
                         starts need it in their own settings"
                        .to_owned(),
                );
                step
            }
            None => step,
        },
        Err(_) => looked_in(globals, command, preview)
            .iter()
            .fold(step, |step, path| step.detail("looked at", path.display().to_string())),
    }
}

fn is_about_program(fault: &Error) -> bool {
    matches!(fault.kind(), Kind::NotAllowed | Kind::NotFound | Kind::Failed)
}
