//! Texts that are made to be read badly.

use std::time::Duration;

use serde_json::json;

use super::Line;
use crate::{
    Failure, Outcome, got_through,
    process::Done,
    stage::{Stage, exec, kubeconfig, prints},
    untried,
};

pub const ALL: &[Line] = &[
    ("M3-kubeconfig", "a kubeconfig of many empty nodes", bomb_kubeconfig),
    ("M3-anchors", "a kubeconfig of many names", bomb_anchors),
    ("M3-answer", "a plugin's answer of many empty nodes", bomb_answer),
    ("M3-time", "a plugin's answer that takes longer to read than the plugin may", bomb_time),
    ("L13-clock", "a clock in 1900", clock_1900),
    ("L13-descriptors", "six, eight and fourteen file descriptors", descriptors),
    ("L19-length", "a command of five megabytes that an error repeats", long_command),
    ("L19-hint", "a hint to make `/dev/null` executable", null_hint),
    ("held-bombs", "deep, aliased, merged and self-referring kubeconfigs", bombs),
    ("held-lines", "line breaks in a token", lines),
    ("held-years", "clocks from 1970 to 9999", years),
];

/// `{a,a,a,…,b}` of this many bytes.
fn nodes(size: usize) -> String {
    format!("{{{}b}}", "a,".repeat(size / 2))
}

/// The budget for reading a text, in kB: twenty times its size, and eight megabytes.
fn budget(size: usize) -> u64 {
    u64::try_from(size * 20 / 1024 + 8 * 1024).unwrap_or(u64::MAX)
}

fn measured(done: &Done, ordinary: u64, size: usize) -> Outcome {
    let used = done.peak.saturating_sub(ordinary);
    let mb = size >> 20;
    if done.status.is_none() {
        return got_through(format!("{mb} MB: no end, with {} MB", done.peak / 1024));
    }
    if used > budget(size) {
        return got_through(format!("{mb} MB take {} MB in {:.1?}", used / 1024, done.took));
    }
    Ok(format!("{mb} MB in {} MB and {:.1?}", used / 1024, done.took))
}

fn size(stage: &Stage) -> usize {
    if stage.short { 4 << 20 } else { 15 << 20 }
}

fn bomb_kubeconfig(stage: &Stage) -> Outcome {
    bomb(stage, &format!("x: {}", nodes(size(stage))))
}

fn bomb_anchors(stage: &Stage) -> Outcome {
    let count = size(stage) / 18;
    bomb(stage, &(0..count).map(|n| format!("k{n:06}: &n{n:06} v\n")).collect::<String>())
}

/// Reads a kubeconfig with this at its end.
fn bomb(stage: &Stage, more: &str) -> Outcome {
    stage.write("config", yaml())?;
    let ordinary = stage.run(&mut stage.keyward(&["plan"]))?;
    if !ordinary.ok() {
        return untried(ordinary.why());
    }
    let text = format!("{}\n{more}\n", yaml());
    stage.write("config", &text)?;
    let done = stage.run(&mut stage.keyward(&["plan"]))?;
    measured(&done, ordinary.peak, text.len())
}

fn yaml() -> String {
    "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
     contexts: [{name: test, context: {cluster: test, user: test}}]\n\
     clusters: [{name: test, cluster: {server: 'https://127.0.0.1:1'}}]\n\
     users: [{name: test, user: {token: good}}]"
        .to_owned()
}

fn answer_of(stage: &Stage, size: usize) -> Result<(), Failure> {
    let answer = format!(
        "kind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\n\
         status: {{token: good}}\nx: {}\n",
        nodes(size)
    );
    let answer = stage.write("answer", answer)?;
    let plugin = stage.script("plugin", &format!("#!/bin/sh\nexec cat {}\n", answer.display()))?;
    stage.write("config", kubeconfig(&exec(&plugin, &[])))?;
    Ok(())
}

fn bomb_answer(stage: &Stage) -> Outcome {
    answer_of(stage, 2)?;
    let ordinary = stage.run(&mut stage.keyward(&["credential"]))?;
    if !ordinary.ok() {
        return untried(ordinary.why());
    }
    let mut seen = Vec::new();
    // The largest that is read, and one that once was.
    for size in [(1 << 20) - 1024, size(stage)] {
        answer_of(stage, size)?;
        let done = stage.run(&mut stage.keyward(&["credential"]))?;
        seen.push(measured(&done, ordinary.peak, size)?);
    }
    Ok(seen.join(", "))
}

fn bomb_time(stage: &Stage) -> Outcome {
    let mut seen = Vec::new();
    for size in [(1 << 20) - 1024, 15 << 20] {
        answer_of(stage, size)?;
        let mut command = stage.keyward(&["credential", "--plugin-timeout", "1s"]);
        let done = stage.run_for(&mut command, Duration::from_secs(30))?;
        // A slow machine gets four times the limit on top.
        if done.took > Duration::from_secs(5) {
            return got_through(format!("{:.1?} where 1 s was allowed", done.took));
        }
        seen.push(format!("{:.1?}: {}", done.took, done.why()));
    }
    Ok(seen.join(", "))
}

/// Runs the victim's `keyward` with the clock of another year.
fn at(stage: &Stage, time: &str, words: &[&str]) -> Result<Done, Failure> {
    crate::process::tool("faketime", "faketime", &["-v"])?;
    let mut command = stage.command(std::path::Path::new("/usr/bin/faketime"), stage.victim());
    command.args(["-f", time]).arg(stage.bin.join("keyward")).args(words);
    stage.run_for(&mut command, Duration::from_secs(15))
}

fn with_plugin(stage: &Stage) -> Result<(), Failure> {
    let user = stage.exec(&format!("#!/bin/sh\n{}", prints("good")))?;
    stage.write("config", kubeconfig(&user))?;
    Ok(())
}

