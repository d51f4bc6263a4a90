//! The image credential provider that returns the pod's service account token.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward_cli::Bridge::Token.main()
}
