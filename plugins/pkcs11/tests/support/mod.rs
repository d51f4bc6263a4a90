//! Real tokens for the tests, `SoftHSM` and a TPM, each in a directory of its own; and the real plugin.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "test code, of which each test file uses a part"
)]

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio},
    thread,
    time::Duration,
};

use keyward_protocol::signer::{
    CertificateResponse, Configuration, Options, REQUEST_VARIABLE, Request, Response, SignRequest,
};
use keyward_testing::{authority::Authority, plugin};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The PIN of every token here. It must never be seen anywhere.
pub const PIN: &str = "739125-marked";
/// The security officer's.
pub const SO_PIN: &str = "so-739125-marked";

/// A token in a directory that goes away with it.
pub struct Lab {
    pub folder: TempDir,
    /// The library that the plugin loads.
    pub module: PathBuf,
    /// What shows the token to a program.
    pub variables: Vec<(&'static str, PathBuf)>,
    /// What plays the token.
    player: Option<Child>,
}

impl Lab {
    /// An initialised `SoftHSM` token called `lab`, with nothing in it.
    pub fn soft() -> Self {
        let module = module("libsofthsm2.so", "softhsm2");
        let mut lab = Self::new(module);
        fs::create_dir(lab.path("tokens")).unwrap();
        let configuration = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            lab.path("tokens").display()
        );
        fs::write(lab.path("softhsm2.conf"), configuration).unwrap();
        lab.variables.push(("SOFTHSM2_CONF", lab.path("softhsm2.conf")));
        lab.init("lab");
        lab
    }

