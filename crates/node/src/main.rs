//! The program `keyward-provider-node`. All of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward_node::program()
}
