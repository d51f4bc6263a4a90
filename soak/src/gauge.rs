//! Descriptors and memory of this process, as the kernel tells them.

use std::{fs, time::Duration};

use tokio::sync::watch as signal;

/// One look.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub descriptors: usize,
    /// Resident memory, in KiB.
    pub memory: usize,
}

/// Looks several times a second until the end.
pub async fn read(ending: signal::Receiver<bool>) -> Vec<Reading> {
    read_of("self".to_owned(), ending).await
}

/// Reads another process several times a second until the end.
pub async fn read_of(process: String, mut ending: signal::Receiver<bool>) -> Vec<Reading> {
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    let mut readings = Vec::new();
    loop {
        tokio::select! {
            _ = ending.wait_for(|over| *over) => return readings,
            _ = ticks.tick() => readings.extend(look(&process)),
        }
    }
}

fn look(process: &str) -> Option<Reading> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let memory = line.split_whitespace().next()?.parse().ok()?;
    Some(Reading { descriptors, memory })
}
