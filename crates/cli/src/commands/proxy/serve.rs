//! `keyward proxy serve`: the process of a background proxy, which the agent starts.

use std::{
    env, ffi::OsString, fmt::Write as _, fs::File, path::PathBuf, process::ExitCode, sync::Arc,
    time::Duration,
};

use keyward::client::{Builder, Opened};
use keyward_host::{Kubeconfig, Sources, Target};
use keyward_process::{
    FileId,
    surroundings::{Fixed, Surroundings},
};
use keyward_proxy::{Allowed, Config, Error, Options, Proxy, Service};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{
    link::{self, Link},
    run::to_the_end,
    signals::Received,
};
use crate::{failure::Failure, flags::Flags, globals::Globals, output};

/// How long to wait for a proxy that was told to stop, or that is about to register again.
const OTHER: Duration = Duration::from_secs(10);
/// How often something is looked at for which there is no event.
const LOOK: Duration = Duration::from_millis(100);
/// How often an idle proxy looks whether its grants have ended.
const GRANTS: Duration = Duration::from_secs(1);
/// How often the program file is compared.
const COMPARE: Duration = Duration::from_secs(2);
/// How long whoever stops a proxy waits for its open requests.
const SOON: Duration = Duration::from_millis(500);
/// How long open requests may take to finish at the end.
const GRACE: Duration = Duration::from_secs(10);
/// How long streams may go on after the program was replaced.
const LONG_GRACE: Duration = Duration::from_secs(3600);

/// How long a proxy stays for which a person has typed a PIN.
const WORKING_DAY: Duration = Duration::from_secs(12 * 3600);

/// Variables of this process that count, whatever the settings say.
pub(super) const OWN: [&str; 8] = [
    "HOME",
    "USER",
    "LOGNAME",
    "KEYWARD_AGENT_SOCK",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
];

/// Serve a background proxy; the agent runs this
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The name of the proxy
    #[arg(value_name = "SERVICE")]
    service: String,

    /// Have signers ask for their PINs at this terminal, then leave it; print a byte when serving
    #[arg(long)]
    attended: bool,
}

/// Serves until the agent, a signal or idleness ends it.
pub(super) fn run(args: &Args, globals: &Globals) -> Result<ExitCode, Failure> {
    output::never_wait();
    let done = to_the_end(async |signals| serve(args, globals, signals).await);
    if let Err(failure) = &done {
        link::failed(globals, &args.service, &line(failure));
    }
    done
}

/// A failure in one line.
fn line(failure: &Failure) -> String {
    let mut text = failure.message().to_owned();
    for (label, note) in failure.notes() {
        let _ = write!(text, "; {label}: {note}");
    }
    if let Some(hint) = failure.advice() {
        let _ = write!(text, " (hint: {hint})");
    }
    output::inline(&text)
}

