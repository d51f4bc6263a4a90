//! Prints to stdout in every way there is, as a careless dependency would.

use std::{
    fs::OpenOptions,
    io::Write,
    process::{Command, ExitCode},
};

use keyward_plugin::{Credential, Question, Refusal, serve};

#[expect(clippy::print_stdout, clippy::disallowed_methods, reason = "this is what it is for")]
fn credential(_question: &Question) -> Result<Credential, Refusal> {
    println!("noise of a library");
    print!("noise without an end of line");
    Command::new("sh").args(["-c", "echo noise of a child"]).status()?;
    let mut stdout = OpenOptions::new().append(true).open("/dev/fd/1")?;
    writeln!(stdout, "noise on the descriptor")?;
    Ok(Credential::token("clean"))
}

fn main() -> ExitCode {
    let code = serve(credential);
    #[expect(clippy::print_stdout, reason = "this is what it is for")]
    {
        println!("noise after the answer");
    }
    code
}
