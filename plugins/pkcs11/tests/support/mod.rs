//! Real tokens for the tests: `SoftHSM` in a folder of its own, and the real plugin.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "test code, of which each test file uses a part"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use keyward_protocol::signer::{
    CertificateResponse, Configuration, Options, REQUEST_VARIABLE, Request, Response, SignRequest,
};
use tempfile::TempDir;

/// The PIN of every token here. It must never be seen anywhere.
pub const PIN: &str = "739125-marked";
/// The security officer's.
pub const SO_PIN: &str = "so-739125-marked";

/// A `SoftHSM` token in a folder that goes away with it.
pub struct Soft {
    pub folder: TempDir,
    /// The library that the plugin loads.
    pub module: PathBuf,
}

impl Soft {
    /// An initialised token called `lab`, with nothing in it.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tokens")).unwrap();
        fs::create_dir(folder.path().join("runtime")).unwrap();
        fs::set_permissions(folder.path().join("runtime"), fs::Permissions::from_mode(0o700))
            .unwrap();
        let configuration = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            folder.path().join("tokens").display()
        );
        fs::write(folder.path().join("softhsm2.conf"), configuration).unwrap();
        let soft = Self { folder, module: module("libsofthsm2.so", "softhsm2") };
        soft.init("lab");
        soft.write_pin("pin", PIN);
        soft
    }

    /// One more token.
    pub fn init(&self, label: &str) {
        let arguments = ["--init-token", "--free", "--label", label, "--pin", PIN];
        let mut command = self.tool("softhsm2-util", "softhsm2");
        ok(command.args(arguments).args(["--so-pin", SO_PIN]));
    }

    /// A file with a PIN that its owner alone may read.
    pub fn write_pin(&self, name: &str, pin: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("{pin}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program that sees this token and no other.
    pub fn tool(&self, program: &str, package: &str) -> Command {
        let mut command = Command::new(installed(program, package));
        command
            .env("SOFTHSM2_CONF", self.path("softhsm2.conf"))
            .env("XDG_RUNTIME_DIR", self.path("runtime"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// `pkcs11-tool` on this token, logged in.
    pub fn pkcs11_tool(&self, arguments: &[&str]) -> Output {
        let mut command = self.tool("pkcs11-tool", "opensc");
        command.arg("--module").arg(module("libsofthsm2.so", "softhsm2"));
        command.args(["--token-label", "lab", "--login", "--pin", PIN]).args(arguments);
        ok(&mut command)
    }

    pub fn openssl(&self, arguments: &[&str]) -> Output {
        ok(self.tool("openssl", "openssl").args(arguments))
    }

    /// The plugin, for a person.
    pub fn plugin(&self) -> Command {
        let mut command = self.tool(env!("CARGO_BIN_EXE_keyward-pkcs11"), "keyward-pkcs11");
        command.env_remove(REQUEST_VARIABLE);
        command
    }

    /// The URI of an object, with module and PIN file.
    pub fn uri(&self, object: &str) -> String {
        format!(
            "pkcs11:token=lab;object={object}?module-path={}&pin-source=file:{}",
            self.module.display(),
            self.path("pin").display()
        )
    }

    /// A command for people on an object: its stdout, when it succeeds.
    pub fn run(&self, command: &str, object: &str, more: &[&str]) -> String {
        let output = ok(self.plugin().arg(command).arg(self.uri(object)).args(more));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a key and has a certificate for it signed and stored.
    pub fn enrol(&self, name: &str, kind: &str) {
        self.run("keygen", name, &["--kind", kind]);
        self.certify(name);
    }

    /// Has a certificate signed by a test authority and stored beside the key.
    pub fn certify(&self, name: &str) {
        let request = self.run("csr", name, &["--user", name, "--group", "testers"]);
        let (csr, pem) = (format!("{name}.csr"), format!("{name}.pem"));
        fs::write(self.path(&csr), request).unwrap();
        self.openssl(&["req", "-in", &csr, "-verify", "-noout"]);
        self.authority();
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &csr,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-days",
            "2",
            "-set_serial",
            "7",
            "-out",
            &pem,
        ]);
        ok(self.plugin().arg("import").arg(&pem).arg(self.uri(name)));
    }

    /// `ca.pem` and `ca.key`
    pub fn authority(&self) {
        if !self.path("ca.pem").exists() {
            self.openssl(&[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-keyout",
                "ca.key",
                "-out",
                "ca.pem",
                "-subj",
                "/CN=authority",
                "-days",
                "2",
            ]);
        }
    }

    /// What a kubeconfig would say.
    pub fn configuration(&self, object: &str) -> Configuration {
        [("uri", self.uri(object))].into_iter().collect()
    }

    /// Asks the plugin as a client does, by a run of its own. Also the process's output.
    pub fn ask(&self, request: &Request) -> (Response, Output) {
        let mut command = self.plugin();
        command.env(REQUEST_VARIABLE, request.to_json().expose());
        let output = command.output().unwrap();
        hides_pins(&output);
        let response = Response::read(&output.stdout);
        (response.unwrap_or_else(|e| panic!("{e}: {output:?}")), output)
    }

    pub fn certificate(&self, configuration: &Configuration) -> CertificateResponse {
        match self.ask(&Request::Certificate(configuration.clone())).0 {
            Response::Certificate(response) => response,
            other => panic!("{other:?}"),
        }
    }

    pub fn sign(&self, configuration: &Configuration, options: Options, digest: &[u8]) -> Vec<u8> {
        match self.ask(&sign_request(configuration, options, digest)).0 {
            Response::Sign(signature) => signature,
            other => panic!("{other:?}"),
        }
    }

    /// How often the log of `pkcs11-spy` has this function.
    pub fn spied(&self, function: &str) -> usize {
        let log = fs::read_to_string(self.path("spy.log")).unwrap_or_default();
        log.lines().filter(|line| line.ends_with(function)).count()
    }

    /// Puts `pkcs11-spy` between the plugin and the token.
    pub fn spy(&mut self, command: &mut Command) {
        self.module = module("pkcs11-spy.so", "opensc-pkcs11");
        spy_on(command, &self.path("spy.log"));
    }
}

pub fn spy_on(command: &mut Command, log: &Path) {
    command.env("PKCS11SPY", module("libsofthsm2.so", "softhsm2")).env("PKCS11SPY_OUTPUT", log);
}

pub fn sign_request(configuration: &Configuration, options: Options, digest: &[u8]) -> Request {
    Request::Sign(SignRequest {
        configuration: configuration.clone(),
        digest: digest.to_vec(),
        options,
    })
}

/// No PIN, right or wrong, in anything that was said.
pub fn hides_pins(output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(stream);
        assert!(!text.contains("marked"), "a PIN was said: {text}");
    }
}

/// Runs to success, and shows everything otherwise.
pub fn ok(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A module of some package.
pub fn module(file: &str, package: &str) -> PathBuf {
    let machine = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    [machine.as_str(), "/usr/lib", "/usr/lib64"]
        .iter()
        .flat_map(|root| ["softhsm", "pkcs11", ""].map(|folder| Path::new(root).join(folder)))
        .map(|folder| folder.join(file))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("`{file}` is not there: install the package `{package}`"))
}

/// A program of some package.
pub fn installed(program: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("`{program}` is not there: install the package `{package}`"))
}
