//! `cargo xtask soak --agent`: the agent under crowds, kills, an upgrade, systemd and switches of
//! identity.

mod crash;
mod crowd;
mod handover;
mod identity;
mod scene;
mod unit;

use std::error::Error;

use crate::verdict::Verdict;

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub struct Amount {
    /// Rounds of processes that find no agent.
    pub rounds: usize,
    /// Requests across switches of identity.
    pub asks: usize,
}

/// Runs it to the end. An error says that it could not begin.
pub fn soak(amount: Amount, seed: u64) -> Result<Vec<Verdict>, Box<dyn Error + Send + Sync>> {
    let mut verdicts = Vec::new();
    // As they come: the whole takes long.
    let mut add = |verdict: Verdict| {
        println!("{verdict}");
        verdicts.push(verdict);
    };
    for kubectls in [20, 200] {
        add(crowd::soak(kubectls, amount.rounds)?);
    }
    for verdict in crash::soak()? {
        add(verdict);
    }
    add(handover::soak()?);
    add(unit::soak()?);
    for verdict in identity::soak(amount.asks, seed)? {
        add(verdict);
    }
    println!();
    Ok(verdicts)
}