    /// A lab with a TPM, emulated by swtpm.
    pub fn tpm() -> Self {
        let mut lab = Self::new(module("libtpm2_pkcs11.so", "libtpm2-pkcs11-1"));
        for folder in ["state", "store"] {
            fs::create_dir(lab.path(folder)).unwrap();
        }
        let socket = |name: &str| format!("type=unixio,path={}", lab.path(name).display());
        let player = Command::new(installed("swtpm", "swtpm"))
            .args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear"])
            .arg("--tpmstate")
            .arg(format!("dir={}", lab.path("state").display()))
            .args(["--server", &socket("tpm"), "--ctrl", &socket("tpm.ctrl")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        lab.player = Some(player);
        let address = format!("swtpm:path={}", lab.path("tpm").display());
        lab.variables.extend([
            ("TPM2_PKCS11_TCTI", address.into()),
            ("TPM2_PKCS11_STORE", lab.path("store")),
            ("TPM2_PKCS11_LOG_LEVEL", "0".into()),
        ]);
        lab.wait_for_player();
        let start = lab.bare_pkcs11_tool(&["--init-token", "--label", "lab", "--so-pin", SO_PIN]);
        hides_pins(&start);
        let arguments = ["--token-label", "lab", "--login", "--init-pin"];
        lab.bare_pkcs11_tool(&[&arguments[..], &["--so-pin", SO_PIN, "--pin", PIN]].concat());
        lab
    }

    fn new(module: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lab = Self { folder, module, variables: Vec::new(), player: None };
        fs::create_dir(lab.path("runtime")).unwrap();
        fs::set_permissions(lab.path("runtime"), fs::Permissions::from_mode(0o700)).unwrap();
        lab.write_pin("pin", PIN);
        lab
    }

    /// Until its socket is there.
    fn wait_for_player(&mut self) {
        let socket = self.path("tpm");
        for _ in 0..6_000 {
            if socket.exists() {
                return;
            }
            let ended = self.player.as_mut().and_then(|player| player.try_wait().unwrap());
            assert!(ended.is_none(), "swtpm ended: {ended:?}");
            thread::sleep(Duration::from_millis(10));
        }
        panic!("swtpm does not listen");
    }

    /// One more `SoftHSM` token.
    pub fn init(&self, label: &str) {
        let arguments = ["--init-token", "--free", "--label", label, "--pin", PIN];
        let mut command = self.tool("softhsm2-util", "softhsm2");
        ok(command.args(arguments).args(["--so-pin", SO_PIN]));
    }

    /// Changes what a `SoftHSM` token says of its PIN, as many wrong tries would with a card:
    /// `SoftHSM` itself never gets further than the first of these flags.
    pub fn set_flags(&self, flags: u64) {
        const FLAGS: [u8; 16] = [0, 0, 0, 0, 0x80, 0, 0x53, 0x4b, 0, 0, 0, 0, 0, 0, 0, 2];
        let token = fs::read_dir(self.path("tokens")).unwrap().next().unwrap().unwrap().path();
        let path = token.join("token.object");
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(16).position(|window| window == FLAGS).unwrap() + 16;
        let now = u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        bytes[at..at + 8].copy_from_slice(&(now | flags).to_be_bytes());
        fs::write(path, bytes).unwrap();
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
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("XDG_RUNTIME_DIR", self.path("runtime"))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// `pkcs11-tool` on this token, logged in.
    pub fn pkcs11_tool(&self, arguments: &[&str]) -> Output {
        let login = ["--token-label", "lab", "--login", "--pin", PIN];
        self.bare_pkcs11_tool(&[&login[..], arguments].concat())
    }

    fn bare_pkcs11_tool(&self, arguments: &[&str]) -> Output {
        let mut command = self.tool("pkcs11-tool", "opensc");
        ok(command.arg("--module").arg(&self.module).args(arguments))
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
        fs::write(self.path("ext"), "extendedKeyUsage = clientAuth\n").unwrap();
        self.issue("ca", &csr, "2", "7", &["-extfile", "ext", "-out", &pem]);
        ok(self.plugin().arg("import").arg(&pem).arg(self.uri(name)));
    }

    /// Has a request signed by the authority of this name, for so many days.
    pub fn issue(&self, authority: &str, csr: &str, days: &str, serial: &str, more: &[&str]) {
        let (pem, key) = (format!("{authority}.pem"), format!("{authority}.key"));
        let signed = ["x509", "-req", "-in", csr, "-CA", &pem, "-CAkey", &key];
        self.openssl(&[&signed[..], &["-days", days, "-set_serial", serial], more].concat());
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

    /// Has certificates signed by this authority from now on.
    pub fn trust(&self, authority: &Authority) {
        fs::write(self.path("ca.pem"), authority.pem()).unwrap();
        fs::write(self.path("ca.key"), authority.key_pem()).unwrap();
    }

    /// The program `keyward` with a kubeconfig whose user `token` is signed for by the plugin, with
    /// this configuration besides `pathExec`.
    pub fn keyward(&self, server: &str, entries: &[(&str, &str)]) -> Command {
        let mut config: serde_json::Map<_, _> =
            entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let plugin = env!("CARGO_BIN_EXE_keyward-pkcs11");
        config.insert("pathExec".to_owned(), plugin.into());
        let user = json!({ "auth-provider": { "name": "externalSigner", "config": config } });
        self.keyward_as(server, &[("token", user)])
    }

    /// The program `keyward` with these users, each with a context of its name; the first is the
    /// current one.
    pub fn keyward_as(&self, server: &str, users: &[(&str, Value)]) -> Command {
        let path = self.path(&format!("kubeconfig-{}", users[0].0));
        let content = self.kubeconfig(server, users);
        // Others may be reading it.
        if fs::read_to_string(&path).ok().as_ref() != Some(&content) {
            fs::write(&path, content).unwrap();
        }
        let mut command = self.tool(plugin::keyward().to_str().unwrap(), "keyward");
        command.env("KUBECONFIG", path).env("HOME", self.folder.path());
        command
    }

    pub fn kubeconfig(&self, server: &str, users: &[(&str, Value)]) -> String {
        let context = |name| json!({ "name": name, "context": { "cluster": "lab", "user": name } });
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": users[0].0,
            "clusters": [{ "name": "lab", "cluster": {
                "server": server, "certificate-authority": self.path("ca.pem"),
            } }],
            "contexts": users.iter().map(|(name, _)| context(name)).collect::<Vec<_>>(),
            "users": users
                .iter()
                .map(|(name, user)| json!({ "name": name, "user": user }))
                .collect::<Vec<_>>(),
        })
        .to_string()
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

    /// Puts `pkcs11-spy` between the plugin and the token from now on.
    pub fn spy(&mut self) {
        let real = std::mem::replace(&mut self.module, module("pkcs11-spy.so", "opensc-pkcs11"));
        self.variables.push(("PKCS11SPY", real));
        self.variables.push(("PKCS11SPY_OUTPUT", self.path("spy.log")));
    }

    /// How often the spy saw this function.
    pub fn spied(&self, function: &str) -> usize {
        let log = fs::read(self.path("spy.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        log.lines().filter(|line| line.ends_with(&format!(" {function}"))).count()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(player) = &mut self.player {
            let _ = player.kill();
            let _ = player.wait();
        }
    }
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

/// A plugin that stays.
pub struct Resident {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Lab {
    /// Starts the plugin to stay.
    pub fn resident(&self) -> Resident {
        let mut command = self.plugin();
        command.env(REQUEST_VARIABLE, Request::Session.to_json().expose());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Resident { stdin: child.stdin.take(), stdout, child }
    }
}

impl Resident {
    pub fn ask(&mut self, request: &Request) -> Response {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{}", request.to_json().expose()).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(!line.contains("marked"), "a PIN was said: {line}");
        Response::read(line.as_bytes()).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Closes its stdin and waits for its end.
    pub fn end(mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
