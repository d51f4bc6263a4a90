//! Providers that are scripts, and count their runs.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use keyward_host::Observer;
use keyward_image::{Config, Images, Lookup, Settings};
use keyward_process::{clock::ManualClock, surroundings::Surroundings};

pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) providers: String,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) ran: AtomicUsize,
    pub(crate) failed: AtomicUsize,
}

impl Observer for Counts {
    fn provided(&self, _provider: &str, _took: Duration, failed: bool) {
        self.ran.fetch_add(1, Ordering::SeqCst);
        self.failed.fetch_add(usize::from(failed), Ordering::SeqCst);
    }
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::new("2026-01-01T00:00:00Z".parse().unwrap())),
            counts: Arc::default(),
            providers: String::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a provider whose program is this script. Each run adds a line to the file `NAME.runs`.
    pub(crate) fn provider(&mut self, name: &str, patterns: &str, more: &str, script: &str) {
        let here = self.folder.path().display();
        let text =
            format!("#!/bin/sh\nhere='{here}'\necho run >>\"$here/{name}.runs\"\n{script}\n");
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        let _ = write!(
            self.providers,
            "- name: {name}\n  matchImages: [{patterns}]\n  defaultCacheDuration: 1m\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/v1\n{more}"
        );
    }

    pub(crate) fn config(&self) -> Config {
        let head = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n";
        let path = self.path("config.yaml");
        fs::write(&path, format!("{head}providers:\n{}", self.providers)).unwrap();
        Config::load(&path).unwrap()
    }

    pub(crate) fn images(&self) -> Arc<Images> {
        Arc::new(self.images_with(&Settings { retries: Vec::new(), ..Settings::default() }))
    }

    pub(crate) fn images_with(&self, settings: &Settings) -> Images {
        let settings = Settings { bin_dir: Some(self.folder.path().into()), ..settings.clone() };
        let clock = Arc::clone(&self.clock);
        Images::new(settings, Surroundings::process(), clock, Arc::clone(&self.counts) as _)
    }

    pub(crate) fn runs(&self, name: &str) -> usize {
        fs::read_to_string(self.path(&format!("{name}.runs"))).unwrap_or_default().lines().count()
    }
}

/// A script that answers one login for `key`.
pub(crate) fn answering(scope: &str, duration: &str, key: &str) -> String {
    format!(
        "cat >\"$here/told\"\ncat <<'X'\n{}\nX",
        serde_json::json!({
            "kind": "CredentialProviderResponse",
            "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
            "cacheKeyType": scope,
            "cacheDuration": duration,
            "auth": { key: { "username": "u", "password": "pass-word" } },
        })
    )
}

pub(crate) fn users(found: &Lookup) -> Vec<String> {
    let show = |l: &keyward_image::FoundLogin| {
        format!("{} {}:{}", l.key, l.login.username, l.login.password.expose())
    };
    found.logins.iter().map(show).collect()
}
