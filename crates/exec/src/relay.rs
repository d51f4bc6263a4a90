//! `keyward-exec relay`: carries connections from a container's loopback address to the proxy's socket.
//!
//! kubeconfigs cannot name Unix sockets. TLS stays between the client and the proxy, so the relay needs
//! no secret and no cryptography.
//!
//! With a command, this process becomes the command, so that signals, the terminal and the exit code
//! are its own; a child of it is the relay, and ends with it.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::Arc,
    thread,
};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setsid};

use crate::{NAME, direct::not_run, misused, tell, var};

/// What a child says when it listens.
const READY: &[u8] = b"ready";

/// A pump needs little.
const STACK: usize = 64 * 1024;

struct Words<'a> {
    socket: PathBuf,
    listen: Option<&'a OsStr>,
    /// The process that a child ends with.
    parent: Option<Pid>,
    command: &'a [OsString],
}

pub(crate) fn run(words: &[OsString]) -> Result<ExitCode, String> {
    let Some(words) = parse(words) else { return Ok(misused()) };
    match (words.parent, words.command) {
        (Some(parent), _) => serve_child(&words, parent)?,
        (None, []) => serve(&listen(&words)?, &words.socket),
        (None, [program, args @ ..]) => return become_command(&words, program, args),
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(mut words: &[OsString]) -> Option<Words<'_>> {
    let mut parsed = Words { socket: PathBuf::new(), listen: None, parent: None, command: &[] };
    while let [flag, rest @ ..] = words {
        if flag == "--" {
            parsed.command = rest;
            break;
        }
        let [value, rest @ ..] = rest else { return None };
        match flag.to_str()? {
            "--socket" => parsed.socket = value.into(),
            "--listen" => parsed.listen = Some(value),
            "--parent" => parsed.parent = Pid::from_raw(value.to_str()?.parse().ok()?),
            _ => return None,
        }
        words = rest;
    }
    (!parsed.socket.as_os_str().is_empty()).then_some(parsed)
}

/// Listens at the address that the kubeconfig beside the socket names.
fn listen(words: &Words<'_>) -> Result<TcpListener, String> {
    let address = match words.listen {
        Some(address) => address.to_string_lossy().into_owned(),
        None => {
            let file = words.socket.with_file_name("address");
            fs::read_to_string(&file).map_err(|error| {
                format!(
                    "cannot read `{}`: {error}; is the directory of a grant mounted here?",
                    file.display()
                )
            })?
        }
    };
    let address: SocketAddr = address
        .trim()
        .parse()
        .map_err(|_| format!("`{}` is not an address such as `127.0.0.1:20001`", address.trim()))?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "`{address}` can be reached by others; the relay is for this container"
        ));
    }
    TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "`{address}` is in use: another relay runs here, or this is the network of the host, where \
             the kubeconfig works without a relay"
        ),
        _ => format!("cannot listen on `{address}`: {error}"),
    })
}

/// Starts the relay, waits until it listens, and becomes the command.
fn become_command(
    words: &Words<'_>,
    program: &OsStr,
    args: &[OsString],
) -> Result<ExitCode, String> {
    let mut child =
        start_child(words).map_err(|error| format!("cannot start the relay: {error}"))?;
    let mut answer = [0; READY.len()];
    let told = child.stdout.take().map(|mut stdout| stdout.read_exact(&mut answer));
    if !matches!(told, Some(Ok(()))) {
        // It has said why.
        let _ = child.wait();
        return Ok(ExitCode::FAILURE);
    }
    let error = command(program, words, args).exec();
    let _ = child.kill();
    let _ = child.wait();
    Ok(not_run(program, &error))
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing is started: this process becomes the command"
)]
fn command(program: &OsStr, words: &Words<'_>, args: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    let kubeconfig = words.socket.with_file_name("kubeconfig");
    if var("KUBECONFIG").is_none_or(|set| set.is_empty()) && kubeconfig.exists() {
        command.env("KUBECONFIG", kubeconfig);
    }
    command
}

#[expect(clippy::disallowed_methods, reason = "it runs as long as the command that this becomes")]
fn start_child(words: &Words<'_>) -> io::Result<Child> {
    // `keyward` is this program too, under this name.
    let own = env::current_exe().or_else(|error| {
        let named = env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
        named.ok_or(error)
    })?;
    let mut command = Command::new(own);
    command.arg0(NAME).args(["relay", "--parent"]).arg(std::process::id().to_string());
    command.arg("--socket").arg(&words.socket);
    if let Some(listen) = words.listen {
        command.arg("--listen").arg(listen);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
}

/// Serves until the process that started this has ended.
fn serve_child(words: &Words<'_>, parent: Pid) -> Result<(), String> {
    let listener = listen(words)?;
    // Ctrl-C is for the command.
    let _ = setsid();
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    if bound.is_err() || getppid() != Some(parent) {
        return Err("the process that the relay is for has ended".to_owned());
    }
    let mut stdout = io::stdout();
    stdout.write_all(READY).and_then(|()| stdout.flush()).map_err(|error| error.to_string())?;
    serve(&listener, &words.socket);
    Ok(())
}

/// Carries every connection.
fn serve(listener: &TcpListener, socket: &Path) {
    let mut told = String::new();
    for client in listener.incoming() {
        let Ok(client) = client else { continue };
        match UnixStream::connect(socket) {
            Ok(proxy) => {
                told.clear();
                carry(client, proxy);
            }
            // Once: clients try again and again.
            Err(error) => {
                let why = format!(
                    "cannot reach the proxy at `{}`: {error}; on the host, `keyward grant list` says \
                     whether the grant is in force",
                    socket.display()
                );
                if why != told {
                    tell(&why);
                    told = why;
                }
            }
        }
    }
}

fn carry(client: TcpStream, proxy: UnixStream) {
    let _ = client.set_nodelay(true);
    let both = Arc::new((client, proxy));
    let up = both.clone();
    spawn(move || {
        let _ = io::copy(&mut &up.0, &mut &up.1);
        let _ = up.1.shutdown(Shutdown::Write);
    });
    spawn(move || {
        let _ = io::copy(&mut &both.1, &mut &both.0);
        let _ = both.0.shutdown(Shutdown::Write);
    });
}

/// Without a thread, the connection is closed.
fn spawn(pump: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().stack_size(STACK).spawn(pump);
}
