//! A stand-in for Entra ID, azure-identity beside it, and a login as a client would start it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use keyward_testing::authority::Authority;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    judge::Judge,
    oidc::stage::{Outcome, Stage},
};

/// The application of AKS.
pub(crate) const SERVER: &str = "6dae42f8-4368-4678-94ff-3960e28e3630";
pub(crate) const SCOPE: &str = "6dae42f8-4368-4678-94ff-3960e28e3630/.default";
pub(crate) const TENANT: &str = "11111111-2222-3333-4444-555555555555";
pub(crate) const CLIENT: &str = "80faf920-1908-4b52-b5ef-a8e7bedfc67a";

/// The stand-in, which all tests share.
pub(crate) struct StandIn {
    judge: Mutex<Judge>,
    /// Entra ID.
    pub(crate) https: String,
    /// The endpoints of machines.
    pub(crate) http: String,
    /// The file with its authority.
    pub(crate) ca: String,
    _directory: TempDir,
}

/// The stand-in.
pub(crate) fn stand_in() -> &'static StandIn {
    static STAND_IN: OnceLock<StandIn> = OnceLock::new();
    STAND_IN.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca").unwrap();
        let server = authority
            .server(&["127.0.0.1", "*.azurecr.io", "*.azurecr.cn", "login.microsoftonline.com"])
            .unwrap();
        let write = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let ca = write("ca.pem", authority.pem());
        let (certificate, key) =
            (write("s.pem", server.certificate_pem()), write("s.key", server.key_pem()));
        let mut judge = Judge::start("entra.py");
        let asked = json!({"operation": "serve", "certificate": certificate, "key": key});
        let addresses = judge.ask(&asked);
        let text = |name: &str| addresses[name].as_str().unwrap().to_owned();
        let (https, http) = (text("https"), text("http"));
        StandIn { judge: Mutex::new(judge), https, http, ca, _directory: directory }
    })
}

impl StandIn {
    pub(crate) fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token that azure-identity gets.
    pub(crate) fn theirs(
        &self,
        kind: &str,
        options: &Value,
        environment: &[(&str, &str)],
    ) -> String {
        self.asked(&json!({"kind": kind, "options": options}), environment)
    }

    /// The token that azure-identity gets, with more to say about how.
    pub(crate) fn asked(&self, case: &Value, environment: &[(&str, &str)]) -> String {
        let mut variables: BTreeMap<_, _> = environment.iter().copied().collect();
        variables.insert("REQUESTS_CA_BUNDLE", &self.ca);
        variables.entry("PATH").or_insert("/usr/bin:/bin");
        let mut case = case.clone();
        if case["operation"].is_null() {
            case["operation"] = "token".into();
        }
        case["scope"] = SCOPE.into();
        case["environment"] = json!(variables);
        let answer = self.judge().ask(&case);
        let token = answer["token"].as_str().unwrap_or_else(|| panic!("{case}: {answer}"));
        token.to_owned()
    }

    /// Checks that two tokens are the same: then the requests were.
    #[track_caller]
    pub(crate) fn assert_same(&self, ours: &str, theirs: &str) {
        if ours != theirs {
            let asked = json!({"operation": "seen", "tokens": [ours, theirs]});
            panic!("the requests differ: {:#}", self.judge().ask(&asked));
        }
    }

    /// How often it was asked for this.
    pub(crate) fn count(&self, what: &str) -> u64 {
        self.judge().count(what)
    }
}

/// A stage whose program knows the authority of the stand-in.
pub(crate) fn stage() -> Stage {
    for_entra(Stage::new())
}

/// A stage with an agent.
pub(crate) fn stage_with_agent() -> Stage {
    for_entra(Stage::with_agent())
}

fn for_entra(stage: Stage) -> Stage {
    stage.named("keyward-entra").variable("SSL_CERT_FILE", stand_in().ca.clone())
}

/// Runs our program with this login, and what every login has.
pub(crate) fn ours(stage: &Stage, login: &str, more: &[&str]) -> Outcome {
    ours_in(stage, TENANT, login, more)
}

/// Runs our program in a tenant.
pub(crate) fn ours_in(stage: &Stage, tenant: &str, login: &str, more: &[&str]) -> Outcome {
    let host = format!("--authority-host={}/", stand_in().https);
    let (server, tenant) = (format!("--server-id={SERVER}"), format!("--tenant-id={tenant}"));
    let login = format!("--login={login}");
    stage.run(&[&["get-token", &host, &server, &tenant, &login], more].concat())
}

/// A program that prints how it was called, in the form of `az` or `azd`.
pub(crate) fn program(stage: &Stage, name: &str, script: &str) -> String {
    let bin = stage.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = bin.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", Path::new(&bin).display())
}
