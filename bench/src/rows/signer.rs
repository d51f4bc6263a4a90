//! Handshakes that another process signs, beside a key in memory, ours and the peers'. The signer is this program
//! itself, with an Ed25519 key in a file: what it takes to sign is the token's own time.

use std::{
    hint::black_box,
    path::PathBuf,
    process::{Command, Stdio},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use keyward::Client;
use keyward_host::{
    Kubeconfig, NoopObserver, Overrides, PlanSettings, Sources, Target, rules::Rules,
};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};
use keyward_protocol::{
    Secret,
    signer::{Configuration, Options, REQUEST_VARIABLE, Request, SignRequest},
};
use keyward_testing::{
    authority::KeyKind,
    filekey,
    server::{ClientCertificates, Server},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};

use super::requests::{ask, theirs, through_kube};
use crate::{
    measure::{Bar, Row, Variant},
    peer,
};

/// Handshakes in one round.
const HANDSHAKES: u32 = 40;

const MEMORY: &str = "key in memory";
const KUBE: &str = "kube 5: key in memory";
const CLIENT_GO: &str = "client-go: key in memory";
const TOKEN: &str = "the token's own time";
const RESIDENT: &str = "resident signer";
const RUN: &str = "bare run of the signer";
const ONCE: &str = "signer run per request";

/// A new connection and a request on it, signed in each way.
pub fn row() -> Row {
    let scene = Rc::new(Scene::new());
    let shake = |label: &'static str, target: Target| {
        let scene = scene.clone();
        // Held, so that certificate and resident signer are kept for all.
        let first = scene.client(&target);
        let run = move || {
            first.as_ref().map_err(Clone::clone)?;
            scene.counted(|| Scene::each(|| scene.shake(&target)))
        };
        Variant { label, run: Box::new(run) }
    };
    let missing = |label: &'static str, reason: &'static str| Variant {
        label,
        run: Box::new(move || Err(reason.to_owned())),
    };
    let (token, run, kube) = (scene.clone(), scene.clone(), scene.clone());
    let config = scene.runtime.block_on(theirs(&scene.server.kubeconfig(&scene.memory())));
    let job = json!({ "work": "shake", "config": scene.config(), "turns": HANDSHAKES });
    let kept = scene.clone();
    let client_go = move || kept.counted(|| Ok(peer::nanos(&job)? / 1e6));
    Row {
        unit: "ms",
        variants: vec![
            shake(MEMORY, scene.target(&scene.memory())),
            Variant {
                label: KUBE,
                run: Box::new(move || kube.counted(|| Scene::each(|| kube.shake_kube(&config)))),
            },
            Variant { label: CLIENT_GO, run: Box::new(client_go) },
            Variant { label: TOKEN, run: Box::new(move || Scene::each(|| token.sign())) },
            shake(RESIDENT, scene.signer("true")),
            Variant { label: RUN, run: Box::new(move || Scene::each(|| run.run())) },
            shake(ONCE, scene.signer("false")),
            missing("kube 5: signer", "kube knows no key outside of its own memory"),
            missing("client-go: signer", "client-go knows no key outside of its own memory"),
        ],
        bars: vec![
            Bar {
                promise: "a handshake with a key in memory vs kube's",
                judge: |r| (r.ratio(MEMORY, KUBE), 1.0),
            },
            Bar {
                promise: "a handshake with a key in memory vs client-go's",
                judge: |r| (r.ratio(MEMORY, CLIENT_GO), 1.0),
            },
            Bar {
                promise: "a handshake with a resident signer takes at most 1.5 times one with a key in memory, plus the token's own time",
                judge: |r| {
                    let times = |[memory, token, ours]: [f64; 3]| (ours - token) / memory;
                    (r.middle([MEMORY, TOKEN, RESIDENT], times), 1.5)
                },
            },
            Bar {
                promise: "a handshake with a signer that is run for it takes at most that run plus 3 ms",
                judge: |r| (r.middle([RUN, ONCE], |[run, ours]| ours - run), 3.0),
            },
        ],
    }
}

struct Scene {
    server: Server,
    runtime: Runtime,
    sources: Sources,
    folder: TempDir,
    certificate: String,
    key: String,
}

