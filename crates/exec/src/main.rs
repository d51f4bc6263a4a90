//! The program `keyward-exec`. All of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward_exec::main()
}
