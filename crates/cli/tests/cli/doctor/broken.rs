//! Broken setups as a table: the first fault names the cause, the suggested fix makes it pass, and no
//! secret is shown.

use super::{
    scene::{MARK, Scene},
    setups,
};
use crate::stage::Ran;

/// A setup with one fault.
pub(crate) struct Broken {
    /// The rank in the list of users' most frequent problems that it stands for; 0 for none.
    pub(crate) pain: u32,
    /// The step that finds it.
    pub(crate) step: &'static str,
    /// What the first line with a fault says.
    pub(crate) cause: &'static str,
    /// The words after `keyward doctor`.
    pub(crate) words: &'static str,
    pub(crate) build: fn(&mut Scene),
    pub(crate) fix: Fix,
}

/// How the fault is fixed.
pub(crate) enum Fix {
    /// By the suggested command, as it is.
    Command,
    /// By somebody who does what the advice or the command with this text says.
    Hand(&'static str, fn(&mut Scene)),
}

/// A test for each setup, and the list of all.
macro_rules! table {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                check(&setups::$name());
            }
        )*

        const ALL: &[fn() -> Broken] = &[$(setups::$name),*];
    };
}

table! {
    the_current_context_does_not_exist,
    a_context_is_misspelt_on_the_command_line,
    the_context_names_a_user_that_does_not_exist,
    kubeconfig_variable_names_a_missing_file,
    the_kubeconfig_has_a_tab,
    the_interactive_mode_is_missing,
    the_plugin_is_off_the_search_path,
    the_plugin_is_not_installed,
    the_plugin_is_not_executable,
    the_plugin_can_be_changed_by_everybody,
    the_kuberc_does_not_list_the_plugin,
    the_sso_session_has_expired,
    the_plugin_prints_a_line_before_its_answer,
    the_plugin_answers_in_another_version,
    the_plugin_hangs,
    the_plugin_returns_an_expired_token,
    the_clock_is_an_hour_off,
    the_plugin_keeps_the_token_of_another_account,
    the_port_for_the_browser_is_in_use,
    the_other_kubelogin_is_installed,
    the_plugin_needs_a_terminal,
    the_cluster_is_too_large_for_the_environment,
    nothing_listens_at_the_address,
    the_name_of_the_server_cannot_be_resolved,
    the_proxy_is_gone,
    the_proxy_of_the_environment_is_gone,
    the_proxy_wants_another_password,
    another_authority_signed_the_certificate,
    the_certificate_is_for_another_name,
    the_scheme_of_the_server_is_missing,
    a_token_and_a_user_name_are_both_set,
    the_client_certificate_has_expired,
    an_authority_and_insecure_are_both_set,
    the_token_file_is_missing,
    the_auth_provider_was_removed,
    the_wrapper_was_uninstalled,
    no_image_provider_matches,
    the_image_provider_is_not_executable,
    the_image_provider_fails,
    the_image_provider_answers_for_another_registry,
}

#[test]
fn there_are_enough_setups_and_enough_of_them_hurt_people() {
    let pains = ALL.iter().filter(|setup| setup().pain > 0).count();
    let commands = ALL.iter().filter(|setup| matches!(setup().fix, Fix::Command)).count();
    assert!(ALL.len() >= 25 && pains >= 10 && commands >= 15, "{} {pains} {commands}", ALL.len());
}

fn check(setup: &Broken) {
    let mut scene = Scene::healthy();
    let before = scene.doctor("");
    assert_eq!(before.code, Some(0), "the healthy setup: {before:#?}");
    (setup.build)(&mut scene);
    let text = examine(&scene, setup, "");
    let fault = text.stdout.lines().find(|line| line.starts_with("fault")).unwrap_or_default();
    let step = fault.split_whitespace().nth(1);
    assert!(step == Some(setup.step) && fault.contains(setup.cause), "{fault}\n{text:#?}");

    let json = examine(&scene, setup, "-o json");
    let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&report["ok"], &report["faults"][0]), (&false.into(), &setup.step.into()));
    let steps = report["steps"].as_array().unwrap();
    let fault = steps.iter().find(|step| step["state"] == "fault").unwrap();
    assert!(fault["message"].as_str().unwrap().contains(setup.cause), "{fault}");

    let hidden = examine(&scene, setup, "--redact");
    for name in ["ctx-blue", "cl-green", "us-red", "127.0.0.1", "anna"] {
        assert!(!hidden.stdout.contains(name), "`{name}` is shown: {}", hidden.stdout);
    }

    let after = match setup.fix {
        Fix::Command => {
            let command = fault["fix"].as_str().unwrap_or_else(|| panic!("no fix: {fault}"));
            scene.fixed_by(command, setup.words)
        }
        Fix::Hand(advice, fix) => {
            let said = format!("{} {}", fault["fix"], fault["advice"]);
            assert!(said.contains(advice), "{said}");
            fix(&mut scene);
            scene.doctor(setup.words)
        }
    };
    assert_eq!(after.code, Some(0), "not fixed: {after:#?}\nit was:\n{}", text.stdout);
    assert!(!format!("{after:?}").contains(MARK), "{after:#?}");
}

/// A run on the broken setup, which must not show a secret.
fn examine(scene: &Scene, setup: &Broken, more: &str) -> Ran {
    let ran = scene.doctor(&format!("{} {more}", setup.words));
    assert_eq!(ran.code, Some(1), "{ran:#?}");
    assert!(!format!("{ran:?}").contains(MARK), "a secret is shown: {ran:#?}");
    ran
}
