//! Asks the providers of a configuration for an image's logins and says who has one, without its password.
//! `cargo run -p keyward-image --example login -- CONFIG IMAGE`
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use std::{error::Error, path::Path, sync::Arc};

use keyward_host::NoopObserver;
use keyward_image::{Config, Images, Settings};
use keyward_process::{clock::SystemClock, surroundings::Surroundings};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [config, image] = &arguments[..] else {
        return Err("give a provider configuration and an image".into());
    };
    let config = Config::load(Path::new(config))?;
    let surroundings = Surroundings::process();
    let (clock, observer) = (Arc::new(SystemClock), Arc::new(NoopObserver));
    let images = Arc::new(Images::new(Settings::default(), surroundings, clock, observer));
    let lookup = images.lookup(&config, image, None)?;
    for found in &lookup.logins {
        println!("provider `{}`: user `{}`", found.provider.name, found.login.username);
    }
    for failure in lookup.failures() {
        println!("{failure:#}");
    }
    Ok(())
}
