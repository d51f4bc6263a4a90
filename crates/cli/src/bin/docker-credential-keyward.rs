//! Docker's credential helper that asks image credential providers.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward_cli::Bridge::Helper.main()
}