impl Scene {
    fn new() -> Self {
        // HTTP/1.1, as kube speaks nothing else: the work is the handshake, for everybody.
        let setup = Server::setup().only_http1();
        let setup = setup.certificates(ClientCertificates::Demanded).records(0);
        let server = setup.start().expect("a server");
        let issued = server.authority().client("anna").key(KeyKind::Ed25519).issue();
        let issued = issued.expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [("certificate", issued.certificate_pem()), ("key", issued.key_pem())] {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        Self {
            certificate: issued.certificate_pem().to_owned(),
            key: issued.key_pem().to_owned(),
            server,
            runtime: runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
            sources: Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver)),
            folder,
        }
    }

    /// What was measured, if every turn had a handshake of its own and none was resumed.
    fn counted(&self, measure: impl FnOnce() -> Result<f64, String>) -> Result<f64, String> {
        let count = || {
            let counts = self.server.counts();
            counts.handshakes - counts.resumed
        };
        let before = count();
        let figure = measure()?;
        match count() - before {
            shaken if shaken == u64::from(HANDSHAKES) => Ok(figure),
            shaken => Err(format!("{shaken} full handshakes in {HANDSHAKES} turns")),
        }
    }

    fn each(mut once: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
        let begin = Instant::now();
        for _ in 0..HANDSHAKES {
            once()?;
        }
        Ok(begin.elapsed().as_secs_f64() * 1e3 / f64::from(HANDSHAKES))
    }

    fn client(&self, target: &Target) -> Result<Client, String> {
        let mut settings = PlanSettings::default();
        settings.person = false;
        let client = Client::builder().plan(settings);
        let client = client.open(target, &Rules::default(), &self.sources);
        client.map_err(|e| e.to_string())
    }

    /// A client of its own, so that nothing is resumed.
    fn shake(&self, target: &Target) -> Result<(), String> {
        let client = self.client(target)?;
        self.runtime.block_on(ask(&client))
    }

    /// A handshake by kube, with the key in memory.
    fn shake_kube(&self, config: &kube::Config) -> Result<(), String> {
        self.runtime.block_on(async {
            let client = kube::Client::try_from(config.clone()).map_err(|e| e.to_string())?;
            through_kube(&client).await
        })
    }

    fn sign(&self) -> Result<(), String> {
        let signature = filekey::sign(&self.key, &[7; 130]).map_err(|e| e.to_string())?;
        black_box(signature);
        Ok(())
    }

    /// The signer for one signature, started with nothing of ours.
    fn run(&self) -> Result<(), String> {
        let mut configuration = Configuration::default();
        for (name, value) in self.entries() {
            configuration.set(name, Secret::new(value));
        }
        let digest = vec![7; 130];
        let request = SignRequest { configuration, digest, options: Options::Message };
        let output = Command::new(program())
            .env(REQUEST_VARIABLE, Request::Sign(request).to_json().expose())
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        if output.stdout.is_empty() { Err("the signer said nothing".into()) } else { Ok(()) }
    }

    fn entries(&self) -> [(String, String); 3] {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        [
            ("pathExec".to_owned(), program()),
            ("certificate".to_owned(), path("certificate")),
            ("key".to_owned(), path("key")),
        ]
    }

    fn signer(&self, resident: &str) -> Target {
        let mut config: serde_json::Map<String, Value> =
            self.entries().into_iter().map(|(name, value)| (name, value.into())).collect();
        config.insert("resident".to_owned(), resident.into());
        self.target(&json!({ "auth-provider": { "name": "externalSigner", "config": config } }))
    }

    /// A user with certificate and key.
    fn memory(&self) -> Value {
        use base64::Engine as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        json!({
            "client-certificate-data": encode(&self.certificate),
            "client-key-data": encode(&self.key),
        })
    }

    /// A kubeconfig with that user, as a file.
    fn config(&self) -> PathBuf {
        let path = self.folder.path().join("config");
        std::fs::write(&path, self.server.kubeconfig(&self.memory())).expect("a file");
        path
    }

    fn target(&self, user: &Value) -> Target {
        let kubeconfig = Kubeconfig::from_bytes(self.server.kubeconfig(user).as_bytes());
        kubeconfig
            .and_then(|config| config.resolve(&Overrides::default(), &Surroundings::process()))
            .expect("a kubeconfig")
    }
}

/// The path of this program, which also acts as a signer.
fn program() -> String {
    std::env::current_exe().expect("a program").display().to_string()
}
