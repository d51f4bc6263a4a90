//! Gets the credential of a context and says what kind it is and until when it is valid.
//! `cargo run -p keyward-host --example credential -- [CONTEXT]`
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use keyward_host::{Error, Kubeconfig, Overrides, Plan, PlanSettings, Sources, rules::Rules};
use keyward_process::surroundings::Surroundings;

fn main() -> Result<(), Error> {
    let surroundings = Surroundings::process();
    let overrides = Overrides { context: std::env::args().nth(1), ..Overrides::default() };
    let target = Kubeconfig::load(&surroundings, None)?.resolve(&overrides, &surroundings)?;
    let rules = Rules::load(&surroundings, None)?;
    let plan = Plan::new(target, &rules, &surroundings, PlanSettings::default())?;
    let credential = Sources::global().open(&plan).credential_blocking()?;
    let kind = if credential.token().is_some() { "a token" } else { "no token" };
    match credential.expires() {
        Some(at) => println!("{kind}, valid until {at}"),
        None => println!("{kind}, without an expiry"),
    }
    Ok(())
}
