//! An external signer for the tests: it signs with a key in a file, writes down what it was asked,
//! and misbehaves as its configuration says.
//!
//! | configuration | |
//! |---|---|
//! | `certificate`, `key` | the files, in PEM |
//! | `log` | a file that gets a line per request: its kind, and for a signature the options |
//! | `pids` | a file that gets the process id |
//! | `delay` | milliseconds before a signature |
//! | `pin`, `rightPin` | if both are there they must be the same |
//! | `ask` | a PIN is asked for on the terminal, and must be `rightPin` |
//! | `fault` | one of the ways to misbehave below, at the request that `faultAt` names |

#[path = "../../examples/file_key_signer/key.rs"]
mod key;

use std::{
    env, fs,
    io::Write as _,
    process::{self, ExitCode},
    thread,
    time::Duration,
};

use keyward_plugin::{
    CertificateResponse, Configuration, Options, Refusal, SignRequest, Signer, Terminal,
    serve_signer,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use key::Key;

#[derive(Default)]
struct TestSigner {
    unlocked: bool,
}

impl Signer for TestSigner {
    fn certificate(
        &mut self,
        configuration: &Configuration,
    ) -> Result<CertificateResponse, Refusal> {
        note(configuration, "CertificateRequest");
        misbehave(configuration, "certificate");
        let pem = read(configuration, "certificate")?;
        let mut chain = CertificateDer::pem_slice_iter(pem.as_bytes())
            .map(|certificate| certificate.map(|der| der.to_vec()).map_err(Refusal::failed))
            .collect::<Result<Vec<_>, _>>()?;
        let certificate = chain.remove(0);
        let prompt = configuration.get("prompt").map(str::to_owned);
        Ok(CertificateResponse { certificate, chain, prompt })
    }

    fn unlock(&mut self, configuration: &Configuration) -> Result<(), Refusal> {
        note(configuration, "UnlockRequest");
        misbehave(configuration, "unlock");
        self.open(configuration)
    }

    fn sign(&mut self, request: &SignRequest) -> Result<Vec<u8>, Refusal> {
        let SignRequest { configuration, digest, options } = request;
        note(configuration, &format!("SignRequest {} {}", options.kind(), options.value()));
        if !self.unlocked {
            self.open(configuration)?;
        }
        misbehave(configuration, "sign");
        if let Some(delay) = configuration.get("delay").and_then(|text| text.parse().ok()) {
            thread::park_timeout(Duration::from_millis(delay));
        }
        let fault = configuration.get("fault").unwrap_or_default();
        let digest = match (fault, options) {
            ("wrong-signature", Options::Message) => b"another message".to_vec(),
            ("wrong-signature", _) => vec![7; digest.len()],
            _ => digest.clone(),
        };
        let key = if fault == "other-key" { "otherKey" } else { "key" };
        Key::read(&read(configuration, key)?)?.sign(&digest, *options)
    }
}

impl TestSigner {
    fn open(&mut self, configuration: &Configuration) -> Result<(), Refusal> {
        let right = configuration.get("rightPin").unwrap_or_default();
        if configuration.get("ask").is_some() {
            let pin = Terminal::controlling()?.ask_hidden("PIN: ")?;
            if pin.expose() != right {
                return Err(Refusal::NotAllowed("the PIN is wrong".into()));
            }
        } else if configuration.get("pin").is_some_and(|pin| pin != right) {
            note(configuration, "Login");
            return Err(Refusal::WrongPin("the PIN in the configuration is wrong".into()));
        }
        self.unlocked = true;
        Ok(())
    }
}

/// Does something else than it was asked to, and mostly does not return.
fn misbehave(configuration: &Configuration, at: &str) {
    if configuration.get("faultAt").unwrap_or("sign") != at {
        return;
    }
    // Once only, if a file says that it happened already.
    if let Some(file) = configuration.get("faultOnce") {
        if fs::exists(file).unwrap_or(false) {
            return;
        }
        fs::write(file, "").expect("a note");
    }
    let said = match configuration.get("fault").unwrap_or_default() {
        "hang" => loop {
            thread::park();
        },
        "die" => process::abort(),
        "fail" => process::exit(3),
        "garbage" => "}{ nonsense".to_owned(),
        "nothing" => String::new(),
        "kind" => format!("{{\"apiVersion\":\"{VERSION}\",\"kind\":\"Other\"}}"),
        "version" => "{\"apiVersion\":\"v2\",\"kind\":\"SignResponse\"}".to_owned(),
        "mixed-up" => format!("{{\"apiVersion\":\"{VERSION}\",\"kind\":\"UnlockResponse\"}}"),
        "truncated" => format!(
            "{{\"apiVersion\":\"{VERSION}\",\"kind\":\"SignResponse\",\"signature\":\"MEUCIQ\",\
             \"certificate\":\"MIIBI\"}}"
        ),
        "no-certificate" => format!(
            "{{\"apiVersion\":\"{VERSION}\",\"kind\":\"CertificateResponse\",\
             \"certificate\":\"bm90IERFUg==\"}}"
        ),
        "endless" => {
            let mut out = answer();
            while out.write_all(&[b'x'; 4096]).is_ok() {}
            process::exit(0);
        }
        _ => return,
    };
    let _ = writeln!(answer(), "{said}");
    process::exit(0);
}

const VERSION: &str = "external-signer.authentication.k8s.io/v1alpha1";

/// The real stdout, which the kit moved to the first free descriptor.
fn answer() -> fs::File {
    (3..10)
        .map(|number| format!("/proc/self/fd/{number}"))
        .filter(|path| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("pipe:")))
        .find_map(|path| fs::File::options().write(true).open(path).ok())
        .expect("a stdout")
}

fn note(configuration: &Configuration, line: &str) {
    for (name, line) in [("log", line.to_owned()), ("pids", process::id().to_string())] {
        if let Some(path) = configuration.get(name) {
            let file = fs::File::options().create(true).append(true).open(path);
            file.and_then(|mut file| writeln!(file, "{line}")).expect("a log");
        }
    }
}

fn read(configuration: &Configuration, name: &str) -> Result<String, Refusal> {
    let path = configuration
        .get(name)
        .ok_or_else(|| Refusal::BadConfig(format!("`{name}` is missing in the configuration")))?;
    fs::read_to_string(path).map_err(|e| Refusal::Failed(format!("cannot read `{path}`: {e}")))
}

fn main() -> ExitCode {
    // A signer that cannot be resident, and knows nothing of it.
    if env::args().any(|arg| arg == "old") {
        return ExitCode::FAILURE;
    }
    serve_signer(TestSigner::default())
}