fn clocks(stage: &Stage, years: &[&str]) -> Outcome {
    // The library asks the clock in a handshake, so there has to be one.
    let server = crate::stage::server()?;
    let user = stage.exec(&format!("#!/bin/sh\n{}", prints("good")))?;
    stage.write("config", server.kubeconfig(&user))?;
    for year in years {
        let time = format!("@{year}-03-04 05:06:07");
        for words in [&["credential", "-v"][..], &["plan"], &["get", "--raw", "/version"]] {
            let done = at(stage, &time, words)?;
            if done.panicked() || done.status.is_none() || done.code().is_none() {
                return got_through(format!("{year}, {words:?}: {:?} {}", done.status, done.why()));
            }
        }
    }
    Ok(format!("{} years without a panic", years.len()))
}

fn clock_1900(stage: &Stage) -> Outcome {
    clocks(stage, &["1900", "1902", "1969"])
}

fn years(stage: &Stage) -> Outcome {
    clocks(stage, &["1970", "1999", "2038", "2106", "2200", "9999"])
}

fn descriptors(stage: &Stage) -> Outcome {
    with_plugin(stage)?;
    let mut seen = Vec::new();
    for count in [6, 8, 14] {
        for words in ["credential", "get --raw /version", "plan"] {
            let script = format!("ulimit -n {count}; exec \"$KEYWARD\" {words}");
            let done = stage.run(&mut stage.shell(&script))?;
            if done.panicked() || done.code().is_none() {
                return got_through(format!(
                    "{words} with {count}: {:?} {}",
                    done.status,
                    done.why()
                ));
            }
            let said = done.stderr.to_lowercase();
            // `get` cannot reach its server either way.
            let reason = [
                "too many open files",
                "files may be open",
                "descriptor",
                "os error 24",
                "refused (os",
            ];
            if !done.ok() && !reason.iter().any(|reason| said.contains(reason)) {
                return got_through(format!(
                    "{words} with {count}, a wrong reason: {}",
                    said.trim()
                ));
            }
            seen.push(done.code().unwrap_or(-1));
        }
    }
    Ok(format!("exit codes {seen:?}"))
}

fn long_command(stage: &Stage) -> Outcome {
    let long = "c".repeat(5 << 20);
    stage.write("config", kubeconfig(&exec(std::path::Path::new(&long), &[])))?;
    for words in [&["credential"][..], &["get", "--raw", "/version"], &["credential", "-vv"]] {
        let done = stage.run(&mut stage.keyward(words))?;
        let said = done.said().len();
        if said > 100_000 {
            return got_through(format!("{words:?} prints {said} bytes"));
        }
    }
    Ok("cut".to_owned())
}

fn null_hint(stage: &Stage) -> Outcome {
    stage.write("config", kubeconfig(&exec(std::path::Path::new("/dev/null"), &[])))?;
    let done = stage.run(&mut stage.keyward(&["credential"]))?;
    if done.said().contains("chmod") {
        return got_through(done.said());
    }
    Ok(done.why())
}

fn bombs(stage: &Stage) -> Outcome {
    let mut laughs = "a0: &a0 [l,l,l,l,l,l,l,l,l,l]\n".to_owned();
    let mut merges = "m0: &m0 {k: v}\n".to_owned();
    for level in 1..12 {
        let of = |letter: char| vec![format!("*{letter}{}", level - 1); 10].join(",");
        laughs.push_str(&format!("a{level}: &a{level} [{}]\n", of('a')));
        merges.push_str(&format!("m{level}: &m{level} {{<<: [{}], k{level}: v}}\n", of('m')));
    }
    let cases = [
        ("depth", format!("x: {}\n", "[".repeat(1 << 20))),
        ("block depth", (0..5_000).map(|n| format!("{}k:\n", " ".repeat(n))).collect()),
        ("aliases", laughs),
        ("merges", merges),
        ("self", "a: &a [*a]\nb: &b {<<: *b}\n".to_owned()),
    ];
    let mut most = (0, Duration::ZERO);
    for (name, bomb) in cases {
        stage.write("config", format!("{}\n{bomb}", yaml()))?;
        let done = stage.run_for(&mut stage.keyward(&["plan"]), Duration::from_secs(30))?;
        let bound = budget(bomb.len()).max(100_000);
        if done.status.is_none() || done.panicked() || done.code().is_none() || done.peak > bound {
            return got_through(format!("{name}: {} MB, {:?}", done.peak / 1024, done.took));
        }
        most = (most.0.max(done.peak), most.1.max(done.took));
    }
    Ok(format!("at most {} MB and {:.1?}", most.0 / 1024, most.1))
}

fn lines(stage: &Stage) -> Outcome {
    let server = crate::stage::server()?;
    for token in ["good\\r\\nX-Evil: 1", "good\\nX-Evil: 1", "good\\r\\n", "go\\u0000od", "good\\n"]
    {
        let user = stage.exec(&format!("#!/bin/sh\n{}", prints(token)))?;
        stage.write("config", server.kubeconfig(&user))?;
        stage.run(&mut stage.keyward(&["get", "--raw", "/version"]))?;
        let file = stage.write("token", token.replace("\\r", "\r").replace("\\n", "\n"))?;
        stage.write("config", server.kubeconfig(&json!({ "tokenFile": file })))?;
        stage.run(&mut stage.keyward(&["get", "--raw", "/version"]))?;
    }
    if let Some(record) = server.recorder().all().iter().find(|r| r.header("x-evil").is_some()) {
        return got_through(format!("a header of its own arrives: {:?}", record.headers));
    }
    Ok(format!("{} requests, no other header", server.recorder().all().len()))
}
