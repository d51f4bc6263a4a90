//! A home directory with files of Google's credentials, an environment, and the program in it.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::JoinHandle,
};

use keyward_agent::{Address, End, Server, Settings, Stopper};
use keyward_process::clock::SystemClock;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    judge::Judge,
    program::{Ended, Run},
};

/// The scopes that a token for a cluster needs.
pub(crate) const SCOPES: [&str; 2] = [
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
];

/// What the judge prepared.
pub(crate) struct Prepared {
    /// Host and port of the stand-in.
    pub(crate) stand_in: String,
    rsa: String,
    ec: String,
}

static JUDGE: OnceLock<(Mutex<Judge>, Prepared)> = OnceLock::new();

fn started() -> &'static (Mutex<Judge>, Prepared) {
    JUDGE.get_or_init(|| {
        let mut judge = Judge::start("judge_google.py");
        let prepared = judge.ask(&json!({"operation": "prepare"}));
        let text = |name: &str| prepared[name].as_str().unwrap().to_owned();
        let prepared = Prepared { stand_in: text("standIn"), rsa: text("rsa"), ec: text("ec") };
        (Mutex::new(judge), prepared)
    })
}

/// The judge, for one test at a time.
pub(crate) fn judge() -> MutexGuard<'static, Judge> {
    started().0.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn prepared() -> &'static Prepared {
    &started().1
}

/// How often the stand-in was asked for this path.
pub(crate) fn count(path: &str) -> u64 {
    let answer = judge().ask(&json!({"operation": "count", "path": path}));
    answer["count"].as_u64().unwrap()
}

/// Where one case plays.
pub(crate) struct Stage {
    pub(crate) home: TempDir,
    pub(crate) environment: BTreeMap<String, String>,
    agent: Option<Agent>,
}

struct Agent {
    stopper: Stopper,
    thread: Option<JoinHandle<End>>,
}

impl Stage {
    /// An empty home, no agent, no metadata server, no gcloud.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap().to_owned();
        fs::DirBuilder::new().mode(0o700).create(home.path().join("run")).unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        let mut stage = Self { home, environment: BTreeMap::new(), agent: None };
        stage
            .env("HOME", &path)
            // Without the machine's own gcloud.
            .env("PATH", "{home}/bin")
            .env("XDG_RUNTIME_DIR", "{home}/run")
            .env("KEYWARD_AGENT", "off")
            .env("NO_GCE_CHECK", "true")
            // Without it, google-auth asks Google which project an identity pool belongs to.
            .env("GOOGLE_CLOUD_PROJECT", "project");
        stage
    }

    /// With an agent.
    pub(crate) fn with_agent() -> Self {
        let mut stage = Self::new();
        let socket = stage.path("run/agent.sock");
        let address = Address { socket: socket.clone(), directory: stage.path("run") };
        let settings = Settings::new(address, stage.path("entries"), Arc::new(SystemClock));
        let server = Server::bind(settings).unwrap();
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(|| server.run().unwrap()));
        stage.agent = Some(Agent { stopper, thread });
        stage.unset("KEYWARD_AGENT").env("KEYWARD_AGENT_SOCK", socket.to_str().unwrap());
        stage
    }

    /// Sets a variable. `{standIn}` and `{home}` are replaced.
    pub(crate) fn env(&mut self, name: &str, value: &str) -> &mut Self {
        let value = self.fill(value);
        self.environment.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn unset(&mut self, name: &str) -> &mut Self {
        self.environment.remove(name);
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Writes a file in the home.
    pub(crate) fn file(&mut self, name: &str, text: &str) -> &mut Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.fill(text)).unwrap();
        self
    }

    /// Writes a program in the home; those in `bin` are on `PATH`.
    pub(crate) fn program(&mut self, name: &str, script: &str) -> &mut Self {
        self.file(name, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// The file of `GOOGLE_APPLICATION_CREDENTIALS`.
    pub(crate) fn adc(&mut self, info: &Value) -> &mut Self {
        self.file("adc.json", &info.to_string());
        self.env("GOOGLE_APPLICATION_CREDENTIALS", "{home}/adc.json")
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{home}", self.home.path().to_str().unwrap())
            .replace("{standIn}", &prepared().stand_in)
    }

    /// The program here, under a name.
    pub(crate) fn named(&self, name: &str) -> Run {
        Run::named(name).envs(&self.environment).directory(self.home.path())
    }

    /// The program with application default credentials.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.named("keyward-gke").args(["--source", "adc"]).args(args).run()
    }

    /// What google-auth gives here for a cluster.
    pub(crate) fn judged(&self, audience: Option<&str>) -> Value {
        self.judged_for(&SCOPES, audience)
    }

    /// What google-auth gives here for these scopes.
    pub(crate) fn judged_for(&self, scopes: &[&str], audience: Option<&str>) -> Value {
        judge().ask(&json!({
            "operation": "token", "environment": self.environment, "scopes": scopes, "audience": audience,
        }))
    }

    /// With the stand-in as metadata server.
    pub(crate) fn metadata(&mut self) -> &mut Self {
        self.unset("NO_GCE_CHECK").env("GCE_METADATA_HOST", "{standIn}");
        self.env("GCE_METADATA_IP", "{standIn}")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stopper.stop();
        let _ = self.thread.take().unwrap().join();
    }
}

