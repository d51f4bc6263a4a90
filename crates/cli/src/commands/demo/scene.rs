use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Request, Response, header};
use keyward::{Body, Client, Incoming};
use keyward_demo::{
    authority::KeyKind,
    issuer::{Issuer, Manner},
    server::{ConfigMaps, Server},
};
use keyward_host::{
    Kubeconfig, NoopObserver, Overrides, Plan, PlanSettings, Sources, StderrMode, Target,
    rules::Rules,
};
use keyward_process::{
    clock::SystemClock,
    runner::{self, Cancel, Invocation},
    surroundings::Surroundings,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::{leftovers, promise::Promise, softhsm::Softhsm};
use crate::{failure::Failure, output, server, signals};

/// The contexts of the kubeconfig; users and the issuer's accounts have the same names.
pub(super) const TOKEN: &str = "token";
pub(super) const CERTIFICATE: &str = "certificate";
pub(super) const HANGING: &str = "hanging";
pub(super) const FAILING: &str = "failing";
pub(super) const SIGNER: &str = "signer";
pub(super) const SOFTHSM: &str = "softhsm";
pub(super) const ANONYMOUS: &str = "anonymous";
/// The account of the image credential provider.
pub(super) const IMAGES: &str = "images";
/// The account of the plugin that the agent runs.
pub(super) const AGENT: &str = "agent";

/// The issuer's socket, in the scene's directory.
const SOCKET: &str = "issuer";

/// How long credentials live in steps that do not test their expiry.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// Everything a step works with: the server, the issuer, and a kubeconfig for both.
pub(super) struct Scene {
    pub(super) server: Server,
    pub(super) config_maps: Arc<ConfigMaps>,
    pub(super) issuer: Issuer,
    /// The token, or what is missing for it.
    pub(super) softhsm: Result<Softhsm, &'static str>,
    broken: Option<Promise>,
    pub(super) kubeconfig: PathBuf,
    config: Kubeconfig,
    rules: Rules,
    surroundings: Surroundings,
    /// This program, which acts as every plugin of the demo.
    pub(super) program: PathBuf,
    folder: TempDir,
    /// Shows other demos that this one is running.
    _alive: fs::File,
}

impl Scene {
    /// Starts the server and the issuer, and writes the kubeconfig. Runs no plugin.
    pub(super) fn open(
        surroundings: &Surroundings,
        broken: Option<Promise>,
    ) -> Result<Self, Failure> {
        let config_maps = Arc::new(ConfigMaps::default());
        let server = Server::setup()
            .start_with(|_, _| Ok(Arc::new(config_maps.clone())))
            .map_err(Failure::of("the server could not be set up"))?;
        leftovers::sweep(&std::env::temp_dir());
        // Readable by this user only.
        let folder = tempfile::Builder::new()
            .prefix(leftovers::PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(Failure::of("a folder could not be set up"))?;
        let alive =
            leftovers::mark(folder.path()).map_err(Failure::of("a folder could not be set up"))?;
        let doomed = folder.path().to_owned();
        signals::before_leaving(move || {
            let _ = fs::remove_dir_all(&doomed);
        });
        let socket = folder.path().join(SOCKET);
        let issuer = Issuer::start(&server, &socket)
            .map_err(Failure::of("the issuer could not be set up"))?;
        let program =
            std::env::current_exe().map_err(Failure::of("the plugin could not be set up"))?;
        let kubeconfig = folder.path().join("config");
        let signer = signer(&server, &program, folder.path())?;
        let softhsm = Softhsm::find(surroundings, &program, folder.path());
        let mut users = vec![signer];
        users.extend(softhsm.as_ref().map(Softhsm::user));
        let text = written(&server, &program, &socket, users);
        fs::write(&kubeconfig, text).map_err(Failure::of("the kubeconfig could not be set up"))?;
        let config = Kubeconfig::load(surroundings, Some(&kubeconfig))?;
        let mut rules = Rules::default();
        // Anyone who could change this program could have changed the demo already.
        rules.trusted.push(program.clone());
        issuer.answer(IMAGES, Manner::Token(LONG));
        issuer.answer(AGENT, Manner::Token(LONG));
        let surroundings = surroundings.clone();
        let scene = Self {
            server,
            config_maps,
            issuer,
            softhsm,
            broken,
            kubeconfig,
            config,
            rules,
            surroundings,
            program,
            folder,
            _alive: alive,
        };
        scene.settle();
        Ok(scene)
    }

    /// Whether this promise is to be broken.
    pub(super) fn breaks(&self, promise: Promise) -> bool {
        self.broken == Some(promise)
    }

    /// A file of the signer: its `certificate`, its `key`, or the `log` of what it was asked.
    pub(super) fn signer_file(&self, name: &str) -> PathBuf {
        signer_file(self.folder.path(), name)
    }

    /// The directory with all files of the demo.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where the issuer listens.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// The cluster and user of a context.
    pub(super) fn target(&self, context: &str) -> Result<Target, Failure> {
        let overrides = Overrides { context: Some(context.to_owned()), ..Overrides::default() };
        Ok(self.config.resolve(&overrides, &self.surroundings)?)
    }

    /// The plan for a context.
    pub(super) fn plan(&self, context: &str) -> Result<Plan, Failure> {
        let target = self.target(context)?;
        Ok(Plan::new(target, &self.rules, &self.surroundings, settings())?)
    }

    /// A client for a context, which shares its credentials with no other client.
    pub(super) fn client(&self, context: &str) -> Result<Client, Failure> {
        self.client_with(context, settings())
    }

    /// `count` clients for a context, which share no credentials with each other.
    pub(super) fn clients(&self, context: &str, count: usize) -> Result<Vec<Client>, Failure> {
        (0..count).map(|_| self.client(context)).collect()
    }

    /// A client of this context with these settings.
    pub(super) fn client_with(
        &self,
        context: &str,
        settings: PlanSettings,
    ) -> Result<Client, Failure> {
        let target = self.target(context)?;
        Ok(Client::builder().plan(settings).open(&target, &self.rules, &sources())?)
    }

    /// Sets up the accounts as they are before the steps, and for the user to try after them.
    pub(super) fn settle(&self) {
        self.issuer.answer(TOKEN, Manner::Token(LONG));
        self.issuer.answer(CERTIFICATE, Manner::Certificate(LONG));
        self.issuer.answer(HANGING, Manner::Silence);
        self.issuer.answer(FAILING, Manner::No);
    }

    /// Commands for the user to try.
    pub(super) fn invitation(&self) -> String {
        let path = self.kubeconfig.display();
        format!(
            "
the server runs on until Ctrl-C; in another terminal:

  kubectl --kubeconfig {path} get --raw /healthz
  kubectl --kubeconfig {path} --context {CERTIFICATE} auth whoami
  keyward --kubeconfig {path} plan
  keyward --kubeconfig {path} --context {SIGNER} sign
  keyward --kubeconfig {path} --context {HANGING} --plugin-timeout 1s get --raw /healthz
"
        )
    }
}

/// The settings of a daemon: no prompts.
pub(super) fn settings() -> PlanSettings {
    let mut settings = PlanSettings::default();
    settings.person = false;
    settings.stderr = StderrMode::Kept;
    settings
}

/// A separate registry, which shares no credentials with others.
pub(super) fn sources() -> Sources {
    Sources::new(Arc::new(SystemClock), Arc::new(NoopObserver))
}

/// The status of a request whose body was read to the end.
pub(super) async fn status(client: &Client, path: &str) -> Result<u16, Failure> {
    let response = client.get(path).await?;
    let status = response.status().as_u16();
    server::bytes(response.into_body()).await?;
    Ok(status)
}

/// The user that the server authenticates us as, with the connection and certificate.
pub(super) async fn whoami(client: &Client) -> Result<Value, Failure> {
    told(client.get("/whoami").await?).await
}

/// What a program printed that has to end well.
pub(super) fn printed(invocation: &Invocation) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = || Failure::failed(format!("`{}` failed", invocation.program.display()));
    let output = runner::run(invocation, &Cancel::default())
        .map_err(|failure| failed().note("cause", failure.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed().note("it says", said.trim().to_owned()));
    }
    Ok(output.stdout)
}

/// The user that the server takes the bearer of this token for.
pub(super) async fn whoami_with(scene: &Scene, token: &str) -> Result<String, Failure> {
    let request = Request::get("/whoami")
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .body(Body::empty())
        .map_err(|error| Failure::failed(error.to_string()))?;
    let who = told(scene.client(ANONYMOUS)?.send(request).await?).await?;
    Ok(who["username"].as_str().unwrap_or_default().to_owned())
}

/// The object in the server's answer.
pub(super) async fn told(response: Response<Incoming>) -> Result<Value, Failure> {
    let status = response.status();
    if !status.is_success() {
        return Err(server::refused(response).await);
    }
    let body = server::bytes(response.into_body()).await?;
    serde_json::from_slice(&body).map_err(|_| Failure::failed("the server's answer is not JSON"))
}

/// Writes a file with this mode.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn signer_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{SIGNER}-{name}"))
}

