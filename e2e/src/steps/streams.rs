//! What pods write, run and serve, by kubectl through `keyward proxy` to the real API server, which
//! hands it on to the node: each by WebSocket and by SPDY.

mod noise;
mod scene;

use std::{fs, process::Stdio};

use keyward_testing::pty::Pty;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use self::{
    noise::Noise,
    scene::{Scene, WAYS, lines, next},
};
use crate::{
    Failure, Outcome,
    cluster::{Cluster, TOKEN},
    node, tools,
};

/// What is copied, and what a port carries.
const FILE: usize = 50_000_000;
const FLOW: usize = 100_000_000;

/// What is written after the client began arrives, and the end of the log is the end of the client.
pub async fn logs(cluster: &Cluster) -> Outcome<String> {
    let scene = Scene::new(cluster, "logs").await?;
    let log = cluster.node.kubelet.logs();
    log.write(node::NAMESPACE, &scene.pod, "one");
    let mut follow = scene.kubectl(WAYS[0], &["logs", "-f", &scene.pod]);
    let mut follow = follow.stdout(Stdio::piped()).spawn()?;
    let mut lines = lines(&mut follow)?;
    next(&mut lines, Some("one")).await?;
    for word in ["two", "three"] {
        log.write(node::NAMESPACE, &scene.pod, word);
        next(&mut lines, Some(word)).await?;
    }
    log.end(node::NAMESPACE, &scene.pod);
    next(&mut lines, None).await?;
    let status = follow.wait().await?;
    if !status.success() {
        return Err(format!("the log ended, and kubectl with {status}").into());
    }
    scene.asked("log", &["get 200"]).await?;
    Ok(format!("lines while they are written, and their end; {}", node::USER))
}

