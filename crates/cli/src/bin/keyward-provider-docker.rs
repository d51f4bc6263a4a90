//! The image credential provider that answers from docker's `config.json`.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward_cli::Bridge::Docker.main()
}
