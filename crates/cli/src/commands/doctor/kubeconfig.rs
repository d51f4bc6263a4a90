//! The kubeconfig files, and the entry that files and flags choose.

use std::path::Path;

use keyward_host::{
    Error, Kubeconfig, Overrides, Target,
    kubeconfig::{Named, Place},
};
use keyward_protocol::url;

use super::{
    fix,
    step::{Check, Report, Step},
};
use crate::{
    commands::plan::explain::Chosen,
    failure::Failure,
    globals::Globals,
    output::{inline, quoted},
};

/// Reads the files. `None` if one of them cannot be used.
pub(super) fn files(report: &mut Report, globals: &Globals) -> Option<Kubeconfig> {
    match globals.kubeconfig() {
        Ok(config) => {
            report.add(describe(globals, &config));
            Some(config)
        }
        Err(failure) => {
            problems(report, Check::Kubeconfig, &failure, globals, &Kubeconfig::default());
            None
        }
    }
}

fn describe(globals: &Globals, config: &Kubeconfig) -> Step {
    let show = |path: &Path| format!("`{}`", path.display());
    let names = |exists: bool| -> Vec<String> {
        let files = config.files.iter().filter(|(_, found)| *found == exists);
        files.map(|(path, _)| show(path)).collect()
    };
    let (found, missing) = (names(true), names(false));
    let from = if globals.flags.kubeconfig.is_some() {
        "from `--kubeconfig`"
    } else if globals.surroundings.var("KUBECONFIG").is_some_and(|list| !list.is_empty()) {
        "from `KUBECONFIG`"
    } else {
        "default"
    };
    let mut step = match found.as_slice() {
        [] => Step::note(Check::Kubeconfig, format!("there is no kubeconfig ({from})")),
        names => Step::ok(Check::Kubeconfig, format!("{} ({from})", names.join(", "))),
    };
    if !missing.is_empty() {
        step = step.detail("missing", missing.join(", "));
    }
    if let ([_, _, ..], Some(file)) = (found.as_slice(), &config.current_context_place.file) {
        step = step.detail("current-context", format!("from {}", show(file)));
    }
    step
}

/// Chooses context, cluster and user. `None` if they cannot be used.
pub(super) fn entry(report: &mut Report, globals: &Globals, config: &Kubeconfig) -> Option<Target> {
    let chosen = Chosen::new(globals, config);
    report.names.add("context", &chosen.context);
    report.names.add("cluster", &chosen.cluster);
    report.names.add("user", &chosen.user);
    config.contexts.iter().for_each(|entry| report.names.add("context", &entry.name));
    config.clusters.iter().for_each(|entry| report.names.add("cluster", &entry.name));
    config.users.iter().for_each(|entry| report.names.add("user", &entry.name));
    let target = match globals.resolve(config) {
        Ok(target) => target,
        Err(failure) => {
            problems(report, Check::Entry, &failure, globals, config);
            return None;
        }
    };
    // What is only a warning elsewhere is why the server does not know the user.
    let strict = Overrides { strict: true, ..globals.overrides() };
    match globals.resolve_with(config, &strict) {
        Err(failure) => problems(report, Check::Entry, &failure, globals, config),
        Ok(_) => report.add(chosen_entry(&target)),
    }
    if let Err(error) = target.check() {
        problems(report, Check::Entry, &error.into(), globals, config);
    }
    #[cfg(unix)]
    if let Some(step) = exposed(&target, globals) {
        report.add(step);
    }
    shadowed(report, config, &target, globals);
    Some(target)
}

fn chosen_entry(target: &Target) -> Step {
    let server = inline(&url::mask(&target.cluster.value.server));
    if target.in_cluster {
        return Step::ok(
            Check::Entry,
            format!("the service account of this pod, server `{server}`"),
        );
    }
    let at = |place: &Place| match place {
        Place { file: Some(_), line } if *line > 0 => format!(" (line {line})"),
        _ => String::new(),
    };
    let (cluster, user) = (&target.cluster, &target.user);
    let message = format!(
        "context `{}`: cluster `{}`{}, user `{}`{}",
        inline(&target.context),
        inline(&cluster.name),
        at(&cluster.place),
        inline(&user.name),
        at(&user.place)
    );
    Step::ok(Check::Entry, message).at(&user.place).detail("server", server)
}

/// Notes that others can read a kubeconfig with a secret in it. helm warns of it too.
#[cfg(unix)]
fn exposed(target: &Target, globals: &Globals) -> Option<Step> {
    use std::os::unix::fs::PermissionsExt as _;

    let user = &target.user.value;
    // The target's token comes from `tokenFile`, if that is set.
    let has_token = !user.token.is_empty() && user.token_file.is_empty();
    let secret = has_token || !user.password.is_empty() || !user.client_key_data.is_empty();
    let file = target.user.place.file.as_deref().filter(|_| secret)?;
    let mode = std::fs::metadata(globals.surroundings.absolute(file)).ok()?.permissions().mode();
    (mode & 0o044 != 0).then(|| {
        let path = file.to_string_lossy();
        Step::note(Check::Entry, "other users can read the kubeconfig, which has a secret in it")
            .at(&target.user.place)
            .fix(format!("chmod go-rwx {}", quoted(&path)))
    })
}

/// Notes entries of other files under the same names.
fn shadowed(report: &mut Report, config: &Kubeconfig, target: &Target, globals: &Globals) {
    let found: Vec<_> = config.files.iter().filter(|(_, found)| *found).collect();
    if found.len() < 2 {
        return;
    }
    let (cluster, user) = (&target.cluster, &target.user);
    for (file, _) in found {
        let Ok(one) = Kubeconfig::load(&globals.surroundings, Some(file)) else { continue };
        for (kind, name, place, exists) in [
            ("cluster", &cluster.name, &cluster.place, has(&one.clusters, &cluster.name)),
            ("user", &user.name, &user.place, has(&one.users, &user.name)),
        ] {
            if exists && place.file.as_deref().is_some_and(|winner| winner != file) {
                let message = format!("another {kind} `{}` is ignored", inline(name));
                let step = Step::note(Check::Entry, message).file(file);
                report.add(step.detail("because", "the first file that has the name wins"));
            }
        }
    }
}

fn has<T>(entries: &[Named<T>], name: &str) -> bool {
    entries.iter().any(|entry| entry.name == name)
}

/// Adds a fault for each problem of the kubeconfig, or one for the failure if it has none.
pub(super) fn problems(
    report: &mut Report,
    check: Check,
    failure: &Failure,
    globals: &Globals,
    config: &Kubeconfig,
) {
    let problems = failure.cause().map(Error::problems).unwrap_or_default();
    if problems.is_empty() {
        report.add(Step::failed(check, failure));
    }
    for problem in problems {
        let mut bare = problem.clone();
        // The step shows it in its own way.
        bare.place = Place::default();
        let mut step = Step::fault(check, bare.to_string()).at(&problem.place);
        step.advice = failure.advice().map(str::to_owned);
        report.add(fix::of_problem(step, problem, globals, config));
    }
}
