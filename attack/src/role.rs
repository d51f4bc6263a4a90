//! What this program does as somebody else: started by an attack under another user id.

use std::{
    fs,
    net::TcpStream,
    process::ExitCode,
    time::{Duration, Instant},
};

/// Plays the role that the arguments name.
pub fn play(args: &[String]) -> ExitCode {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["connect", address, seconds] => connect(address, seconds),
        ["linger", address, count] => linger(address, count),
        ["watch-environ", word] => watch_environ(word),
        ["read-memory", pid, word] => read_memory(pid, word),
        _ => None,
    };
    if done.is_some() { ExitCode::SUCCESS } else { ExitCode::from(99) }
}

/// Connects as often as it can, and keeps the last few hundred open; prints how often.
fn connect(address: &str, seconds: &str) -> Option<()> {
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(seconds.parse().ok()?));
    let mut held = std::collections::VecDeque::new();
    let mut count = 0_u64;
    while began.elapsed() < limit {
        if let Ok(stream) = TcpStream::connect(address) {
            count += 1;
            held.push_back(stream);
        }
        if held.len() > 600 {
            held.pop_front();
        }
    }
    println!("{count}");
    Some(())
}

/// Opens this many connections and says nothing on them until it is ended.
fn linger(address: &str, count: &str) -> Option<()> {
    let count: usize = count.parse().ok()?;
    let mut held = std::collections::VecDeque::new();
    // Where the other side closes, another takes the place.
    loop {
        if let Ok(stream) = TcpStream::connect(address) {
            held.push_back(stream);
        }
        if held.len() > count {
            held.pop_front();
        }
        if held.len() == count {
            println!("full");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Looks for a word in the environment of every process of this user, until it is ended.
fn watch_environ(word: &str) -> Option<()> {
    let mut found = 0_u64;
    // What runs already is of no interest, and looking at it takes the time that it would take to
    // see what is new.
    let old: std::collections::HashSet<u32> = crate::process::pids().into_iter().collect();
    loop {
        for pid in crate::process::pids().into_iter().filter(|pid| !old.contains(pid)) {
            let text = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if contains(&text, word.as_bytes()) {
                found += 1;
                println!("{found} {pid}");
            }
        }
    }
}

/// Looks for a word in another process' memory; prints how often it is there, or why it cannot.
fn read_memory(pid: &str, word: &str) -> Option<()> {
    use std::os::unix::fs::FileExt as _;
    let maps = match fs::read_to_string(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps,
        Err(error) => {
            println!("refused {error}");
            return Some(());
        }
    };
    let memory = match fs::File::open(format!("/proc/{pid}/mem")) {
        Ok(memory) => memory,
        Err(error) => {
            println!("refused {error}");
            return Some(());
        }
    };
    let mut count = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        let from = u64::from_str_radix(from, 16).ok()?;
        let to = u64::from_str_radix(to, 16).ok()?;
        let mut bytes = vec![0; usize::try_from(to - from).ok()?.min(64 << 20)];
        if let Ok(size) = memory.read_at(&mut bytes, from) {
            let bytes = &bytes[..size];
            count += bytes.windows(word.len()).filter(|window| *window == word.as_bytes()).count();
        }
    }
    println!("copies {count}");
    Some(())
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