/// The token that a run printed, and its end.
pub(crate) fn printed(ended: &Ended) -> (String, Option<i64>) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let end = answer["status"]["expirationTimestamp"].as_str();
    let end = end.map(|end| end.parse::<jiff::Timestamp>().unwrap().as_second());
    (answer["status"]["token"].as_str().unwrap().to_owned(), end)
}

/// The request that the stand-in derived a token from, to show where two differ.
pub(crate) fn request(token: &str) -> Value {
    judge().ask(&json!({"operation": "request", "token": token}))["request"].clone()
}

pub(crate) fn authorized_user() -> Value {
    json!({
        "type": "authorized_user", "client_id": "client", "client_secret": "client-secret",
        "refresh_token": "refresh-me", "token_uri": "http://{standIn}/token",
    })
}

pub(crate) fn service_account() -> Value {
    json!({
        "type": "service_account", "client_email": "robot@project.iam.gserviceaccount.com",
        "private_key_id": "key-1", "private_key": prepared().rsa, "project_id": "project",
        "token_uri": "http://{standIn}/token",
    })
}

pub(crate) fn gdch() -> Value {
    json!({
        "type": "gdch_service_account", "format_version": "1", "project": "project", "name": "robot",
        "private_key_id": "key-2", "private_key": prepared().ec, "token_uri": "http://{standIn}/token",
    })
}

/// A workload's file with this source.
pub(crate) fn external(source: &Value) -> Value {
    json!({
        "type": "external_account", "credential_source": source,
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "http://{standIn}/v1/token",
    })
}

/// A member more, or another one.
pub(crate) fn with(mut info: Value, name: &str, value: impl Into<Value>) -> Value {
    info[name] = value.into();
    info
}

pub(crate) fn external_user() -> Value {
    json!({
        "type": "external_account_authorized_user",
        "audience": "//iam.googleapis.com/locations/global/workforcePools/p/providers/q",
        "client_id": "client", "client_secret": "client-secret", "refresh_token": "refresh-me",
        "token_url": "http://{standIn}/v1/oauthtoken",
    })
}

pub(crate) const ACCOUNT: &str = "http://{standIn}/v1/projects/-/serviceAccounts/other@project.iam.gserviceaccount.com:generateAccessToken";

pub(crate) fn impersonated(source: &Value) -> Value {
    json!({
        "type": "impersonated_service_account", "service_account_impersonation_url": ACCOUNT,
        "source_credentials": source,
    })
}

pub(crate) fn aws() -> Value {
    let source = json!({
        "environment_id": "aws1",
        "region_url": "http://{standIn}/latest/meta-data/placement/availability-zone",
        "url": "http://{standIn}/latest/meta-data/iam/security-credentials",
        "imdsv2_session_token_url": "http://{standIn}/latest/api/token",
        "regional_cred_verification_url":
            "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15",
    });
    with(external(&source), "subject_token_type", "urn:ietf:params:aws:token-type:aws4_request")
}

/// A path as text.
pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