/// A user with a certificate, whose key this program holds as the signer.
fn signer(server: &Server, program: &Path, folder: &Path) -> Result<Value, Failure> {
    const BAD: &str = "the signer could not be set up";
    let request = server.authority().client(SIGNER).key(KeyKind::Ed25519);
    let issued = request.issue().map_err(Failure::of(BAD))?;
    let file = |name: &str| signer_file(folder, name);
    // A kubeconfig cannot hold a signer's arguments.
    let program = output::quoted(&program.display().to_string());
    let script = format!("#!/bin/sh\nexec {program} demo-signer\n");
    let files = [
        ("certificate", issued.certificate_pem(), 0o600),
        ("key", issued.key_pem(), 0o600),
        ("program", script.as_str(), 0o700),
    ];
    for (name, text, mode) in files {
        write(&file(name), text, mode).map_err(Failure::of(BAD))?;
    }
    Ok(json!({ "name": SIGNER, "user": { "auth-provider": {
        "name": "externalSigner",
        "config": {
            "pathExec": file("program"),
            "certificate": file("certificate"),
            "key": file("key"),
            "log": file("log"),
        },
    } } }))
}

/// The kubeconfig, as JSON, which is valid YAML. Its protocol version is one that every kubectl
/// speaks, including Debian's.
fn written(server: &Server, program: &Path, socket: &Path, signers: Vec<Value>) -> String {
    let user = |name: &str| {
        json!({ "name": name, "user": { "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": program,
            "args": ["demo-plugin", "--socket", socket, "--account", name],
            "interactiveMode": "Never",
        } } })
    };
    let plugged = [TOKEN, CERTIFICATE, HANGING, FAILING];
    let mut users: Vec<Value> = plugged.iter().map(|name| user(name)).collect();
    users.push(json!({ "name": ANONYMOUS, "user": {} }));
    users.extend(signers);
    let context =
        |name: &Value| json!({ "name": name, "context": { "cluster": "demo", "user": name } });
    let contexts: Vec<Value> = users.iter().map(|user| context(&user["name"])).collect();
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": TOKEN,
        "contexts": contexts,
        "clusters": [{ "name": "demo", "cluster": {
            "server": server.url(),
            "certificate-authority-data": STANDARD.encode(server.authority().pem()),
        } }],
        "users": users,
    });
    format!("{config:#}\n")
}
