//! What the agent keeps of an exchange.

use std::collections::BTreeMap;

use super::{file, service, stand_in::POD, token};
use crate::{oidc::stage::Stage, program::Run};

fn run(stage: &Stage, args: &[&str], version: &str, response: &str) -> crate::program::Ended {
    let mut variables: BTreeMap<String, String> =
        stage.environment().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    variables.insert(
        "KUBERNETES_EXEC_INFO".into(),
        format!(
            r#"{{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/{version}","spec":{{"interactive":false{response}}}}}"#
        ),
    );
    Run::named("keyward-exchange").args(args).envs(&variables).run()
}

#[test]
fn the_agent_keeps_the_result_for_who_has_this_token_and_asks_for_the_same() {
    let (service, url) = service();
    let stage = Stage::with_agent();
    let (_directory, path) = file(&service.pod_token(600));
    let of_file = format!("--token-file={path}");
    let args = [&url, of_file.as_str()];
    let good = |args: &[&str]| token(run(&stage, args, "v1", "")).0;
    for _ in 0..3 {
        assert_eq!(good(&args), format!("access-of-{POD}"));
    }
    assert_eq!(service.asked().len(), 1, "the agent kept it");
    let report = run(&stage, &[&args[..], &["--explain"]].concat(), "v1", "").printed();
    assert!(report.contains("used     agent: it keeps the result of this exchange"), "{report}");
    // Another request, and another token of the same account.
    good(&[&args[..], &["--audience=other"]].concat());
    good(&[&args[..], &["--lifetime=1m"]].concat());
    assert_eq!(service.asked().len(), 2);
    std::fs::write(&path, service.pod_token(599)).unwrap();
    good(&args);
    assert_eq!(service.asked().len(), 1);
}

#[test]
fn pitfall_37_a_refused_result_does_not_come_from_the_agent() {
    let (service, url) = service();
    let stage = Stage::with_agent();
    let (_directory, path) = file(&service.pod_token(600));
    let args = [&url, &format!("--token-file={path}")[..]];
    token(run(&stage, &args, "v1alpha1", ""));
    token(run(&stage, &args, "v1alpha1", r#","response":{"code":401}"#));
    assert_eq!(service.asked().len(), 2);
}
