//! Commands in a pod: real processes on this machine, with or without a terminal.

use std::process::{ExitStatus, Stdio};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    process::{Child, Command},
    sync::mpsc,
};

use super::{
    super::{Shared, api::query::Query},
    next_piece,
    terminal::Terminal,
};

/// What a command finds in its environment, and nothing else of ours.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/"),
    ("TERM", "xterm"),
];

/// What a client wants to be run.
#[expect(clippy::struct_excessive_bools, reason = "the switches of the request, one by one")]
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Empty to attach to what runs already.
    pub(crate) command: Vec<String>,
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
    pub(crate) namespace: String,
    pub(crate) pod: String,
}

/// What a server calls the streams of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    stdin: &'static str,
    stdout: &'static str,
    stderr: &'static str,
}

impl Words {
    /// Of an API server.
    pub(crate) const API: Self = Self { stdin: "stdin", stdout: "stdout", stderr: "stderr" };
    /// Of a kubelet.
    pub(crate) const KUBELET: Self = Self { stdin: "input", stdout: "output", stderr: "error" };
}

impl Order {
    pub(crate) fn read(query: &Query, words: Words, namespace: &str, pod: &str) -> Self {
        let tty = query.flag("tty");
        Self {
            command: query.all("command").map(str::to_owned).collect(),
            stdin: query.flag(words.stdin),
            stdout: query.flag(words.stdout),
            // A terminal has one stream for both.
            stderr: query.flag(words.stderr) && !tty,
            tty,
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
        }
    }
}

/// The size of a client's terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) width: u16,
    pub(crate) height: u16,
}

impl Size {
    pub(crate) fn read(json: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(json).ok()?;
        let number = |name| value[name].as_u64().and_then(|number| u16::try_from(number).ok());
        Some(Self { width: number("Width")?, height: number("Height")? })
    }
}

/// Where a piece of output belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Stdout,
    Stderr,
}

/// The client's ends of a command's streams.
pub(crate) struct Ends {
    /// Closed when the client's input is at its end.
    pub(crate) stdin: mpsc::Receiver<Bytes>,
    pub(crate) resize: mpsc::Receiver<Size>,
    pub(crate) output: mpsc::Sender<(Output, Bytes)>,
}

/// Runs the command to its end and says how it ended, as Kubernetes does. Dropping the future kills
/// what was started.
pub(crate) async fn run(shared: &Shared, order: &Order, ends: Ends) -> Value {
    if order.command.is_empty() {
        attach(shared, order, ends).await;
        return json!({ "metadata": {}, "status": "Success" });
    }
    let ended = if order.tty {
        with_terminal(&order.command, ends).await
    } else {
        with_pipes(order, ends).await
    };
    match ended {
        Ok(status) if status.success() => json!({ "metadata": {}, "status": "Success" }),
        Ok(status) => {
            // A signal is told the way a shell does.
            let code = status.code().unwrap_or_else(|| {
                128 + std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0)
            });
            json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("command terminated with non-zero exit code: exit code {code}"),
                "reason": "NonZeroExitCode",
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
            })
        }
        Err(error) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("error executing command: {error}"),
            "reason": "InternalError",
            "code": 500,
        }),
    }
}

async fn with_pipes(order: &Order, mut ends: Ends) -> std::io::Result<ExitStatus> {
    let [program, arguments @ ..] = order.command.as_slice() else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let pipe = |wanted| if wanted { Stdio::piped() } else { Stdio::null() };
    let mut child = clean(program)
        .args(arguments)
        .stdin(pipe(order.stdin))
        .stdout(pipe(order.stdout))
        .stderr(pipe(order.stderr))
        .process_group(0)
        .spawn()?;
    let mut group = Group::of(&child);
    let stdin = child.stdin.take();
    let stdout = copy(child.stdout.take(), Output::Stdout, ends.output.clone());
    let stderr = copy(child.stderr.take(), Output::Stderr, ends.output);
    let ended = async {
        let ((), (), status) = tokio::join!(stdout, stderr, child.wait());
        status
    };
    let status = tokio::select! {
        status = ended => status,
        () = feed(stdin, &mut ends.stdin) => return Err(std::io::ErrorKind::BrokenPipe.into()),
    };
    group.ended();
    status
}

async fn with_terminal(command: &[String], mut ends: Ends) -> std::io::Result<ExitStatus> {
    let (terminal, inner) = Terminal::open()?;
    // Taking a controlling terminal happens between fork and exec, which safe Rust cannot do;
    // `setsid` of util-linux can.
    let mut child = clean("setsid")
        .arg("--ctty")
        .args(command)
        .stdin(inner.try_clone()?)
        .stdout(inner.try_clone()?)
        .stderr(inner)
        .spawn()?;
    let mut group = Group::of(&child);
    let Terminal { output, input, screen } = terminal;
    let reading = copy(Some(output), Output::Stdout, ends.output);
    let typing = feed(Some(input), &mut ends.stdin);
    let resizing = async {
        while let Some(size) = ends.resize.recv().await {
            screen.resize(size);
        }
        std::future::pending::<()>().await;
    };
    let ended = async {
        let ((), status) = tokio::join!(reading, child.wait());
        status
    };
    let status = tokio::select! {
        status = ended => status,
        () = typing => return Err(std::io::ErrorKind::BrokenPipe.into()),
        () = resizing => return Err(std::io::ErrorKind::BrokenPipe.into()),
    };
    group.ended();
    status
}

/// Attaching shows what the pod writes from now on; what is typed is written to its log.
async fn attach(shared: &Shared, order: &Order, mut ends: Ends) {
    let (sender, mut lines) = mpsc::channel(16);
    let following = shared.logs.follow_from_now(&order.namespace, &order.pod, sender);
    let typing = async {
        while let Some(piece) = ends.stdin.recv().await {
            for line in String::from_utf8_lossy(&piece).lines() {
                shared.logs.write(&order.namespace, &order.pod, line);
            }
        }
        std::future::pending::<()>().await;
    };
    let showing = async {
        while let Some(line) = lines.recv().await {
            if ends.output.send((Output::Stdout, line)).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        // In this order, so that what is typed first is already followed.
        biased;
        _ = async { tokio::join!(following, showing) } => {}
        () = typing => {}
    }
}

fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(ENVIRONMENT.iter().copied()).current_dir("/").kill_on_drop(true);
    command
}

/// Hands the client's input on, then never returns: only the command's end is an end.
async fn feed(stdin: Option<impl AsyncWrite + Unpin>, pieces: &mut mpsc::Receiver<Bytes>) {
    if let Some(mut stdin) = stdin {
        while let Some(piece) = pieces.recv().await {
            if stdin.write_all(&piece).await.is_err() {
                break;
            }
        }
    }
    std::future::pending::<()>().await;
}

async fn copy(
    from: Option<impl AsyncRead + Unpin>,
    output: Output,
    to: mpsc::Sender<(Output, Bytes)>,
) {
    let Some(mut from) = from else { return };
    while let Some(piece) = next_piece(&mut from).await {
        if to.send((output, piece)).await.is_err() {
            return;
        }
    }
}

/// The processes of a command, killed together when the client leaves first.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    fn ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            // It may have ended a moment ago.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}
