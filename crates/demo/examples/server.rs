//! Starts an API server that accepts one token, until Enter is pressed.
//! `cargo run -p keyward-demo --example server`
#![allow(clippy::print_stdout, reason = "printing is all it does")]

use std::{error::Error, io};

use keyward_demo::server::{Server, User};

fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::setup().start()?;
    server.users().token("a-token", User::new("anna").group("dev"));
    let url = server.url();
    println!("curl --insecure --header 'Authorization: Bearer a-token' {url}/whoami");
    io::stdin().read_line(&mut String::new())?;
    println!("{} requests", server.counts().requests);
    Ok(())
}