async fn serve(
    args: &Args,
    globals: &Globals,
    mut signals: UnboundedReceiver<Received>,
) -> Result<ExitCode, Failure> {
    let Args { service: name, attended } = args;
    let service = Service::named(&globals.surroundings, name).ok_or_else(|| {
        Failure::failed(format!("there is no background proxy `{}`", output::inline(name)))
            .hint("`keyward proxy start` makes one; then use the kubeconfig that it names")
    })?;
    let Some(lock) = lock(&service).await? else {
        // It serves, and the agent has heard from it by now.
        return Ok(ExitCode::SUCCESS);
    };
    let program = env::current_exe().ok();
    let before = program.as_deref().and_then(|path| FileId::read(path).ok());
    let config = ServiceConfig::new(&service, *attended, globals);
    let settings = service.settings();
    let options = Options {
        allowed: Allowed {
            authorization: settings.allow_authorization,
            impersonation: settings.allow_impersonation,
        },
        refresh_on_403: settings.refresh_on_403,
        service: Some(service.clone()),
        ..Options::default()
    };
    let mut proxy = Proxy::start(&options, Arc::new(config)).await?;
    let mut link = Link::open(globals, service.name(), proxy.clients());
    let mut limit = service.idle_limit();
    if *attended {
        tokio::select! {
            () = proxy.unlock_signers() => {}
            _ = signals.recv() => return Ok(ExitCode::FAILURE),
        }
        // Without the terminal no signal of it comes here. What was typed lasts a working day.
        let _ = rustix::process::setsid();
        keyward_agent::ready()?;
        limit = limit.max(WORKING_DAY);
    }
    let replaced = async {
        // A new program would have to ask for the PINs again.
        if *attended {
            std::future::pending::<()>().await;
        }
        loop {
            tokio::time::sleep(COMPARE).await;
            let now = program.as_deref().and_then(|path| FileId::read(path).ok());
            if now.is_some() && now != before {
                return;
            }
        }
    };
    let idle = async {
        loop {
            proxy.wait_until_idle(limit).await;
            // Their consumers cannot start the proxy.
            if !proxy.grants().is_empty() {
                tokio::time::sleep(GRANTS).await;
                continue;
            }
            // A client may be on its way: the agent knows. Without an agent there is none.
            if !link.ask_to_end() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let is_replaced = tokio::select! {
        _ = signals.recv() => false,
        () = link.stopped() => false,
        () = idle => false,
        () = replaced => {
            link.replaced();
            true
        }
    };
    proxy.drain();
    proxy.silent().await;
    // Now the next proxy can listen.
    drop(lock);
    if is_replaced {
        // The streams of the old program go on, but only as long as those of the new one may.
        link.draining();
        tokio::select! {
            () = proxy.finished() => {}
            () = tokio::time::sleep(LONG_GRACE) => {}
            () = link.stopped() => {}
            _ = signals.recv() => {}
        }
    }
    // With nothing open, it is gone before whoever stopped it hears so.
    if tokio::time::timeout(SOON, proxy.finished()).await.is_ok() {
        drop(proxy);
        link.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    link.close().await;
    tokio::select! {
        () = proxy.finished() => {}
        () = tokio::time::sleep(GRACE) => {}
        _ = signals.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// The right to listen; `None` if another process keeps it.
async fn lock(service: &Service) -> Result<Option<File>, Failure> {
    let mut waited = Duration::ZERO;
    loop {
        let lock = service.try_lock().map_err(|error| {
            Failure::failed(format!("the proxy `{}` cannot be locked", service.name()))
                .note("cause", error.to_string())
        })?;
        if lock.is_some() || waited >= OTHER {
            return Ok(lock);
        }
        tokio::time::sleep(LOOK).await;
        waited += LOOK;
    }
}

/// The kubeconfig and the environment that a service was started with, whoever starts it now.
struct ServiceConfig(Globals);

impl ServiceConfig {
    fn new(service: &Service, attended: bool, globals: &Globals) -> Self {
        let settings = service.settings();
        let own =
            OWN.iter().filter_map(|name| Some((name.into(), globals.surroundings.var(name)?)));
        let kept = settings.environment.iter().map(|(name, value)| (name.into(), value.into()));
        let mut vars: Vec<(OsString, OsString)> = own.chain(kept).collect();
        let mut flags = Flags { kuberc: settings.kuberc.clone(), ..Flags::default() };
        match env::join_paths(&settings.kubeconfig) {
            Ok(list) => vars.push(("KUBECONFIG".into(), list)),
            // A path with a colon, which no list can contain: it was given alone.
            Err(_) => flags.kubeconfig = settings.kubeconfig.first().cloned(),
        }
        let cwd = globals.surroundings.home().unwrap_or("/".into());
        let mut globals = Globals::new(flags);
        // Signers ask at `/dev/tty`; plugins need stdin too, which is none.
        let fixed = Fixed { vars, cwd, has_terminal: attended, ..Fixed::default() };
        globals.surroundings = Surroundings::fixed(fixed);
        Self(globals)
    }
}

impl Config for ServiceConfig {
    fn surroundings(&self) -> &Surroundings {
        &self.0.surroundings
    }

    fn files(&self) -> Vec<PathBuf> {
        Config::files(&self.0)
    }

    fn kubeconfig(&self) -> Result<Kubeconfig, Error> {
        let config = Config::kubeconfig(&self.0)?;
        if config.files.iter().any(|(_, found)| *found) {
            return Ok(config);
        }
        // Not the same as a kubeconfig without contexts: it may be back in a moment.
        let files: Vec<_> =
            config.files.iter().map(|(file, _)| format!("`{}`", file.display())).collect();
        Err(Failure::failed(format!("the kubeconfig {} does not exist", files.join(", ")))
            .hint("`keyward proxy start --kubeconfig FILE` serves another one")
            .into())
    }

    fn target(&self, kubeconfig: &Kubeconfig, context: Option<&str>) -> Result<Target, Error> {
        Config::target(&self.0, kubeconfig, context)
    }

    fn open(&self, target: Target, builder: Builder, sources: &Sources) -> Result<Opened, Error> {
        Config::open(&self.0, target, builder, sources)
    }
}
