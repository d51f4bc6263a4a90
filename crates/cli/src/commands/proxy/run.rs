//! Serves until told to stop, or until the command has ended.

use std::{ffi::OsString, process::ExitCode, sync::Arc, time::Duration};

use keyward_process::{harden, runner};
use keyward_proxy::{Options, Proxy};
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc::UnboundedReceiver,
};

use super::{
    child,
    signals::{self, Received},
};
use crate::{duration, failure::Failure, globals::Globals, output};

/// How long plugins may take to die.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// When a proxy stops.
pub(crate) struct Until {
    /// The command to run; empty to serve until told to stop.
    pub(crate) command: Vec<OsString>,
    /// Stop after this long without a request.
    pub(crate) idle: Option<Duration>,
    /// How long open requests may take to finish at the end.
    pub(crate) grace: Duration,
}

/// Serves until the end.
pub(crate) fn run(
    options: &Options,
    until: &Until,
    globals: &Globals,
) -> Result<ExitCode, Failure> {
    to_the_end(async |signals| {
        let proxy = Proxy::start(options, Arc::new(globals.clone())).await?;
        if let Some(url) = proxy.metrics_url() {
            output::tell(&format!("metrics {url}\n"));
        }
        if until.command.is_empty() {
            serve(proxy, until, signals).await
        } else {
            serve_command(&proxy, &until.command, globals, signals).await
        }
    })
}

/// Does the work of a proxy, which hears the signals, then stops the plugins.
pub(super) fn to_the_end(
    work: impl AsyncFnOnce(UnboundedReceiver<Received>) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    harden::raise_descriptors();
    let signals = signals::listen();
    #[cfg(target_os = "linux")]
    crate::allocator::return_memory();
    let done = runtime().and_then(|runtime| {
        let done = runtime.block_on(work(signals));
        // A resolver or a file may keep a thread busy; do not wait for it. Connections are dropped here, and the last one of
        // a signer waits a moment for its end.
        runtime.shutdown_background();
        done
    });
    // Plugins that are running, resident ones too, end with us.
    runner::shut_down(LAST_BREATH);
    done
}

async fn serve_command(
    proxy: &Proxy,
    words: &[OsString],
    globals: &Globals,
    mut signals: UnboundedReceiver<Received>,
) -> Result<ExitCode, Failure> {
    output::never_wait();
    // While the terminal is still ours.
    tokio::select! {
        () = proxy.log_in() => {}
        Some(received) = signals.recv() => {
            return Ok(ExitCode::from(child::signalled(received.signal)));
        }
    }
    child::run(words, proxy.kubeconfig(), globals, signals).await
}

async fn serve(
    mut proxy: Proxy,
    until: &Until,
    mut signals: UnboundedReceiver<Received>,
) -> Result<ExitCode, Failure> {
    let path = proxy.kubeconfig().display().to_string();
    output::tell(&format!("ready {} {path}\n", proxy.url()));
    output::print(&format!("export KUBECONFIG={}\n", output::quoted(&path)))?;
    output::never_wait();
    let idle = async {
        match until.idle {
            Some(limit) => proxy.wait_until_idle(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = signals.recv() => {}
        () = idle => tracing::info!("idle for too long, exiting"),
    }
    proxy.drain();
    let open = proxy.open_requests();
    if open > 0 {
        output::tell(&format!(
            "finishing {open} requests, for {} at most; signal again to stop at once\n",
            duration::show(until.grace)
        ));
    }
    tokio::select! {
        () = proxy.finished() => {}
        () = tokio::time::sleep(until.grace) => {}
        _ = signals.recv() => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// What a proxy runs on.
///
/// Half of the machine's cores, at most four: the clients need the rest. With more threads, handing
/// requests between them costs more than it gains (measured on two cores: one thread needs a
/// quarter less time per request than two).
fn runtime() -> Result<Runtime, Failure> {
    let threads =
        std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, 4));
    let mut builder = match threads {
        // Without other threads, handing tasks to them is not paid for either.
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder
        .worker_threads(threads)
        .thread_name("proxy")
        .enable_all()
        .build()
        .map_err(Failure::of("cannot start the runtime"))
}
