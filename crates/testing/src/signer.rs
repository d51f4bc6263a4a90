//! The external signer of the tests, and a kubeconfig user that has it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{authority::Issued, plugin::Built};

const UNWRITABLE: &str = "a temporary folder that can be written";

/// The path of the signer. Its configuration says how it misbehaves; see its source for the list.
///
/// # Panics
///
/// When it is not there and cannot be built.
pub fn path() -> &'static Path {
    static BUILT: Built = Built::example(
        "keyward-plugin",
        "test_signer",
        &["../plugin/tests/plugins", "../plugin/src", "../protocol/src/signer"],
    );
    BUILT.path()
}

/// A directory with the certificate and the key of a signer, and what the signer wrote down.
pub struct Token {
    folder: tempfile::TempDir,
    entries: Vec<(String, String)>,
}

impl Token {
    /// A token that holds this certificate with its key.
    ///
    /// # Panics
    ///
    /// When there is no temporary directory to write to.
    pub fn new(issued: &Issued) -> Self {
        let folder = tempfile::tempdir().expect(UNWRITABLE);
        let mut token = Self { folder, entries: Vec::new() };
        token.set("pathExec", &path().display().to_string());
        for (name, content) in
            [("certificate", issued.certificate_pem()), ("key", issued.key_pem())]
        {
            let file = token.write(name, content);
            token.set(name, &file);
        }
        for name in ["log", "pids"] {
            let file = token.file(name).display().to_string();
            token.set(name, &file);
        }
        token
    }

    /// Sets an entry of the signer's configuration.
    pub fn set(&mut self, name: &str, value: &str) -> &mut Self {
        self.entries.retain(|(known, _)| known != name);
        self.entries.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes a file into the token's directory and returns its path.
    ///
    /// # Panics
    ///
    /// When that does not work.
    pub fn write(&self, name: &str, content: &str) -> String {
        let path = self.file(name);
        fs::write(&path, content).expect(UNWRITABLE);
        path.display().to_string()
    }

    /// A path in the token's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The user of a kubeconfig that has this signer.
    pub fn user(&self) -> Value {
        let config: serde_json::Map<_, _> =
            self.entries.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        json!({"auth-provider": {"name": "externalSigner", "config": config}})
    }

    /// What the signer was asked, a line each.
    pub fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often it was asked this kind of thing.
    pub fn asked(&self, kind: &str) -> usize {
        self.log().iter().filter(|line| line.starts_with(kind)).count()
    }

    /// The process ids of all signers that ran.
    pub fn pids(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.file("pids")).unwrap_or_default();
        let mut pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        pids.dedup();
        pids
    }

    /// The processes that are still alive.
    pub fn alive(&self) -> Vec<u32> {
        let ours =
            |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == path());
        self.pids().into_iter().filter(ours).collect()
    }
}
