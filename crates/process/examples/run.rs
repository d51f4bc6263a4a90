//! Runs a program for at most five seconds and prints what it wrote.
//! `cargo run -p keyward-process --example run -- /bin/echo hello`
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use std::{env, error::Error, time::Duration};

use keyward_process::runner::{self, Cancel, Invocation};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args_os().skip(1);
    let program = words.next().ok_or("name a program by its path")?;
    let mut invocation = Invocation::new(program);
    invocation.args = words.collect();
    invocation.budget = Duration::from_secs(5);
    let output = runner::run(&invocation, &Cancel::default())?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if output.status.success() { Ok(()) } else { Err("it failed".into()) }
}
