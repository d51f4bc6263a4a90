//! A home directory with AWS files, an environment, and the program in it.

use std::{collections::BTreeMap, fs, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    judge,
    program::{Ended, Run},
};

/// Where one case plays.
pub(crate) struct Stage {
    pub(crate) home: TempDir,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) profile: Option<String>,
}

impl Stage {
    /// An empty home, moto as STS, and no instance metadata.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap().to_owned();
        let mut stage = Self { home, environment: BTreeMap::new(), profile: None };
        stage
            .env("HOME", &path)
            .env("PATH", "/usr/bin:/bin")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_ENDPOINT_URL_STS", "{moto}")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "1");
        stage
    }

    /// Sets a variable. `{moto}`, `{standIn}`, `{home}`, `{alice.key}` and `{alice.secret}` are replaced.
    pub(crate) fn env(&mut self, name: &str, value: &str) -> &mut Self {
        let value = self.fill(value);
        self.environment.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn unset(&mut self, name: &str) -> &mut Self {
        self.environment.remove(name);
        self
    }

    /// Keys of a user of moto in the environment.
    pub(crate) fn env_keys(&mut self, user: &str) -> &mut Self {
        self.env("AWS_ACCESS_KEY_ID", &format!("{{{user}.key}}"))
            .env("AWS_SECRET_ACCESS_KEY", &format!("{{{user}.secret}}"))
    }

    pub(crate) fn config(&mut self, text: &str) -> &mut Self {
        self.file(".aws/config", text)
    }

    pub(crate) fn credentials(&mut self, text: &str) -> &mut Self {
        self.file(".aws/credentials", text)
    }

    /// Writes a file in the home.
    pub(crate) fn file(&mut self, name: &str, text: &str) -> &mut Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.fill(text)).unwrap();
        self
    }

    /// The token that `aws sso login` would leave for a session or start URL.
    pub(crate) fn sso_token(
        &mut self,
        name: &str,
        token: &str,
        ends: &str,
        more: &str,
    ) -> &mut Self {
        let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, name.as_bytes());
        let hex =
            digest.as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let text = format!(
            r#"{{"startUrl":"https://sso.example/start","region":"us-east-1","accessToken":"{token}","expiresAt":"{ends}"{more}}}"#
        );
        self.file(&format!(".aws/sso/cache/{hex}.json"), &text)
    }

    pub(crate) fn profile(&mut self, name: &str) -> &mut Self {
        self.profile = Some(name.to_owned());
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn fill(&self, text: &str) -> String {
        let prepared = judge::prepared();
        let mut text = text
            .replace("{moto}", &prepared.moto)
            .replace("{standIn}", &prepared.stand_in)
            .replace("{home}", self.home.path().to_str().unwrap());
        for (name, (key, secret)) in &prepared.users {
            text = text.replace(&format!("{{{name}.key}}"), key);
            text = text.replace(&format!("{{{name}.secret}}"), secret);
        }
        text
    }

    /// Our program here.
    pub(crate) fn run(&self, args: &[&str]) -> Run {
        let mut run = Run::named("keyward-eks").envs(&self.environment).directory(self.home.path());
        run = run.args(["--cluster-name", "c"]).args(args);
        match &self.profile {
            Some(profile) => run.args(["--profile", profile]),
            None => run,
        }
    }

    /// The question for the judge.
    pub(crate) fn question(&self) -> Value {
        json!({"operation": "identity", "environment": self.environment, "profile": self.profile})
    }
}

/// The URL in the token that a run printed.
pub(crate) fn url(ended: Ended) -> String {
    let answer: Value = serde_json::from_str(&ended.printed()).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let url = URL_SAFE_NO_PAD.decode(token.strip_prefix("k8s-aws-v1.").unwrap()).unwrap();
    String::from_utf8(url).unwrap()
}

/// The access key in a token's URL.
pub(crate) fn access_key(url: &str) -> String {
    let credential = url.split_once("X-Amz-Credential=").unwrap().1;
    credential.split_once("%2F").unwrap().0.to_owned()
}

/// The expiry that a run printed, in seconds since 1970.
pub(crate) fn expiry(ended: Ended) -> i64 {
    let answer: Value = serde_json::from_str(&ended.printed()).unwrap();
    let end = answer["status"]["expirationTimestamp"].as_str().unwrap();
    end.parse::<jiff::Timestamp>().unwrap().as_second()
}
