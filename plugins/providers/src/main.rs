//! The program; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward_providers::main(std::env::args_os())
}
