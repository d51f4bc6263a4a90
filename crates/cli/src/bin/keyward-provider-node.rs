//! The image credential provider that asks all others.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward_cli::Bridge::Node.main()
}
