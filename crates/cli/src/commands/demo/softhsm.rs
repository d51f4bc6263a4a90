//! The demo's own `SoftHSM` token, and `keyward-pkcs11`, the plugin for it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use keyward_demo::authority::Authority;
use keyward_host::rules::Program;
use keyward_process::{
    runner::{Invocation, Stdin},
    surroundings::Surroundings,
};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::scene::{LONG, SOFTHSM, printed, write};
use crate::{failure::Failure, output};

/// The token's PIN. It protects, for ten seconds, a key that only the demo's server accepts.
const PIN: &str = "demo-1234";

/// The plugin for the token.
const PLUGIN: &str = "keyward-pkcs11";

/// How long one command to the token may take.
const BUDGET: Duration = Duration::from_secs(10);

/// `SoftHSM`, with all its files in the demo's directory.
pub(super) struct Softhsm {
    util: PathBuf,
    program: PathBuf,
    folder: PathBuf,
    env: Vec<(OsString, OsString)>,
}

impl Softhsm {
    /// Finds `SoftHSM`, and `keyward-pkcs11` next to this program or in `PATH`. Returns what is
    /// missing otherwise.
    pub(super) fn find(
        surroundings: &Surroundings,
        program: &Path,
        folder: &Path,
    ) -> Result<Self, &'static str> {
        let in_path = |name| Program::locate(name, None, &[], surroundings).map(|found| found.path);
        let util = in_path("softhsm2-util")
            .map_err(|_| "SoftHSM is not installed (Debian package `softhsm2`)")?;
        let beside = program.with_file_name(PLUGIN);
        let program = if beside.is_file() { Ok(beside) } else { in_path(PLUGIN) };
        let program = program.map_err(|_| {
            "`keyward-pkcs11` is not installed; in the source tree \
             `cargo build --release -p keyward-pkcs11` builds it next to this program"
        })?;
        let folder = folder.join(SOFTHSM);
        let mut env = surroundings.vars();
        env.push(("SOFTHSM2_CONF".into(), folder.join("conf").into()));
        Ok(Self { util, program, folder, env })
    }

    /// The kubeconfig user whose key is in the token.
    pub(super) fn user(&self) -> Value {
        json!({ "name": SOFTHSM, "user": { "auth-provider": {
            "name": "externalSigner",
            "config": { "pathExec": self.folder.join("program"), "uri": self.uri(), "resident": "true" },
        } } })
    }

    /// Creates the token with a key in it, and stores a signed certificate there.
    pub(super) fn enrol(&self, authority: &Authority) -> Result<(), Failure> {
        self.lay_out()?;
        let label = ["--init-token", "--free", "--label", "demo", "--pin", PIN, "--so-pin", PIN];
        self.run(&self.util, &label, Stdin::Closed)?;
        let uri = self.uri();
        self.plugin(&["keygen", &uri], Stdin::Closed)?;
        let request = self.plugin(&["csr", &uri, "--user", SOFTHSM], Stdin::Closed)?;
        let request = String::from_utf8_lossy(&request);
        let certificate =
            authority.answer(&request, LONG).map_err(Failure::of("no certificate"))?;
        let certificate = Stdin::Request(Zeroizing::new(certificate.into_bytes()));
        self.plugin(&["import", "-", &uri], certificate).map(drop)
    }

    /// Replaces the stored PIN by a wrong one.
    pub(super) fn forget_pin(&self) -> Result<(), Failure> {
        Ok(fs::write(self.folder.join("pin"), "wrong")?)
    }

    fn lay_out(&self) -> Result<(), Failure> {
        let tokens = self.folder.join("tokens");
        fs::create_dir_all(&tokens)?;
        let conf = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            tokens.display()
        );
        // A kubeconfig cannot hold a signer's arguments and environment. The runtime directory is
        // where the signer keeps its locks.
        let quoted = |path: &Path| output::quoted(&path.display().to_string());
        let script = format!(
            "#!/bin/sh\nexport SOFTHSM2_CONF={} XDG_RUNTIME_DIR={}\nexec {} \"$@\"\n",
            quoted(&self.folder.join("conf")),
            quoted(&self.folder),
            quoted(&self.program)
        );
        let files =
            [("conf", conf.as_str(), 0o600), ("pin", PIN, 0o600), ("program", &script, 0o700)];
        for (name, text, mode) in files {
            write(&self.folder.join(name), text, mode)?;
        }
        Ok(())
    }

    fn uri(&self) -> String {
        let pin = self.folder.join("pin");
        let pin = pin.display();
        format!("pkcs11:token=demo;object=demo?module-path=libsofthsm2.so&pin-source=file:{pin}")
    }

    fn plugin(&self, args: &[&str], stdin: Stdin) -> Result<Zeroizing<Vec<u8>>, Failure> {
        self.run(&self.folder.join("program"), args, stdin)
    }

    fn run(
        &self,
        program: &Path,
        args: &[&str],
        stdin: Stdin,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut invocation = Invocation::new(program);
        invocation.args = args.iter().map(OsString::from).collect();
        invocation.env.clone_from(&self.env);
        invocation.stdin = stdin;
        invocation.budget = BUDGET;
        printed(&invocation)
    }
}
