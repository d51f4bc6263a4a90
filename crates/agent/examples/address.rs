//! Says where the agent of this user listens.
//! `cargo run -p keyward-agent --example address`
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "an example of its own")]

#[cfg(unix)]
fn main() -> Result<(), keyward_agent::Unusable> {
    let address = keyward_agent::Address::find(|name| std::env::var_os(name))?;
    println!("{}", address.socket.display());
    Ok(())
}

#[cfg(not(unix))]
fn main() {}