/// Input, both outputs and the exit code; and for nobody else.
pub async fn exec(cluster: &Cluster) -> Outcome<String> {
    let scene = Scene::new(cluster, "exec").await?;
    let other = cluster.kubeconfig(&serde_json::json!({ "token": TOKEN }))?;
    let args = ["exec", "-i", &scene.pod, "--", "sh", "-c", "sort; echo err >&2; exit 7"];
    for way in WAYS {
        let mut command = scene.kubectl(way, &args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // Dropped, so that `sort` sees the end.
        child.stdin.take().ok_or("no stdin")?.write_all(b"b\nc\na\n").await?;
        let seen = child.wait_with_output().await?;
        let stderr = String::from_utf8_lossy(&seen.stderr);
        if (seen.status.code(), &*seen.stdout) != (Some(7), b"a\nb\nc\n")
            || !stderr.starts_with("err\n")
        {
            let stdout = String::from_utf8_lossy(&seen.stdout);
            return Err(format!("{way}: {}, {stdout:?}, {stderr:?}", seen.status).into());
        }
        let ran = tools::run(&mut scene.other(way, &other, &args)).await?;
        if !ran.stderr.contains("forbidden") {
            return Err(format!("{way}: tom gets {}, {}", ran.status, ran.stderr).into());
        }
    }
    let asked = scene.upgrades("exec", 1).await?;
    Ok(format!("input, both outputs and exit code, {asked}; not as tom"))
}

/// A person in front of a terminal: its size, a new size, Ctrl-C, and the exit code.
pub async fn terminal(cluster: &Cluster) -> Outcome<String> {
    let scene = Scene::new(cluster, "terminal").await?;
    for way in WAYS {
        let command = scene.kubectl(way, &["exec", "-it", &scene.pod, "--", "sh"]);
        // What it waits for makes it panic when it does not come, which ends the step.
        let work = tokio::task::spawn_blocking(move || person(&command.into_std()));
        let code = work.await.map_err(|e| format!("{way}: {e}"))??;
        if code != Some(9) {
            return Err(format!("{way}: the shell ends with 9, kubectl with {code:?}").into());
        }
    }
    let asked = scene.upgrades("exec", 1).await?;
    Ok(format!("sizes, Ctrl-C and exit code of a terminal, {asked}"))
}

/// What is typed is not what is waited for: the terminal shows both.
fn person(command: &std::process::Command) -> Outcome<Option<i32>> {
    let mut terminal = Pty::spawn(command)?;
    terminal.resize(33, 77)?;
    terminal.type_in("test -t 0 && test -t 1 && test -t 2 && echo on-a-\"terminal\"\n")?;
    terminal.wait_for("on-a-terminal");
    for (rows, columns) in [(33, 77), (40, 100)] {
        terminal.resize(rows, columns)?;
        let size = format!("{rows} {columns}");
        terminal.type_in(&format!("until [ \"$(stty size)\" = '{size}' ]; do :; done\n"))?;
        terminal.type_in(&format!("echo {rows}-\"by\"-{columns}\n"))?;
        terminal.wait_for(&format!("{rows}-by-{columns}"));
    }
    // A loop of the shell's own: a shell that is interrupted just before it starts a program runs
    // the trap only after the program.
    let wait = "trap 'echo inter\"rupted\"; exit 9' INT; echo wai\"ting\"; while :; do :; done\n";
    terminal.type_in(wait)?;
    terminal.wait_for("waiting");
    terminal.type_in("\x03")?;
    terminal.wait_for("interrupted");
    Ok(terminal.finish().code())
}

/// What is typed reaches what runs, and what that writes comes back until it ends.
pub async fn attach(cluster: &Cluster) -> Outcome<String> {
    let log = cluster.node.kubelet.logs();
    for way in WAYS {
        let scene = Scene::new(cluster, &format!("attach-{way}")).await?;
        let mut command = scene.kubectl(way, &["attach", "-i", &scene.pod]);
        // What it says to people is not for this one.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut attached = command.spawn()?;
        let mut stdin = attached.stdin.take().ok_or("no stdin")?;
        let mut lines = lines(&mut attached)?;
        stdin.write_all(b"typed\n").await?;
        next(&mut lines, Some("typed")).await?;
        log.write(node::NAMESPACE, &scene.pod, "said by the pod");
        next(&mut lines, Some("said by the pod")).await?;
        log.end(node::NAMESPACE, &scene.pod);
        next(&mut lines, None).await?;
        let status = attached.wait().await?;
        if !status.success() {
            return Err(format!("{way}: the pod ended, and kubectl with {status}").into());
        }
        scene.asked("attach", &[way.asks()]).await?;
    }
    Ok("what is typed, what is said and the end, by WebSocket and by SPDY".to_owned())
}

/// There and back, and every byte is compared.
pub async fn copy(cluster: &Cluster) -> Outcome<String> {
    let scene = Scene::new(cluster, "copy").await?;
    let data = Noise::new().take(FILE);
    let here = scene.file("data")?;
    fs::write(&here, &data)?;
    for way in WAYS {
        let (there, back) =
            (scene.file(&format!("there-{way}"))?, scene.file(&format!("back-{way}"))?);
        let remote = format!("{}:{there}", scene.pod);
        for (what, args) in [(&there, ["cp", &here, &remote]), (&back, ["cp", &remote, &back])] {
            tools::succeed(&mut scene.kubectl(way, &args))
                .await
                .map_err(|e| format!("{way}: {e}"))?;
            if fs::read(what)? != data {
                return Err(format!("{way}: `{what}` is not what was sent").into());
            }
        }
    }
    // Before it sends, kubectl asks whether the other end is a directory.
    let asked = scene.upgrades("exec", 3).await?;
    Ok(format!("{} MB there and back, equal, {asked}", FILE / 1_000_000))
}

/// There and back through a port, to the end of either direction.
pub async fn forward(cluster: &Cluster) -> Outcome<String> {
    let scene = Scene::new(cluster, "forward").await?;
    cluster.node.kubelet.ports().map(8080, echo().await?);
    for way in WAYS {
        let mut command = scene.kubectl(way, &["port-forward", &scene.pod, ":8080"]);
        let mut forward = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = lines(&mut forward)?;
        let line = lines.next_line().await?.unwrap_or_default();
        let port = line.split(':').nth(1).and_then(|rest| rest.split(' ').next());
        let port = port.ok_or_else(|| format!("{way}: kubectl says {line:?}"))?;
        let stream = TcpStream::connect(format!("127.0.0.1:{port}")).await?;
        let (from, mut to) = stream.into_split();
        let sending = tokio::spawn(async move {
            let mut noise = Noise::new();
            for _ in 0..FLOW / noise::PIECE {
                to.write_all(&noise.take(noise::PIECE)).await?;
            }
            to.shutdown().await
        });
        let (mut from, mut noise) = (BufReader::new(from), Noise::new());
        let mut piece = vec![0; noise::PIECE];
        for number in 0..FLOW / noise::PIECE {
            let read = from.read_exact(&mut piece).await;
            read.map_err(|e| format!("{way}: at piece {number}: {e}"))?;
            if piece != noise.take(noise::PIECE) {
                return Err(format!("{way}: piece {number} is not what was sent").into());
            }
        }
        sending.await??;
        if from.read(&mut piece).await? != 0 {
            return Err(format!("{way}: more came than was sent").into());
        }
        forward.kill().await?;
    }
    let asked = scene.upgrades("portforward", 1).await?;
    Ok(format!("{} MB there and back, equal, {asked}", FLOW / 1_000_000))
}

/// A server that says what it is told, to the end.
async fn echo() -> Outcome<std::net::SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await?;
                to.shutdown().await?;
                Ok::<_, Failure>(())
            });
        }
    });
    Ok(address)
}
