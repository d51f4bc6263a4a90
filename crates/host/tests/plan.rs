//! What a draft says about a run before there is one.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{sync::Arc, time::Duration};

use keyward_host::{
    Environment, Kind, StderrMode, VariableOrigin,
    rules::{Policy, Rules, Verdict},
};
use keyward_process::runner;
use support::Stage;

const GOOD: &str = r#"{"token":"t"}"#;

struct Screen;

impl runner::Sink for Screen {
    fn line(&self, _plugin: &str, _line: &str) {}
}

#[test]
fn a_draft_explains_a_run_and_runs_nothing() {
    let mut stage = Stage::answering(GOOD);
    stage.mode = "IfAvailable";
    stage.stdin_is_terminal = true;
    stage.vars.push(("HOME".into(), "/home/ann".into()));
    stage.exec = "      args: [get-token]\n      env:\n      - {name: REGION, value: eu}\n".into();
    let plan = stage.plan().unwrap();
    let plugin = plan.plugin().unwrap();
    assert_eq!(plugin.preview.program.as_ref().unwrap().path, stage.path("bin/plug"));
    assert_eq!(plugin.preview.verdict, Verdict::Allowed);
    let run = plugin.preview.run.as_ref().unwrap();
    assert!(run.stdin && run.attended && run.shown);
    assert_eq!(run.budget, Duration::from_secs(600));
    let environment: Vec<_> =
        run.environment.iter().map(|(name, origin)| (name.as_str(), *origin)).collect();
    assert_eq!(
        environment,
        [
            ("PATH", VariableOrigin::Inherited),
            ("HOME", VariableOrigin::Inherited),
            ("REGION", VariableOrigin::Configured),
            ("KUBERNETES_EXEC_INFO", VariableOrigin::Request),
        ]
    );
    assert!(plugin.request.as_ref().unwrap().to_json().contains("\"interactive\":true"));
    assert_eq!(stage.runs(), 0);
}

#[test]
fn nobody_is_asked_where_nobody_can_be() {
    let sink = StderrMode::Sink(Arc::new(Screen));
    for (person, complaints) in [(false, StderrMode::Auto), (true, sink)] {
        let mut stage = Stage::answering(GOOD);
        stage.stdin_is_terminal = true;
        stage.settings.person = person;
        stage.settings.stderr = complaints;
        stage.mode = "IfAvailable";
        let plan = stage.plan().unwrap();
        let plugin = plan.plugin().unwrap();
        let run = plugin.preview.run.as_ref().unwrap();
        assert!(!run.stdin && !run.attended && !run.shown);
        assert_eq!(run.budget, Duration::from_secs(60));
        stage.mode = "Always";
        assert_eq!(stage.plan().unwrap_err().kind(), Kind::NeedsTerminal);
    }
}

#[test]
fn a_draft_with_faults_still_explains() {
    let mut stage = Stage::answering(GOOD);
    stage.mode = "Always";
    stage.rules = Rules::new(Policy::new("Allowlist", Some(vec!["other".into()])).unwrap());
    let draft = stage.draft(stage.target());
    let kinds: Vec<_> = draft.faults().iter().map(keyward_host::Error::kind).collect();
    assert_eq!(kinds, [Kind::NeedsTerminal, Kind::NotAllowed], "the terminal is asked about first");
    let plugin = draft.plugin().unwrap();
    assert_eq!(plugin.preview.verdict, Verdict::NotListed);
    assert_eq!(plugin.preview.found.as_deref(), Ok(&*stage.path("bin/plug")));
    assert!(plugin.preview.run.is_none());
    assert_eq!(draft.finish().unwrap_err().kind(), Kind::NeedsTerminal);
}

#[test]
fn a_version_that_nobody_speaks_is_refused_and_the_oldest_is_not() {
    let mut stage = Stage::answering(GOOD);
    stage.version = "v2";
    let error = stage.plan().unwrap_err();
    assert_eq!(error.kind(), Kind::BadConfig);
    assert!(error.to_string().contains("client.authentication.k8s.io/v2"), "{error}");
    stage.version = "v1alpha1";
    stage.exec = "      provideClusterInfo: true\n".into();
    let plan = stage.plan().unwrap();
    assert!(plan.plugin().unwrap().request.as_ref().unwrap().cluster.is_none());
    assert!(plan.warnings().iter().any(|w| w.contains("v1alpha1")), "{:?}", plan.warnings());
}

#[test]
fn a_clean_environment_is_what_was_configured() {
    let mut stage = Stage::answering(GOOD);
    stage.exec = "      env:\n      - {name: REGION, value: eu}\n".into();
    stage.settings.environment = Environment::Clean;
    let plan = stage.plan().unwrap();
    let names: Vec<_> = plan
        .plugin()
        .unwrap()
        .preview
        .run
        .as_ref()
        .unwrap()
        .environment
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["REGION", "KUBERNETES_EXEC_INFO"]);
}

#[test]
fn a_plugin_is_told_every_field_the_kubeconfig_has_for_a_cluster() {
    let mut stage = Stage::answering(GOOD);
    stage.exec = "      provideClusterInfo: true\n".into();
    let mut target = stage.target();
    target.cluster.value.tls_server_name = "name".into();
    target.cluster.value.insecure_skip_tls_verify = true;
    target.cluster.value.certificate_authority_data = b"ca".into();
    target.cluster.value.proxy_url = "http://proxy".into();
    target.cluster.value.disable_compression = true;
    let plan = stage.draft(target).finish().unwrap();
    let told = plan.plugin().unwrap().request.as_ref().unwrap().to_json();

    // `Debug` names every field: its implementation takes the struct apart without a rest.
    let shown = format!("{:#?}", plan.target().cluster.value);
    let fields = shown.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
    let names: Vec<String> = fields
        .map(|(name, _)| name.replace('_', "-"))
        .filter(|name| !name.starts_with(' ') && name != "certificate-authority")
        .map(|name| if name == "extensions" { "config".into() } else { name })
        .collect();
    assert!(names.len() >= 7, "{shown}");
    for name in names {
        assert!(told.contains(&format!("\"{name}\":")), "the request lacks `{name}`: {told}");
    }
}
