//! The way from an image to a login: configuration, match, program, run, answer.

use keyward_host::{Error, Kind};
use keyward_image::{Lookup, Name, Outcome, ProviderResult};

use super::{
    fix,
    step::{Check, Report, Step},
};
use crate::{
    commands::image::setup::{Place, Setup},
    failure::Failure,
    globals::Globals,
    output::{self, inline},
};

/// Makes the steps for an image.
pub(super) fn check(report: &mut Report, globals: &Globals, place: &Place, image: &str) {
    let rest = [Check::Match, Check::Program, Check::Run, Check::Answer, Check::Login];
    report.names.add("image", image);
    let opened = Setup::open(place, globals).and_then(|setup| {
        let config = setup.config()?;
        Ok((setup, config))
    });
    let (setup, config) = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            report.add(Step::failed(Check::Providers, &failure));
            return report.skip(&rest, Check::Providers);
        }
    };
    let names = output::list(config.providers.iter().map(|provider| &provider.name));
    let path = place.config(&globals.surroundings).unwrap_or_default();
    let step = Step::ok(Check::Providers, format!("{names} in `{}`", path.display()));
    report.add(step);
    let waiting = Setup::waiting(&[image.to_owned()]);
    let found = setup.images().lookup(&config, image, None);
    drop(waiting);
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            report.add(Step::failed(Check::Match, &error.into()));
            return report.skip(&rest[1..], Check::Match);
        }
    };
    report.names.add("image", &found.image);
    report.names.add("host", found.image.split('/').next().unwrap_or_default());
    let matching: Vec<_> = found.results.iter().filter(|one| one.pattern.is_some()).collect();
    if matching.is_empty() {
        report.add(nothing_matches(&found));
        return report.skip(&rest[1..], Check::Match);
    }
    for one in matching {
        provider(report, globals, place, &setup, one);
    }
    report.add(login(report, &found));
}

fn nothing_matches(found: &Lookup) -> Step {
    let image = inline(&found.image);
    let mut step = Step::fault(
        Check::Match,
        format!("no provider matches `{image}`, so a kubelet pulls it anonymously"),
    );
    let name = Name::parse(&found.image);
    for one in &found.results {
        for pattern in &one.provider.patterns {
            let why = name.as_ref().and_then(|name| pattern.mismatch(name, one.provider.reading()));
            let why = why.unwrap_or_else(|| "the name is malformed".to_owned());
            step = step.detail(inline(pattern.text()), why);
        }
    }
    if let [one] = found.results.as_slice() {
        step = step.at(&one.provider.place);
    }
    let registry = found.image.split('/').next().unwrap_or_default();
    step.advice(format!("add `{}` to `matchImages` of the provider for it", inline(registry)))
}

fn provider(
    report: &mut Report,
    globals: &Globals,
    place: &Place,
    setup: &Setup,
    result: &ProviderResult,
) {
    let provider = &result.provider;
    let name = inline(&provider.name);
    let pattern = result.pattern.and_then(|number| provider.patterns.get(number));
    let pattern = pattern.map(|pattern| inline(pattern.text())).unwrap_or_default();
    let matched = format!("provider `{name}`, by `{pattern}`");
    report.add(Step::ok(Check::Match, matched).at(&provider.place));
    match setup.images().locate(provider) {
        Ok(program) => {
            report.add(Step::ok(Check::Program, format!("`{}`", program.path.display())));
        }
        Err(error) => {
            report.add(unusable(globals, place, &provider.name, &error).at(&provider.place));
            return report.skip(&[Check::Run, Check::Answer], Check::Program);
        }
    }
    match &result.outcome {
        Outcome::Failed(error) | Outcome::LastGood(_, error) => failed(report, error, result),
        Outcome::Skipped(reason) => {
            let step = Step::note(Check::Run, format!("provider `{name}` is skipped: {reason}"));
            report.add(step.at(&provider.place));
        }
        outcome => {
            if let Some(answer) = outcome.answer() {
                let step = Step::ok(Check::Run, format!("provider `{name}` exited with 0"));
                report.add(step.took(answer.took).said(&answer.stderr));
                let registries: Vec<_> = answer.auth.iter().map(|(registry, _)| registry).collect();
                let kept = answer.kept_for.map(crate::duration::show);
                let kept = kept.map(|time| format!(", kept for {time}")).unwrap_or_default();
                let message = format!("logins for {}{kept}", list(&registries));
                report.add(Step::ok(Check::Answer, message));
            }
        }
    }
}

fn list(registries: &[&String]) -> String {
    match registries {
        [] => "no registry".to_owned(),
        some => output::list(some),
    }
}

fn unusable(globals: &Globals, place: &Place, name: &str, error: &Error) -> Step {
    let failure = Failure::from(error.clone());
    let step = Step::failed(Check::Program, &failure);
    let in_directory = place.bin_dir(&globals.surroundings).map(|directory| directory.join(name));
    match (error.kind(), error.hint(), in_directory) {
        (_, Some(command), _) if command.starts_with("chmod ") => step.fix_alone(command),
        (Kind::NotAllowed, _, Some(path)) => match fix::protect(&path, &globals.surroundings) {
            Some(command) => step.fix(command),
            None => step,
        },
        (Kind::NotFound, _, Some(path)) => {
            step.advice(format!("install the provider's program as `{}`", path.display()))
        }
        _ => step,
    }
}

fn failed(report: &mut Report, error: &Error, result: &ProviderResult) {
    let place = &result.provider.place;
    let failure = Failure::from(error.clone());
    if error.kind() == Kind::BadAnswer {
        let name = inline(&result.provider.name);
        report.add(Step::ok(Check::Run, format!("provider `{name}` exited with 0")));
        let step = Step::failed(Check::Answer, &failure).at(place);
        let usual = "`keyward plugin test --image` checks the provider's answer";
        return report.add(step.usual_advice(usual));
    }
    let step = Step::failed(Check::Run, &failure).at(place);
    let usual = "do what the provider's message says; a kubelet would pull anonymously";
    report.add(step.usual_advice(usual));
    report.skip(&[Check::Answer], Check::Run);
}

fn login(report: &Report, found: &Lookup) -> Step {
    if let Some(best) = found.best() {
        return Step::ok(
            Check::Login,
            format!(
                "`{}` as `{}`, from provider `{}`",
                inline(&best.key),
                inline(&best.login.username),
                inline(&best.provider.name)
            ),
        );
    }
    let failed = [Check::Program, Check::Run, Check::Answer];
    if let Some(needs) = failed.into_iter().find(|check| report.has_fault(*check)) {
        return Step::skipped(Check::Login, needs);
    }
    let answers = found.results.iter().filter_map(|one| one.outcome.answer());
    let registries: Vec<_> =
        answers.flat_map(|answer| answer.auth.iter().map(|(key, _)| key)).collect();
    Step::fault(
        Check::Login,
        format!(
            "the answer has no login for `{}`, only for {}",
            inline(&found.image),
            list(&registries)
        ),
    )
    .advice("the provider must answer with the registry of the image in `auth`")
}
